//! Maximum receive rate: the highest forwarding rate at any offered load, whatever is lost on the way.
//!
//! RFC 2285 section 3.6 names two: the forwarding rate at the maximum offered load, and the maximum forwarding rate over a series of
//! loads (RFC 2889 section 5.1 measures both). They differ where overload costs a device work: it then forwards less at the maximum than
//! somewhat below. First the loads from the maximum down are tried in steps, then the neighbourhood of the best in ever finer ones.
//!
//! Frames that a buffer held when sending ended count as received, so that trials should last much longer than a buffer takes to empty.

use std::time::Duration;

use super::error::Faults;
use super::run::{Prospect, Run};
use super::{Conditions, Device, Impossible, Phase, Progress, SearchError, Trial};

/// Most steps, and most refinements.
const MOST: u32 = 1_000;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Lowest load, frames a second.
    pub minimum: f64,
    /// Highest load, frames a second.
    pub maximum: f64,
    /// Number of equally spaced loads from the maximum to the minimum, both included; 1 is the maximum alone.
    pub loads: u32,
    /// How often the spacing around the best load is halved.
    pub refinements: u32,
    /// How long a trial sends.
    pub trial: Duration,
    /// What holds for every trial.
    pub conditions: Conditions,
}

impl Settings {
    /// Ten loads from 10 to 100 % of the maximum, refined three times (to 1.25 %), trials of 30 s as RFC 2889 recommends.
    pub fn ten_loads(maximum: f64) -> Self {
        Self {
            minimum: maximum / 10.0,
            maximum,
            loads: 10,
            refinements: 3,
            trial: Duration::from_secs(30),
            conditions: Conditions::default(),
        }
    }

    /// The most trials that a search with these settings takes.
    pub fn most_trials(&self) -> u32 {
        let refinements = if self.loads > 1 { self.refinements } else { 0 };
        self.loads.saturating_add(refinements.saturating_mul(2))
    }

    fn check(&self) -> Result<(), Impossible> {
        let mut faults = Faults::default();
        faults.rates_and_duration(self.minimum, self.maximum, self.trial, self.conditions.limits.sending);
        faults.count("number of loads", u64::from(self.loads), u64::from(MOST));
        faults.range("number of refinements", f64::from(self.refinements), 0.0, f64::from(MOST));
        faults.finish()
    }

    /// Distance of neighbouring loads.
    fn spacing(&self) -> f64 {
        if self.loads > 1 { (self.maximum - self.minimum) / f64::from(self.loads - 1) } else { 0.0 }
    }
}

/// A forwarding rate, and the load at which it was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForwardingRate {
    /// The intended load, frames a second.
    pub load: f64,
    /// Frames a second that were sent: less than intended where the generator is too slow.
    pub offered: f64,
    /// Frames a second that came back.
    pub forwarded: f64,
}

/// What was found, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct MaximumReceiveRate {
    /// The highest forwarding rate (RFC 2285: MFR); of equal ones that at the highest load.
    pub highest: ForwardingRate,
    /// The forwarding rate at the maximum load (RFC 2285: FRMOL).
    pub at_maximum_load: ForwardingRate,
    /// The device forwarded all that was sent at the maximum load: it was not brought to its limit.
    pub without_loss: bool,
    /// Every trial, in order.
    pub trials: Vec<Trial>,
}

/// Searches for the maximum receive rate.
///
/// # Errors
///
/// [`SearchError`].
pub fn search<D: Device>(
    settings: &Settings,
    device: &mut D,
    observer: &mut dyn FnMut(&Progress),
) -> Result<MaximumReceiveRate, SearchError<D::Error>> {
    settings.check()?;
    let mut sweep = Sweep { settings, run: Run::new(device, observer, &settings.conditions), trials: 0 };
    let mut spacing = settings.spacing();
    let (at_maximum_load, first) = sweep.offer(settings.maximum, None)?;
    let without_loss = first.counted.received == first.counted.sent;
    let mut highest = at_maximum_load;
    for step in 1..settings.loads {
        let load = (settings.maximum - f64::from(step) * spacing).max(settings.minimum);
        highest = sweep.better(highest, load)?;
    }
    for _ in 0..settings.refinements {
        spacing /= 2.0;
        let around = highest.load;
        for load in [around + spacing, around - spacing] {
            // No load is offered twice: at the ends of the range one side is missing, and the spacing is 0 for a single load.
            if spacing > 0.0 && (settings.minimum..=settings.maximum).contains(&load) {
                highest = sweep.better(highest, load)?;
            }
        }
    }
    Ok(MaximumReceiveRate { highest, at_maximum_load, without_loss, trials: sweep.run.into_trials() })
}

