//! The TEPs of a node, as the caller sees them.

use std::collections::{BTreeMap, VecDeque};

use super::tep::Tep;
use super::{Action, Recovery, TepHealthConfig, TepHealthError, TepId, TepInputs, TepView};
use crate::Timestamp;

/// The health of a node's TEPs.
///
/// Every call may leave actions, which the caller takes with [`TepHealth::next_action`] before the next call. `now` never
/// goes back.
///
/// ```
/// use sluice_protocols::Timestamp;
/// use sluice_protocols::tep_health::{Action, Cause, TepHealth, TepHealthConfig, TepId, TepInputs};
///
/// let mut health = TepHealth::new(TepHealthConfig { enabled: true, ..TepHealthConfig::default() })?;
/// let works = TepInputs { has_address: true, link_up: true, sessions: 3, sessions_up: 3 };
/// health.set(TepId(0), works, Timestamp::from_secs(1));
/// health.set(TepId(1), works, Timestamp::from_secs(1));
/// health.set(TepId(0), TepInputs { link_up: false, ..works }, Timestamp::from_secs(2));
/// let fault = Action::Faulty { tep: TepId(0), cause: Cause::LinkDown, retry: None };
/// assert_eq!(health.next_action(), Some(fault));
/// # Ok::<(), sluice_protocols::tep_health::TepHealthError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TepHealth {
    config: TepHealthConfig,
    teps: BTreeMap<TepId, Tep>,
    isolated: bool,
    actions: VecDeque<Action>,
}

impl TepHealth {
    /// A node without TEPs.
    ///
    /// # Errors
    ///
    /// [`TepHealthError::Range`].
    pub fn new(config: TepHealthConfig) -> Result<Self, TepHealthError> {
        config.check()?;
        Ok(Self { config, teps: BTreeMap::new(), isolated: false, actions: VecDeque::new() })
    }

    /// Takes another profile. Tries that were agreed on stay when they are; TEPs that only sessions kept from being used
    /// are used where sessions no longer count.
    ///
    /// # Errors
    ///
    /// [`TepHealthError::Range`]; nothing is changed then.
    pub fn configure(&mut self, config: TepHealthConfig, now: Timestamp) -> Result<(), TepHealthError> {
        config.check()?;
        self.config = config;
        for tep in self.teps.values_mut() {
            self.actions.extend(tep.reconfigured(&self.config, now));
            self.actions.extend(tep.evaluate(&self.config, now));
        }
        self.judge_node(now);
        Ok(())
    }

    /// What is known of a TEP. One that is not known yet is new, and healthy unless it lacks an address or its link.
    pub fn set(&mut self, tep: TepId, inputs: TepInputs, now: Timestamp) {
        let tep = self.teps.entry(tep).or_insert_with(|| Tep::new(tep, inputs, now));
        tep.set_inputs(inputs);
        self.actions.extend(tep.evaluate(&self.config, now));
        self.judge_node(now);
    }

    /// The node no longer has a TEP.
    ///
    /// # Errors
    ///
    /// [`TepHealthError::Unknown`].
    pub fn remove(&mut self, tep: TepId, now: Timestamp) -> Result<(), TepHealthError> {
        let removed = self.teps.remove(&tep).ok_or(TepHealthError::Unknown(tep.0))?;
        if removed.is_faulty() {
            self.actions.push_back(Action::Recovered { tep, recovery: Recovery::Configuration });
        }
        self.judge_node(now);
        Ok(())
    }

    /// Somebody asks for a faulty TEP to be used again.
    ///
    /// # Errors
    ///
    /// [`TepHealthError::Unknown`], [`TepHealthError::NotFaulty`], [`TepHealthError::NotWorking`].
    pub fn recover(&mut self, tep: TepId, now: Timestamp) -> Result<(), TepHealthError> {
        let found = self.teps.get_mut(&tep).ok_or(TepHealthError::Unknown(tep.0))?;
        if !found.is_faulty() {
            return Err(TepHealthError::NotFaulty(tep.0));
        }
        if !found.works(&self.config) {
            return Err(TepHealthError::NotWorking(tep.0));
        }
        self.actions.push_back(found.recover(Recovery::Manual, now));
        self.judge_node(now);
        Ok(())
    }

    /// Does what is due at `now`. Afterwards [`TepHealth::next_event`] is later than `now`.
    pub fn advance(&mut self, now: Timestamp) {
        for tep in self.teps.values_mut() {
            self.actions.extend(tep.evaluate(&self.config, now));
        }
        self.judge_node(now);
    }

    /// When [`TepHealth::advance`] is to be called next; `None` while there is nothing to wait for.
    pub fn next_event(&self) -> Option<Timestamp> {
        self.teps.values().filter_map(|tep| tep.next_event(&self.config)).min()
    }

    /// Takes the next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The TEPs in the order of their numbers.
    pub fn teps(&self) -> impl Iterator<Item = TepView> {
        self.teps.values().map(|tep| tep.view(&self.config))
    }

    /// A TEP.
    pub fn get(&self, tep: TepId) -> Option<TepView> {
        self.teps.get(&tep).map(|tep| tep.view(&self.config))
    }

    /// The node has TEPs, all of them are faulty, and none works.
    pub fn is_isolated(&self) -> bool {
        !self.teps.is_empty() && self.teps.values().all(|tep| tep.is_faulty() && !tep.works(&self.config))
    }

    /// What follows from all TEPs together: where none is used one that works does not wait, and where none works the node is isolated.
    fn judge_node(&mut self, now: Timestamp) {
        if self.config.auto_recovery && self.teps.values().all(Tep::is_faulty) {
            let mut teps = self.teps.values_mut();
            let recovered = teps.find(|tep| tep.works(&self.config));
            self.actions.extend(recovered.map(|tep| tep.recover(Recovery::NoOther, now)));
        }
        let isolated = self.is_isolated();
        if isolated != self.isolated {
            self.isolated = isolated;
            self.actions.push_back(Action::Isolated(isolated));
        }
    }
}
