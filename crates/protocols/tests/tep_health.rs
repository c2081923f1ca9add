//! The health of TEPs: each rule, and what holds whatever happens.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use sluice_protocols::Timestamp;
use sluice_protocols::tep_health::{
    Action, Cause, Health, Recovery, TepHealth, TepHealthConfig, TepHealthError, TepId, TepInputs,
};

const WORKS: TepInputs = TepInputs { has_address: true, link_up: true, sessions: 4, sessions_up: 4 };
const SILENT: TepInputs = TepInputs { sessions_up: 0, ..WORKS };
const NO_LINK: TepInputs = TepInputs { link_up: false, ..SILENT };
const NO_ADDRESS: TepInputs = TepInputs { has_address: false, ..SILENT };

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn profile() -> TepHealthConfig {
    TepHealthConfig { enabled: true, ..TepHealthConfig::default() }
}

struct Node {
    health: TepHealth,
    start: Timestamp,
    now: Timestamp,
}

impl Node {
    /// A node with the profile and two TEPs that work.
    fn new(config: TepHealthConfig) -> Self {
        let start = Timestamp::from_secs(1_000);
        let mut node = Self { health: TepHealth::new(config).unwrap(), start, now: start };
        node.set(0, WORKS);
        node.set(1, WORKS);
        assert_eq!(node.actions(), [""; 0]);
        node
    }

    fn set(&mut self, tep: u16, inputs: TepInputs) {
        self.health.set(TepId(tep), inputs, self.now);
    }

    fn pass(&mut self, time: Duration) -> Vec<String> {
        let end = self.now.after(time);
        let mut lines = Vec::new();
        while let Some(event) = self.health.next_event().filter(|event| *event <= end) {
            self.now = event;
            self.health.advance(event);
            assert!(self.health.next_event().is_none_or(|next| next > event));
            lines.extend(self.actions());
        }
        self.now = end;
        lines
    }

    fn health_of(&self, tep: u16) -> Health {
        self.health.get(TepId(tep)).unwrap().health
    }

    /// What is to be done, in a line each, with times from the start in seconds.
    fn actions(&mut self) -> Vec<String> {
        let at = |time: Timestamp| time.since(self.start).as_secs();
        let lines = std::iter::from_fn(|| self.health.next_action()).map(|action| match action {
            Action::Faulty { tep, cause, retry: None } => format!("{} faulty: {cause:?}", tep.0),
            Action::Faulty { tep, cause, retry: Some(retry) } => {
                format!("{} faulty: {cause:?}, retry at {}", tep.0, at(retry))
            }
            Action::RecoveryFailed { tep, retry } => format!("{} not yet, retry at {}", tep.0, at(retry)),
            Action::Recovered { tep, recovery } => format!("{} recovered: {recovery:?}", tep.0),
            Action::Isolated(isolated) => format!("isolated: {isolated}"),
        });
        lines.collect()
    }
}

#[test]
fn silent_sessions_are_a_fault_after_the_timeout() {
    let mut node = Node::new(profile());
    node.set(0, SILENT);
    assert_eq!((node.actions(), node.health_of(0)), (vec![], Health::Suspect));
    assert_eq!(node.pass(Duration::from_millis(4_999)), [""; 0]);
    assert_eq!(node.pass(Duration::from_millis(1)), ["0 faulty: SessionsDown, retry at 305"]);
    assert!(!node.health.get(TepId(0)).unwrap().is_usable());
    let mut node = Node::new(TepHealthConfig { failover_timeout: secs(0), ..profile() });
    node.set(0, SILENT);
    assert_eq!(node.actions(), ["0 faulty: SessionsDown, retry at 300"]);
}

