//! Runs the trials of one search: within its limits, told to its observer, judged.

use std::time::Duration;

use super::Conditions;
use super::error::{LimitReached, SearchError};
use super::progress::{Phase, Progress};
use super::trial::{Device, Request, Traffic, Trial};

/// What a search knows and expects, when it asks for a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prospect {
    pub(super) phase: Phase,
    pub(super) lower: Option<f64>,
    pub(super) upper: Option<f64>,
    /// Trials that are left, the next one included.
    pub(super) trials_left: u32,
}

/// The trials of one search.
pub(super) struct Run<'a, D> {
    device: &'a mut D,
    observer: &'a mut dyn FnMut(&Progress),
    conditions: Conditions,
    trials: Vec<Trial>,
    sending: Duration,
}

impl<'a, D: Device> Run<'a, D> {
    pub(super) fn new(
        device: &'a mut D,
        observer: &'a mut dyn FnMut(&Progress),
        conditions: &Conditions,
    ) -> Self {
        Self { device, observer, conditions: *conditions, trials: Vec::new(), sending: Duration::ZERO }
    }

    /// Offers a constant load.
    pub(super) fn load(
        &mut self,
        frames_per_second: f64,
        duration: Duration,
        prospect: Prospect,
    ) -> Result<Trial, SearchError<D::Error>> {
        self.trial(Traffic::Load { frames_per_second, duration }, duration, prospect)
    }

    /// Sends a burst, which takes about `duration`.
    pub(super) fn burst(
        &mut self,
        frames: u64,
        duration: Duration,
        prospect: Prospect,
    ) -> Result<Trial, SearchError<D::Error>> {
        self.trial(Traffic::Burst { frames }, duration, prospect)
    }

    /// All trials, in their order.
    pub(super) fn into_trials(self) -> Vec<Trial> {
        self.trials
    }

    fn trial(
        &mut self,
        traffic: Traffic,
        duration: Duration,
        prospect: Prospect,
    ) -> Result<Trial, SearchError<D::Error>> {
        let Prospect { phase, lower, upper, trials_left } = prospect;
        // The number of trials is limited to a u32.
        let trials_done = self.trials.len() as u32;
        let limits = self.conditions.limits;
        if trials_done >= limits.trials || self.sending.saturating_add(duration) > limits.sending {
            return Err(SearchError::LimitReached(LimitReached {
                trials: trials_done,
                sending: self.sending,
                lower,
                upper,
            }));
        }
        (self.observer)(&Progress {
            phase,
            traffic,
            lower,
            upper,
            trials_done,
            trials_left,
            sending_done: self.sending,
            sending_left: duration.saturating_mul(trials_left),
        });
        let trial = trials_done + 1;
        let request = Request { traffic, preparation: self.conditions.preparation };
        let outcome =
            self.device.trial(&request).map_err(|source| SearchError::Device { trial, traffic, source })?;
        let judged = Trial::judge(&request, &outcome, &self.conditions)
            .map_err(|reason| SearchError::Invalid { trial, traffic, reason })?;
        self.sending = self.sending.saturating_add(judged.sending.max(duration));
        self.trials.push(judged);
        Ok(judged)
    }
}
