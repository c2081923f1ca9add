//! Whether a path is used, as the other end of its session comes, goes, and falls silent.

use std::time::Duration;

use sluice_protocols::bfd::{Action, FIRST_CONTACT, PathFault, PathState, SessionConfig};
use sluice_wire::bfd::{BfdDiagnostic, BfdState};

use crate::support::{Conversation, ms, path};

/// A session, its path, and what there was to tell.
struct Watched {
    conversation: Conversation,
    state: PathState,
    /// Each fault that was told, and each end of one.
    told: Vec<Option<PathFault>>,
}

impl Watched {
    fn new(expected: bool) -> Self {
        let conversation = Conversation::new(SessionConfig::every(ms(300), 3));
        let state = PathState::new(expected, conversation.now);
        Self { conversation, state, told: Vec::new() }
    }

    fn up() -> Self {
        let mut watched = Self::new(false);
        watched.comes_up();
        watched
    }

    fn act(&mut self) {
        while let Some(action) = self.conversation.sessions.next_action() {
            if let Action::StateChanged { from, .. } = action {
                let before = self.state.fault();
                self.state.session_changed(from, &self.conversation.view(), self.conversation.now);
                self.told.extend((self.state.fault() != before).then(|| self.state.fault()));
            }
        }
    }

    fn say(&mut self, state: BfdState) {
        self.conversation.say(state).unwrap();
        self.act();
    }

    fn comes_up(&mut self) {
        self.say(BfdState::Down);
        self.say(BfdState::Init);
    }

