//! What is wrong now: told in the log once when it begins and once when it ends, and kept until then for whoever asks.
//!
//! An alarm is known by its kind and what it concerns. Raised by the parts of the control thread that see a failure; there are as many at most
//! as there are things that can fail.

use std::collections::BTreeMap;
use std::time::Instant;

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AlarmKind {
    /// The link of an uplink's port is down.
    UplinkDown,
    /// The link of a port is down whose LAG goes on with others.
    LagDegraded,
    /// A LAG has fewer links that carry traffic than it needs.
    LagDown,
    /// A link that works is left out of its LAG.
    LinkExcluded,
    /// A link goes down again and again, and is not used until it is quiet.
    LinkFlapping,
    /// Every TEP of the node is faulty.
    NodeIsolated,
    /// A TEP of the node is not used.
    TepFaulty,
    /// A TEP of another node is not reached from one of this node's.
    TunnelDown,
    /// A neighbour on an interface, which BFD watches, is not reached.
    NeighborDown,
    /// A path that BFD watches goes down again and again, and is not used until it is quiet.
    PathFlapping,
    /// Paths that are to be watched have no BFD session, since there are too many.
    BfdSessionsFull,
    /// BFD packets are refused, many in a short time.
    BfdRefused,
    /// Another station uses an address of this node.
    AddressConflict,
}

impl AlarmKind {
    /// As in the CLI.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::UplinkDown => "uplink-down",
            Self::LagDegraded => "lag-degraded",
            Self::LagDown => "lag-down",
            Self::LinkExcluded => "link-excluded",
            Self::LinkFlapping => "link-flapping",
            Self::NodeIsolated => "node-isolated",
            Self::TepFaulty => "tep-faulty",
            Self::TunnelDown => "tunnel-down",
            Self::NeighborDown => "neighbor-down",
            Self::PathFlapping => "path-flapping",
            Self::BfdSessionsFull => "bfd-sessions-full",
            Self::BfdRefused => "bfd-refused",
            Self::AddressConflict => "address-conflict",
        }
    }
}

/// An alarm that is open.
#[derive(Clone, Debug)]
pub(super) struct Alarm {
    pub(super) since: Instant,
    /// What is wrong, in one sentence without a full stop.
    pub(super) description: String,
}

/// The open alarms, by kind and what they concern.
#[derive(Debug, Default)]
pub(super) struct Alarms(BTreeMap<(AlarmKind, String), Alarm>);

impl Alarms {
    /// Something is wrong. One that is open already keeps its beginning and is not told again, unless it has another description.
    pub(super) fn raise(&mut self, kind: AlarmKind, object: &str, description: String) {
        let key = (kind, object.to_owned());
        if self.0.get(&key).is_some_and(|open| open.description == description) {
            return;
        }
        tracing::warn!(alarm = kind.name(), object, "{description}");
        let since = self.0.get(&key).map_or_else(Instant::now, |open| open.since);
        self.0.insert(key, Alarm { since, description });
    }

    /// There is something else to say of an alarm that is open, neither worse nor its end.
    pub(super) fn revise(&mut self, kind: AlarmKind, object: &str, description: String) {
        let open = self.0.get_mut(&(kind, object.to_owned()));
        if let Some(open) = open.filter(|open| open.description != description) {
            tracing::info!(alarm = kind.name(), object, "{description}");
            open.description = description;
        }
    }

    /// It is over, if it was open.
    pub(super) fn clear(&mut self, kind: AlarmKind, object: &str, sentence: &str) {
        if self.0.remove(&(kind, object.to_owned())).is_some() {
            tracing::info!(alarm = kind.name(), object, "{sentence}");
        }
    }

    /// Those that are open, by kind and object.
    pub(super) fn open(&self) -> impl Iterator<Item = (AlarmKind, &str, &Alarm)> {
        self.0.iter().map(|((kind, object), alarm)| (*kind, object.as_str(), alarm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_open_from_its_first_raise_to_its_end() {
        let mut alarms = Alarms::default();
        alarms.raise(AlarmKind::TepFaulty, "tep-1", "its link is down".into());
        let since = |alarms: &Alarms| alarms.open().next().map(|(_, _, alarm)| alarm.since);
        let first = since(&alarms);
        alarms.raise(AlarmKind::TepFaulty, "tep-1", "no session is up".into());
        alarms.raise(AlarmKind::TepFaulty, "tep-2", "its link is down".into());
        assert_eq!(since(&alarms), first, "another reason, the same alarm");
        let open: Vec<_> = alarms.open().map(|(_, object, alarm)| (object, &*alarm.description)).collect();
        assert_eq!(open, [("tep-1", "no session is up"), ("tep-2", "its link is down")]);
        alarms.revise(AlarmKind::TepFaulty, "tep-2", "it waits for its recovery".into());
        alarms.revise(AlarmKind::TepFaulty, "tep-3", "it is not faulty".into());
        let open: Vec<_> = alarms.open().map(|(_, object, alarm)| (object, &*alarm.description)).collect();
        assert_eq!(open, [("tep-1", "no session is up"), ("tep-2", "it waits for its recovery")]);
        alarms.clear(AlarmKind::TunnelDown, "tep-1", "never raised");
        alarms.clear(AlarmKind::TepFaulty, "tep-1", "works again");
        assert_eq!(alarms.open().count(), 1);
    }
}