struct Sweep<'a, 'r, D> {
    settings: &'a Settings,
    run: Run<'r, D>,
    trials: u32,
}

impl<D: Device> Sweep<'_, '_, D> {
    fn offer(
        &mut self,
        load: f64,
        best: Option<f64>,
    ) -> Result<(ForwardingRate, Trial), SearchError<D::Error>> {
        let trials_left = self.settings.most_trials().saturating_sub(self.trials);
        self.trials += 1;
        let phase = Phase::Step { step: self.trials };
        let prospect = Prospect { phase, lower: best, upper: None, trials_left };
        let trial = self.run.load(load, self.settings.trial, prospect)?;
        let (offered, forwarded) = (trial.offered_load(), trial.forwarding_rate());
        Ok((ForwardingRate { load, offered, forwarded }, trial))
    }

    fn better(&mut self, best: ForwardingRate, load: f64) -> Result<ForwardingRate, SearchError<D::Error>> {
        let (rate, _) = self.offer(load, Some(best.forwarded))?;
        Ok(if rate.forwarded > best.forwarded { rate } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::super::SearchError;
    use super::super::simulated::Simulated;
    use super::*;

    fn found(device: &mut Simulated) -> MaximumReceiveRate {
        search(&Settings::ten_loads(100_000.0), device, &mut |_| ()).unwrap()
    }

    #[test]
    fn a_steady_device_forwards_its_knee_at_the_maximum_load() {
        let result = found(&mut Simulated::steady(60_000.0));
        assert_eq!(result.at_maximum_load, result.highest);
        assert!((result.highest.forwarded - 60_000.0).abs() < 1.0);
        assert!(!result.without_loss);
    }

    #[test]
    fn a_device_that_collapses_under_overload_is_fastest_near_its_knee() {
        // Above 63,000 each frame too many costs half a frame of work.
        let mut device = Simulated::steady(63_000.0).collapsing(0.5);
        let mut seen = 0;
        let result = search(&Settings::ten_loads(100_000.0), &mut device, &mut |_| seen += 1).unwrap();
        assert!((result.at_maximum_load.forwarded - 44_500.0).abs() < 1.0, "{result:?}");
        assert!((result.highest.load - 63_000.0).abs() <= 1_250.0, "{result:?}");
        assert!(result.highest.forwarded > 62_000.0, "{result:?}");
        assert_eq!(result.trials.len(), seen);
        assert!(seen <= Settings::ten_loads(100_000.0).most_trials() as usize);
    }

    #[test]
    fn a_device_faster_than_the_maximum_is_marked() {
        let result = found(&mut Simulated::steady(200_000.0));
        assert!(result.without_loss);
        assert!((result.highest.forwarded - 100_000.0).abs() < 1.0);
    }

    #[test]
    fn a_slow_generator_shows_in_the_offered_load() {
        let result = found(&mut Simulated::steady(2e5).sending_at_most(70_000.0, false));
        assert!(result.without_loss, "of the device");
        assert_eq!((result.at_maximum_load.load, result.at_maximum_load.offered), (100_000.0, 70_000.0));
        assert_eq!(result.highest.forwarded, 70_000.0);
    }

    #[test]
    fn one_load_is_the_maximum_alone() {
        let settings = Settings { loads: 1, ..Settings::ten_loads(1e5) };
        let result = search(&settings, &mut Simulated::steady(1e4), &mut |_| ()).unwrap();
        assert_eq!(result.trials.len(), 1);
    }

    #[test]
    fn impossible_settings_are_named_together() {
        let settings = Settings { minimum: 2e5, loads: 0, refinements: 2_000, ..Settings::ten_loads(1e5) };
        let Err(SearchError::Impossible(error)) = search(&settings, &mut Simulated::steady(1.0), &mut |_| ())
        else {
            panic!("no trial could be run")
        };
        assert_eq!(error.faults.len(), 3, "{error}");
    }
}
