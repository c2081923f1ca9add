//! Frame loss rate (RFC 2544 section 26.3): what is lost at which load.
//!
//! The first trial offers the maximum, each further one a step less, until two trials in a row lose nothing or no step is left.

use std::time::Duration;

use super::error::Faults;
use super::run::{Prospect, Run};
use super::{Conditions, Device, Fault, Impossible, Phase, Progress, SearchError, Trial};

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The load of the first trial, frames a second: the maximum of the medium.
    pub maximum: f64,
    /// How much less each further trial offers, percent of the maximum, 1 to 100. The RFC asks for 10 or finer.
    pub step_percent: u32,
    /// How long a trial sends.
    pub trial: Duration,
    /// What holds for every trial.
    pub conditions: Conditions,
}

impl Settings {
    /// Steps of 10 %, trials of 60 s.
    pub fn rfc_2544(maximum: f64) -> Self {
        Self { maximum, step_percent: 10, trial: Duration::from_secs(60), conditions: Conditions::default() }
    }

    /// The most trials that a search with these settings takes.
    pub fn most_trials(&self) -> u32 {
        100u32.div_ceil(self.step_percent.max(1))
    }

    fn check(&self) -> Result<(), Impossible> {
        let mut faults = Faults::default();
        let is_rate = faults.rate("maximum rate", self.maximum);
        let is_step = faults.range("step in percent", f64::from(self.step_percent), 1.0, 100.0);
        let is_duration = faults.duration(self.trial, self.conditions.limits.sending);
        if is_rate && is_step && is_duration {
            let lowest = self.load(self.most_trials() - 1);
            if lowest * self.trial.as_secs_f64() < 1.0 {
                faults.add(Fault::NoFrame { duration: self.trial, frames_per_second: lowest });
            }
        }
        faults.finish()
    }

    /// The load of a step, counted from 0.
    fn load(&self, step: u32) -> f64 {
        self.maximum * f64::from(self.percent(step)) / 100.0
    }

    fn percent(&self, step: u32) -> u32 {
        100 - step * self.step_percent
    }
}

/// What is lost at one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameLoss {
    /// The load, percent of the maximum.
    pub percent: u32,
    /// The trial, which has the load in frames a second and the loss ratio.
    pub trial: Trial,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameLossRate {
    /// The loss at each load, from the highest.
    pub losses: Vec<FrameLoss>,
    /// The search ended with two trials in a row that lost nothing. Otherwise the device loses frames down to the lowest step, or the
    /// last step alone was without loss.
    pub reached_no_loss: bool,
}

/// Measures the loss at falling loads.
///
/// # Errors
///
/// [`SearchError`].
pub fn search<D: Device>(
    settings: &Settings,
    device: &mut D,
    observer: &mut dyn FnMut(&Progress),
) -> Result<FrameLossRate, SearchError<D::Error>> {
    settings.check()?;
    let mut run = Run::new(device, observer, &settings.conditions);
    let mut losses: Vec<FrameLoss> = Vec::new();
    for step in 0..settings.most_trials() {
        let prospect = Prospect {
            phase: Phase::Step { step: step + 1 },
            lower: None,
            upper: None,
            trials_left: settings.most_trials() - step,
        };
        let trial = run.load(settings.load(step), settings.trial, prospect)?;
        let before = losses.last().is_some_and(|loss| loss.trial.lost() == 0);
        losses.push(FrameLoss { percent: settings.percent(step), trial });
        if before && trial.lost() == 0 {
            return Ok(FrameLossRate { losses, reached_no_loss: true });
        }
    }
    Ok(FrameLossRate { losses, reached_no_loss: false })
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{Lie, Simulated};
    use super::super::{Invalid, SearchError};
    use super::*;

    fn percents(found: &FrameLossRate) -> Vec<u32> {
        found.losses.iter().map(|loss| loss.percent).collect()
    }

    #[test]
    fn it_ends_after_two_trials_without_loss() {
        let mut device = Simulated::steady(75_000.0);
        let mut seen = Vec::new();
        let found = search(&Settings::rfc_2544(100_000.0), &mut device, &mut |progress| seen.push(*progress))
            .unwrap();
        assert_eq!(percents(&found), [100, 90, 80, 70, 60]);
        assert!(found.reached_no_loss);
        assert!((found.losses[0].trial.loss_ratio() - 0.25).abs() < 1e-6);
        assert!((found.losses[2].trial.loss_ratio() - 0.0625).abs() < 1e-6);
        assert_eq!(found.losses[3].trial.lost(), 0);
        assert_eq!(seen.len(), 5);
        assert_eq!((seen[0].phase, seen[0].trials_left), (Phase::Step { step: 1 }, 10));
        assert_eq!((seen[4].trials_done, seen[4].trials_left), (4, 6));
    }

    #[test]
    fn a_fast_device_takes_two_trials_and_a_hopeless_one_all() {
        let settings = Settings::rfc_2544(100_000.0);
        let fast = search(&settings, &mut Simulated::steady(2e5), &mut |_| ()).unwrap();
        assert_eq!(percents(&fast), [100, 90]);
        let mut hopeless = Simulated::steady(1e3);
        let found = search(&settings, &mut hopeless, &mut |_| ()).unwrap();
        assert_eq!(percents(&found), [100, 90, 80, 70, 60, 50, 40, 30, 20, 10]);
        assert!(!found.reached_no_loss);
    }

    #[test]
    fn one_trial_without_loss_between_lossy_ones_does_not_end_it() {
        let mut device = Simulated::steady(1e9).losing_trials(&[1, 3, 4]);
        let found = search(&Settings::rfc_2544(1e5), &mut device, &mut |_| ()).unwrap();
        assert_eq!(percents(&found), [100, 90, 80, 70, 60, 50]);
    }

    #[test]
    fn steps_that_do_not_divide_hundred_stay_above_zero() {
        let settings = Settings { step_percent: 30, ..Settings::rfc_2544(1e5) };
        let found = search(&settings, &mut Simulated::steady(1e3), &mut |_| ()).unwrap();
        assert_eq!(percents(&found), [100, 70, 40, 10]);
    }

    #[test]
    fn impossible_settings_and_lies_are_errors() {
        let settings =
            Settings { step_percent: 0, trial: Duration::ZERO, ..Settings::rfc_2544(f64::INFINITY) };
        let Err(SearchError::Impossible(error)) = search(&settings, &mut Simulated::steady(1.0), &mut |_| ())
        else {
            panic!("no trial could be run")
        };
        assert_eq!(error.faults.len(), 3, "{error}");
        let slow = Settings { trial: Duration::from_millis(1), ..Settings::rfc_2544(1_000.0) };
        assert!(matches!(slow.check().unwrap_err().faults[..], [Fault::NoFrame { .. }]));

        let mut liar = Simulated::steady(75_000.0).lying(Lie::ReceivedMoreThanSent, 2);
        let error = search(&Settings::rfc_2544(1e5), &mut liar, &mut |_| ()).unwrap_err();
        assert!(
            matches!(
                error,
                SearchError::Invalid { trial: 2, reason: Invalid::ReceivedMoreThanSent { .. }, .. }
            ),
            "{error}"
        );
    }
}