#[test]
fn first_sessions_have_time_to_come_up() {
    let mut node = Node::new(TepHealthConfig { failover_timeout: secs(0), ..profile() });
    node.set(2, SILENT);
    assert_eq!((node.health_of(2), node.pass(secs(9))), (Health::Suspect, vec![]));
    node.set(2, WORKS);
    node.set(2, SILENT);
    assert_eq!(node.actions(), ["2 faulty: SessionsDown, retry at 309"], "it was heard once");
    // The same for the first peer of a TEP that had none.
    node.set(1, TepInputs { sessions: 0, sessions_up: 0, ..WORKS });
    node.set(1, SILENT);
    assert_eq!((node.health_of(1), node.pass(secs(9))), (Health::Suspect, vec![]));
    assert_eq!(node.pass(secs(1)), ["1 faulty: SessionsDown, retry at 319"]);
}

#[test]
fn one_session_that_is_up_is_enough() {
    let mut node = Node::new(profile());
    node.set(0, TepInputs { sessions_up: 1, ..WORKS });
    assert_eq!((node.pass(secs(100)), node.health_of(0)), (vec![], Health::Healthy));
    let alone = TepInputs { sessions: 0, sessions_up: 0, ..WORKS };
    node.set(0, alone);
    assert_eq!((node.pass(secs(100)), node.health_of(0)), (vec![], Health::Healthy), "nobody to be heard");
}

#[test]
fn silence_that_is_shorter_than_the_timeout_changes_nothing() {
    let mut node = Node::new(profile());
    for _ in 0..100 {
        node.set(0, SILENT);
        assert_eq!(node.pass(secs(4)), [""; 0]);
        node.set(0, WORKS);
        assert_eq!(node.pass(secs(1)), [""; 0]);
    }
    assert_eq!(node.health.get(TepId(0)).unwrap().faults, 0);
}

#[test]
fn a_lost_link_or_address_is_a_fault_in_the_same_call_and_heals_by_itself() {
    for (lost, cause) in [(NO_LINK, "LinkDown"), (NO_ADDRESS, "NoAddress")] {
        let mut node = Node::new(profile());
        node.set(0, lost);
        assert_eq!(node.actions(), [format!("0 faulty: {cause}")]);
        assert_eq!(node.pass(secs(10_000)), [""; 0]);
        // Address and link are there; it is not trusted before somebody is heard.
        node.set(0, SILENT);
        assert_eq!(node.pass(secs(2)), [""; 0]);
        node.set(0, WORKS);
        assert_eq!(node.actions(), ["0 recovered: Own"]);
    }
}

#[test]
fn a_suspect_that_loses_its_link_does_not_wait() {
    let mut node = Node::new(profile());
    node.set(0, SILENT);
    node.pass(secs(1));
    node.set(0, NO_LINK);
    assert_eq!(node.actions(), ["0 faulty: LinkDown"]);
}

#[test]
fn tries_come_after_doubling_times_up_to_the_greatest() {
    let mut node = Node::new(TepHealthConfig { max_backoff: secs(3_600), ..profile() });
    node.set(0, SILENT);
    let lines = node.pass(secs(5 + 300 + 600 + 1200 + 2400 + 3600 + 3600));
    let retries = [305, 905, 2105, 4505, 8105, 11_705, 15_305];
    assert_eq!(lines[0], "0 faulty: SessionsDown, retry at 305");
    assert_eq!(
        lines[1..],
        retries[1..].iter().map(|at| format!("0 not yet, retry at {at}")).collect::<Vec<_>>()
    );
    // Between tries it stays faulty, whether or not it works.
    node.set(0, WORKS);
    assert_eq!(node.pass(secs(3_599)), [""; 0]);
    assert_eq!(node.pass(secs(1)), ["0 recovered: Automatic"]);
}

