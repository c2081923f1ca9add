//! What is wrong with TEPs and with the paths that BFD watches, in words, and the alarms of paths.

use sluice_protocols::bfd::{Path, PathFault};
use sluice_protocols::tep_health::{Cause, Health, TepView};

use super::alarms::{AlarmKind, Alarms};
use super::watched::is_of_neighbor;

/// The alarm of a path that is not reached.
pub(super) const fn alarm_kind(path: &Path) -> AlarmKind {
    if is_of_neighbor(path) { AlarmKind::NeighborDown } else { AlarmKind::TunnelDown }
}

/// What an alarm of a path concerns.
pub(super) fn object(path: &Path) -> String {
    format!("{} to {}", path.local, path.remote)
}

/// Raises the alarms of a path for what keeps it from being used, or ends them. `alone`: nothing else tells of it already.
pub(super) fn tell(path: &Path, fault: Option<PathFault>, alone: bool, alarms: &mut Alarms) {
    let Path { local, remote, .. } = path;
    let (what, others) = if is_of_neighbor(path) { ("neighbour", "next hops") } else { ("TEP", "TEPs") };
    let (kind, object) = (alarm_kind(path), object(path));
    let Some(fault) = fault else {
        let sentence = format!("{what} {remote} is reached from {local} again");
        alarms.clear(kind, &object, &sentence);
        alarms.clear(AlarmKind::PathFlapping, &object, &sentence);
        return;
    };
    let reason = fault_in_words(fault);
    let so = format!(
        "{what} {remote} is not reached from {local} ({reason}); flows take other {others} where there are any"
    );
    if fault == PathFault::Flapping {
        let sentence = format!("{so}, until it has been quiet for 10 seconds: look at the path between them");
        alarms.raise(AlarmKind::PathFlapping, &object, sentence);
        alarms.clear(kind, &object, "it goes down again and again");
        return;
    }
    alarms.clear(AlarmKind::PathFlapping, &object, "it has been quiet for 10 seconds");
    if alone {
        alarms.raise(kind, &object, format!("{so}: look at the path between them"));
    }
}

/// Why a path is not used, for people.
fn fault_in_words(fault: PathFault) -> String {
    match fault {
        PathFault::Down(diagnostic) => diagnostic.to_string(),
        PathFault::NotBack => "its session has not come up since the link did".to_owned(),
        PathFault::OneWay => "it is heard, and does not hear this node".to_owned(),
        PathFault::FellSilent => "it was heard, and fell silent before the session was up".to_owned(),
        PathFault::NeverHeard => "it has never answered".to_owned(),
        PathFault::Flapping => "its session goes down again and again".to_owned(),
    }
}

/// Why a TEP is faulty, for people.
const fn cause_in_words(cause: Cause) -> &'static str {
    match cause {
        Cause::NoAddress => "it has no address",
        Cause::LinkDown => "its link is down",
        Cause::SessionsDown => "none of its BFD sessions is up",
    }
}

/// Why a TEP is not used, for people; nothing where it is.
pub(super) const fn reason_of_tep(view: &TepView) -> &'static str {
    match view.health {
        Health::Healthy | Health::Suspect => "",
        Health::Faulty(_) if view.works => "it works, and waits for its recovery",
        Health::Faulty(cause) => cause_in_words(cause),
    }
}

/// What the alarm of a TEP says, if it is faulty.
pub(super) fn fault_of_tep(name: &str, view: &TepView) -> Option<String> {
    let reason = reason_of_tep(view);
    let sentence = match view.health {
        Health::Healthy | Health::Suspect => return None,
        Health::Faulty(cause) if view.works => format!(
            "TEP '{name}' was faulty ({}); {reason}: 'set tep {name} recover' uses it at once, 'get tn-tep-groups' says when it is tried",
            cause_in_words(cause)
        ),
        Health::Faulty(_) => {
            format!("TEP '{name}' is faulty: {reason}; its flows take other TEPs where there are any")
        }
    };
    Some(sentence)
}