    /// Time passes without a word of the other end.
    fn pass(&mut self, time: Duration) {
        let end = self.conversation.now.after(time);
        loop {
            let next =
                self.conversation.sessions.next_event().into_iter().chain(self.state.next_event()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.conversation.now = next.max(self.conversation.now);
            let now = self.conversation.now;
            self.conversation.sessions.advance(now);
            self.act();
            if self.state.next_event().is_some_and(|due| due <= now) {
                let tells = self.state.advance(&self.conversation.view(), now);
                self.told.extend(tells.then(|| self.state.fault()));
                assert!(self.state.next_event().is_none_or(|due| due > now));
            }
        }
        self.conversation.now = end;
    }

    /// Time passes, and the other end says every 250 ms that it does not hear.
    fn pass_deaf(&mut self, time: Duration) {
        let end = self.conversation.now.after(time);
        while self.conversation.now < end {
            self.conversation.tell(|packet| packet.your_discriminator = 0).unwrap();
            self.act();
            self.pass(ms(250));
        }
    }

    fn told(&mut self) -> Vec<Option<PathFault>> {
        std::mem::take(&mut self.told)
    }
}

const SIGNALED: Option<PathFault> = Some(PathFault::Down(BfdDiagnostic::NEIGHBOR_SIGNALED_SESSION_DOWN));
const SILENT: Option<PathFault> = Some(PathFault::Down(BfdDiagnostic::CONTROL_DETECTION_TIME_EXPIRED));

#[test]
fn a_path_that_never_came_up_is_not_used_again_because_the_other_end_falls_silent() {
    let mut watched = Watched::new(false);
    watched.pass_deaf(FIRST_CONTACT - ms(250));
    assert_eq!((watched.told(), watched.state.is_usable()), (vec![], true));
    watched.pass_deaf(ms(250));
    assert_eq!(watched.told(), [Some(PathFault::OneWay)]);
    // It dies, is heard again, and dies again.
    watched.pass(Duration::from_secs(60));
    assert_eq!(watched.conversation.view().state, BfdState::Down);
    watched.pass_deaf(Duration::from_secs(5));
    watched.pass(Duration::from_secs(60));
    assert_eq!((watched.told(), watched.state.fault()), (vec![], Some(PathFault::OneWay)));
    watched.comes_up();
    assert_eq!(watched.told(), [None], "only that it is up ends it");
}

#[test]
fn an_other_end_that_falls_silent_before_its_time_is_left_in_its_time() {
    let mut watched = Watched::new(false);
    watched.pass_deaf(Duration::from_secs(2));
    watched.pass(Duration::from_secs(7));
    assert_eq!((watched.told(), watched.state.is_usable()), (vec![], true));
    watched.pass(Duration::from_secs(1));
    assert_eq!(watched.told(), [Some(PathFault::FellSilent)]);
    assert_eq!(watched.state.next_event(), None);
}

#[test]
fn who_has_no_bfd_is_used_unless_it_is_known_to_have_it() {
    let [mut watched, mut expected] = [false, true].map(Watched::new);
    watched.pass(Duration::from_secs(1_000));
    assert_eq!(watched.told(), []);
    expected.pass(Duration::from_secs(1_000));
    assert_eq!(expected.told(), [Some(PathFault::NeverHeard)]);
    // As one that takes leave before its session was up.
    for (mut watched, told) in [(watched, vec![]), (Watched::new(true), vec![Some(PathFault::FellSilent)])] {
        watched.say(BfdState::Down);
        watched.say(BfdState::AdminDown);
        watched.pass(Duration::from_secs(1_000));
        assert_eq!(watched.told(), told);
    }
}

#[test]
fn a_session_that_goes_down_leaves_its_path_until_it_is_up() {
    let mut watched = Watched::up();
    watched.say(BfdState::Down);
    // It goes on trying, and gives up once more, which is no news.
    watched.say(BfdState::Down);
    watched.pass(Duration::from_secs(100));
    watched.comes_up();
    assert_eq!(watched.told(), [SIGNALED, None]);
    watched.pass(Duration::from_secs(1));
    assert_eq!(watched.told(), [SILENT]);
}

#[test]
fn a_session_that_goes_down_four_times_in_ten_seconds_is_held_until_it_is_quiet() {
    let mut watched = Watched::up();
    for _ in 0..3 {
        watched.say(BfdState::Down);
        watched.comes_up();
    }
    assert_eq!(watched.told(), [SIGNALED, None, SIGNALED, None, SIGNALED, None]);
    watched.say(BfdState::Down);
    assert_eq!(watched.told(), [Some(PathFault::Flapping)]);
    for _ in 0..20 {
        watched.comes_up();
        watched.pass(ms(500));
        watched.say(BfdState::Down);
    }
    assert_eq!(watched.told(), [], "it is not used in between");
    watched.comes_up();
    for _ in 0..39 {
        watched.pass(ms(250));
        watched.say(BfdState::Up);
    }
    assert_eq!((watched.told(), watched.state.fault()), (vec![], Some(PathFault::Flapping)));
    watched.pass(ms(250));
    assert_eq!(watched.told(), [None], "quiet for ten seconds");
}

#[test]
fn one_that_is_quiet_because_it_is_down_is_told_as_down() {
    let mut watched = Watched::up();
    for _ in 0..3 {
        watched.say(BfdState::Down);
        watched.comes_up();
    }
    watched.say(BfdState::Down);
    watched.told();
    watched.pass(Duration::from_secs(10));
    assert_eq!((watched.told(), watched.state.next_event()), (vec![SIGNALED], None));
}

#[test]
fn what_a_link_takes_down_is_no_flapping_and_is_told_if_it_does_not_come_back() {
    let mut watched = Watched::up();
    let down = Some(PathFault::Down(BfdDiagnostic::PATH_DOWN));
    for _ in 0..10 {
        let (sessions, now) = (&mut watched.conversation.sessions, watched.conversation.now);
        sessions.path_down(|other| *other == path(1, 2), now);
        sessions.path_up(|other| *other == path(1, 2), now);
        watched.act();
        watched.state.link_is_back(now);
        watched.comes_up();
    }
    assert_eq!(watched.told(), [down, None].repeat(10));
    let (sessions, now) = (&mut watched.conversation.sessions, watched.conversation.now);
    sessions.path_down(|_| true, now);
    sessions.path_up(|_| true, now);
    watched.act();
    watched.state.link_is_back(now);
    watched.pass(FIRST_CONTACT - ms(1));
    assert_eq!(watched.told(), [down]);
    watched.pass(ms(1));
    assert_eq!((watched.told(), watched.state.next_event()), (vec![Some(PathFault::NotBack)], None));
}

#[test]
fn a_path_to_a_node_that_is_heard_on_another_has_to_come_up_too() {
    let mut watched = Watched::new(false);
    watched.pass(ms(60_000));
    assert_eq!((watched.told(), watched.state.is_usable()), (vec![], true), "the other node may have no BFD");
    watched.state.expect(&watched.conversation.view(), watched.conversation.now);
    watched.pass(FIRST_CONTACT);
    assert_eq!(watched.told(), [Some(PathFault::NeverHeard)]);
    watched.comes_up();
    assert_eq!((watched.told(), watched.state.is_usable()), (vec![None], true));
    // Nothing more is expected of one that is up.
    watched.state.expect(&watched.conversation.view(), watched.conversation.now);
    assert_eq!(watched.state.next_event(), None);
}