#[test]
fn a_tep_that_fails_again_soon_waits_twice_as_long() {
    let mut node = Node::new(profile());
    let mut waits = Vec::new();
    for _ in 0..12 {
        node.set(0, SILENT);
        node.pass(secs(5));
        let view = node.health.get(TepId(0)).unwrap();
        let wait = view.retry.unwrap().since(node.now).as_secs();
        waits.push(wait);
        assert_eq!(view.backoff, Some(secs(wait)));
        node.set(0, WORKS);
        node.pass(secs(wait));
        assert_eq!(node.health_of(0), Health::Healthy);
        node.pass(secs(wait - 1));
    }
    assert_eq!(waits, [300, 600, 1200, 2400, 4800, 9600, 19_200, 38_400, 76_800, 86_400, 86_400, 86_400]);
    // Once it was healthy for as long as it waited, it begins anew.
    node.pass(secs(1));
    node.set(0, SILENT);
    let retry = node.now.since(node.start).as_secs() + 305;
    assert_eq!(node.pass(secs(5)), [format!("0 faulty: SessionsDown, retry at {retry}")]);
}

#[test]
fn a_link_that_flaps_is_damped() {
    let mut node = Node::new(profile());
    node.set(0, NO_LINK);
    node.set(0, WORKS);
    assert_eq!(node.actions(), ["0 faulty: LinkDown", "0 recovered: Own"]);
    node.pass(secs(299));
    node.set(0, NO_LINK);
    node.set(0, WORKS);
    assert_eq!(node.actions(), ["0 faulty: LinkDown, retry at 599"], "it has to wait now");
    for _ in 0..50 {
        node.set(0, NO_LINK);
        node.set(0, WORKS);
        assert_eq!(node.pass(secs(5)), [""; 0]);
    }
    assert_eq!(node.pass(secs(50)), ["0 recovered: Automatic"]);
    node.pass(secs(300));
    node.set(0, NO_LINK);
    assert_eq!(node.actions(), ["0 faulty: LinkDown"], "after a time of health it is as before");
}

#[test]
fn by_hand_it_recovers_at_once_if_it_works() {
    let mut node = Node::new(TepHealthConfig { auto_recovery: false, ..profile() });
    node.set(0, SILENT);
    assert_eq!(node.pass(secs(100_000)), ["0 faulty: SessionsDown"]);
    let recover = |node: &mut Node, tep: u16| node.health.recover(TepId(tep), node.now);
    assert_eq!(recover(&mut node, 0), Err(TepHealthError::NotWorking(0)));
    assert_eq!(recover(&mut node, 1), Err(TepHealthError::NotFaulty(1)));
    assert_eq!(recover(&mut node, 2), Err(TepHealthError::Unknown(2)));
    node.set(0, WORKS);
    assert_eq!(node.pass(secs(100_000)), [""; 0], "not by itself");
    assert_eq!(recover(&mut node, 0), Ok(()));
    assert_eq!(node.actions(), ["0 recovered: Manual"]);
    // Whoever asked for it vouches for it: the next fault is the first one.
    node.health.configure(profile(), node.now).unwrap();
    for _ in 0..3 {
        node.set(0, SILENT);
        node.pass(secs(5));
        assert_eq!(node.health.get(TepId(0)).unwrap().backoff, Some(secs(300)));
        node.set(0, WORKS);
        assert_eq!(recover(&mut node, 0), Ok(()));
        assert_eq!(node.health.get(TepId(0)).unwrap().backoff, None);
    }
}

#[test]
fn a_node_without_a_tep_that_works_is_isolated() {
    let mut node = Node::new(profile());
    node.set(0, NO_LINK);
    node.set(1, SILENT);
    assert_eq!(node.actions(), ["0 faulty: LinkDown"]);
    assert_eq!(node.pass(secs(5)), ["1 faulty: SessionsDown, retry at 305", "isolated: true"]);
    assert!(node.health.is_isolated());
    node.set(0, WORKS);
    assert_eq!(node.actions(), ["0 recovered: Own", "isolated: false"]);
    node.health.remove(TepId(0), node.now).unwrap();
    assert_eq!(node.actions(), ["isolated: true"]);
    node.health.remove(TepId(1), node.now).unwrap();
    assert_eq!(node.actions(), ["1 recovered: Configuration", "isolated: false"], "no TEPs are no isolation");
    assert_eq!(node.health.remove(TepId(1), node.now), Err(TepHealthError::Unknown(1)));
}

#[test]
fn where_no_other_tep_is_used_one_that_works_does_not_wait() {
    let mut node = Node::new(profile());
    // The fabric is gone for ten seconds.
    node.set(0, SILENT);
    node.set(1, SILENT);
    let faulty =
        ["0 faulty: SessionsDown, retry at 305", "1 faulty: SessionsDown, retry at 305", "isolated: true"];
    assert_eq!(node.pass(secs(10)), faulty);
    node.set(1, WORKS);
    assert_eq!(node.actions(), ["1 recovered: NoOther", "isolated: false"]);
    // The other one has no such haste.
    node.set(0, WORKS);
    let view = node.health.get(TepId(0)).unwrap();
    assert_eq!((node.actions(), view.works, view.is_usable()), (vec![], true, false));
    // It is the one that works when the first one fails again, which now waits longer.
    node.set(1, SILENT);
    assert_eq!(node.pass(secs(5)), ["1 faulty: SessionsDown, retry at 615", "0 recovered: NoOther"]);
}

#[test]
fn the_only_tep_comes_back_with_its_link_however_often_that_fails() {
    let mut node = Node::new(profile());
    node.health.remove(TepId(1), node.now).unwrap();
    for _ in 0..5 {
        node.set(0, NO_LINK);
        assert_eq!(node.actions().last().unwrap(), "isolated: true");
        node.set(0, SILENT);
        assert_eq!(node.actions(), [""; 0], "nobody is heard yet");
        node.set(0, WORKS);
        assert_eq!(node.actions().last().unwrap(), "isolated: false");
        assert!(node.health.get(TepId(0)).unwrap().is_usable());
        node.pass(secs(1));
    }
}

#[test]
fn by_hand_only_means_that_but_a_tep_that_works_is_no_isolation() {
    let mut node = Node::new(TepHealthConfig { auto_recovery: false, ..profile() });
    node.set(0, SILENT);
    node.set(1, SILENT);
    node.pass(secs(5));
    assert!(node.health.is_isolated());
    node.set(0, WORKS);
    assert_eq!(node.actions(), ["isolated: false"], "flows stay with TEPs that are not used, where none is");
    assert_eq!(node.pass(secs(100_000)), [""; 0]);
}

#[test]
fn switched_off_sessions_do_not_count() {
    let mut node = Node::new(profile());
    node.set(0, SILENT);
    node.pass(secs(5));
    node.actions();
    node.health.configure(TepHealthConfig::default(), node.now).unwrap();
    assert_eq!(
        (node.actions(), node.health_of(0)),
        (vec!["0 recovered: Configuration".into()], Health::Healthy)
    );
    for _ in 0..5 {
        node.set(0, NO_LINK);
        node.set(0, SILENT);
        assert_eq!(node.actions(), ["0 faulty: LinkDown", "0 recovered: Own"], "nothing waits");
    }
    assert_eq!(node.health.next_event(), None);
    // Switched on again: silence counts from now on.
    node.health.configure(profile(), node.now).unwrap();
    assert_eq!((node.health_of(0), node.pass(secs(4))), (Health::Suspect, vec![]));
}

#[test]
fn auto_recovery_can_be_switched_while_a_tep_is_faulty() {
    let mut node = Node::new(profile());
    node.set(0, SILENT);
    node.pass(secs(5));
    let by_hand = TepHealthConfig { auto_recovery: false, ..profile() };
    node.health.configure(by_hand, node.now).unwrap();
    assert_eq!((node.health.next_event(), node.pass(secs(10_000))), (None, vec![]));
    node.health.configure(profile(), node.now).unwrap();
    node.set(0, WORKS);
    assert_eq!(node.pass(secs(299)), [""; 0]);
    assert_eq!(node.pass(secs(1)), ["0 recovered: Automatic"]);
}

#[test]
fn profiles_out_of_range_are_refused() {
    let refused = |config: TepHealthConfig| TepHealth::new(config).unwrap_err().to_string();
    let text =
        "the failover timeout of a TEP high availability profile cannot be 61 s: give a time from 0 to 60 s";
    assert_eq!(refused(TepHealthConfig { failover_timeout: secs(61), ..profile() }), text);
    let text =
        "the initial wait of a TEP high availability profile cannot be 299 s: give a time from 300 to 3600 s";
    assert_eq!(refused(TepHealthConfig { initial_wait: secs(299), ..profile() }), text);
    let text = "the maximum back-off of a TEP high availability profile cannot be 86401 s: give a time from 3600 to 86400 s";
    assert_eq!(refused(TepHealthConfig { max_backoff: secs(86_401), ..profile() }), text);
    let mut node = Node::new(profile());
    assert!(node.health.configure(TepHealthConfig { max_backoff: secs(1), ..profile() }, node.now).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Set(u16, TepInputs),
    Remove(u16),
    Recover(u16),
    Configure(bool, u64, bool, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let inputs = (prop::bool::weighted(0.9), prop::bool::weighted(0.8), 0usize..4, 0usize..4).prop_map(
        |(has_address, link_up, sessions, up)| TepInputs {
            has_address,
            link_up,
            sessions,
            sessions_up: up.min(sessions),
        },
    );
    let tep = 0u16..3;
    prop_oneof![
        3 => (0u64..10_000).prop_map(Step::Wait),
        1 => (0u64..10_000_000).prop_map(Step::Wait),
        8 => (tep.clone(), inputs).prop_map(|(tep, inputs)| Step::Set(tep, inputs)),
        1 => tep.clone().prop_map(Step::Remove),
        1 => tep.prop_map(Step::Recover),
        1 => (prop::bool::weighted(0.9), 0u64..10, any::<bool>(), 300u64..900)
            .prop_map(|(enabled, timeout, auto, wait)| Step::Configure(enabled, timeout, auto, wait)),
    ]
}

/// What follows from the actions and the inputs alone.
struct Model {
    node: Node,
    config: TepHealthConfig,
    /// TEPs with a fault that was told and not ended, and when it was told.
    faulty: BTreeMap<TepId, (Timestamp, Cause)>,
    /// Since when all sessions of a TEP are down.
    silent: BTreeMap<TepId, Timestamp>,
    known: BTreeSet<TepId>,
    isolated: bool,
}

impl Model {
    fn take(&mut self, step: &Step) {
        let now = self.node.now;
        match step {
            Step::Wait(milliseconds) => self.wait(Duration::from_millis(*milliseconds)),
            Step::Set(tep, inputs) => {
                let tep = TepId(*tep);
                self.known.insert(tep);
                if inputs.sessions == 0 || inputs.sessions_up > 0 {
                    self.silent.remove(&tep);
                } else {
                    self.silent.entry(tep).or_insert(now);
                }
                self.node.health.set(tep, *inputs, now);
                let lost = !inputs.has_address || !inputs.link_up;
                assert!(!lost || !self.node.health.get(tep).unwrap().is_usable(), "in the same call");
            }
            Step::Remove(tep) => {
                let removed = self.node.health.remove(TepId(*tep), now);
                assert_eq!(removed.is_ok(), self.known.remove(&TepId(*tep)));
                self.silent.remove(&TepId(*tep));
            }
            Step::Recover(tep) => {
                let _ = self.node.health.recover(TepId(*tep), now);
            }
            Step::Configure(enabled, timeout, auto_recovery, wait) => {
                self.config = TepHealthConfig {
                    enabled: *enabled,
                    failover_timeout: secs(*timeout),
                    auto_recovery: *auto_recovery,
                    initial_wait: secs(*wait),
                    max_backoff: secs(3_600),
                };
                self.node.health.configure(self.config, now).unwrap();
            }
        }
        self.check();
    }

    fn wait(&mut self, time: Duration) {
        let end = self.node.now.after(time);
        while let Some(event) = self.node.health.next_event().filter(|event| *event <= end) {
            assert!(event >= self.node.now);
            self.node.now = event;
            self.node.health.advance(event);
            assert!(self.node.health.next_event().is_none_or(|next| next > event));
            self.check();
        }
        self.node.now = end;
    }

    fn check(&mut self) {
        let now = self.node.now;
        while let Some(action) = self.node.health.next_action() {
            match action {
                Action::Faulty { tep, cause, retry } => {
                    assert!(self.faulty.insert(tep, (now, cause)).is_none(), "no fault is told twice");
                    if cause == Cause::SessionsDown {
                        let silent = now.since(self.silent[&tep]);
                        assert!(self.config.enabled && silent >= self.config.failover_timeout, "{silent:?}");
                    }
                    let wait = retry.map(|retry| retry.since(now));
                    assert!(wait.is_none_or(|wait| {
                        (self.config.initial_wait.min(secs(300))..=secs(3_600)).contains(&wait)
                    }));
                    assert!(self.config.auto_recovery || retry.is_none());
                }
                Action::RecoveryFailed { tep, retry } => {
                    assert!(self.faulty.contains_key(&tep) && self.config.auto_recovery);
                    assert!((secs(600)..=secs(3_600)).contains(&retry.since(now)));
                }
                Action::Recovered { tep, recovery } => {
                    let (since, cause) = self.faulty.remove(&tep).expect("a fault that ends was told");
                    if recovery == Recovery::NoOther {
                        assert!(self.known.len() == self.faulty.len() + 1, "another one is used");
                    }
                    if recovery == Recovery::Automatic {
                        assert!(now.since(since) >= secs(300), "{:?} after {cause:?}", now.since(since));
                    }
                    assert!(
                        recovery != Recovery::Own || cause != Cause::SessionsDown || !self.config.enabled
                    );
                }
                Action::Isolated(isolated) => {
                    assert_ne!(isolated, self.isolated);
                    self.isolated = isolated;
                }
            }
        }
        let views: Vec<_> = self.node.health.teps().collect();
        assert_eq!(views.iter().map(|view| view.tep).collect::<BTreeSet<_>>(), self.known);
        for view in &views {
            assert_eq!(view.is_usable(), !self.faulty.contains_key(&view.tep), "what the actions tell");
            assert!(!view.is_usable() || view.inputs.has_address && view.inputs.link_up);
            let silent = self.config.enabled && self.silent.contains_key(&view.tep);
            assert!(view.health != Health::Healthy || !silent, "healthy means heard");
            assert!(view.backoff.is_none_or(|backoff| backoff <= secs(3_600)));
        }
        let unused = !views.is_empty() && views.iter().all(|view| !view.is_usable());
        let works = views.iter().any(|view| view.works);
        assert_eq!(self.isolated, unused && !works);
        assert!(!(unused && works && self.config.auto_recovery), "nobody waits where there is no other");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn whatever_happens(steps in prop::collection::vec(step(), 1..100)) {
        let config = TepHealthConfig { max_backoff: secs(3_600), ..profile() };
        let mut node = Node::new(config);
        node.health.remove(TepId(0), node.now).unwrap();
        node.health.remove(TepId(1), node.now).unwrap();
        let mut model = Model {
            node,
            config,
            faulty: BTreeMap::new(),
            silent: BTreeMap::new(),
            known: BTreeSet::new(),
            isolated: false,
        };
        for step in &steps {
            model.take(step);
        }
    }
}
