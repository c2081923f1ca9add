//! What the trials at one load say: its classification (RFC 9971 appendix A) and its conditional throughput (appendix B).

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::LimitedBy;
use super::goal::Goal;
use super::stage::Bounds;

/// What a load is to a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classification {
    /// It is certain to fulfil the goal, whatever further trials within the duration sum show.
    LowerBound,
    /// It is certain to fail the goal.
    UpperBound,
    /// Further trials decide.
    Undecided,
}

/// One trial: how long it was asked to last, which share it lost, and by whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) duration: Duration,
    pub(super) loss_ratio: f64,
    pub(super) limited_by: LimitedBy,
}

/// Durations of a load's trials by what they are to a goal, seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    full_length_low_loss: f64,
    full_length_high_loss: f64,
    short_low_loss: f64,
    short_high_loss: f64,
}

impl Sums {
    fn of(trials: &[Measured], goal: &Goal) -> Self {
        let mut sums = Self::default();
        for trial in trials {
            let full_length = trial.duration >= goal.trial;
            let low_loss = trial.loss_ratio <= goal.loss_ratio;
            let sum = match (full_length, low_loss) {
                (true, true) => &mut sums.full_length_low_loss,
                (true, false) => &mut sums.full_length_high_loss,
                (false, true) => &mut sums.short_low_loss,
                (false, false) => &mut sums.short_high_loss,
            };
            *sum += trial.duration.as_secs_f64();
        }
        sums
    }

    /// Time of high loss. Short trials count as far as those of low loss do not make up for them; they never speak for a load.
    fn effective_high_loss(&self, goal: &Goal) -> f64 {
        let balancing = self.short_low_loss * goal.exceed_ratio / (1.0 - goal.exceed_ratio);
        self.full_length_high_loss + (self.short_high_loss - balancing).max(0.0)
    }
}

/// What the trials at one load say of it, for one goal: the two extremes of what the time that is missing to the duration sum could show.
pub(super) fn classify(trials: &[Measured], goal: &Goal) -> Classification {
    let sums = Sums::of(trials, goal);
    let high_loss = sums.effective_high_loss(goal);
    let whole = (sums.full_length_low_loss + high_loss).max(goal.duration_sum.as_secs_f64());
    // Durations are sums of binary fractions, so that an exact half may come out a little above itself.
    let tolerated = whole * goal.exceed_ratio * (1.0 + 1e-9);
    let optimistic = high_loss <= tolerated;
    let pessimistic = whole - sums.full_length_low_loss <= tolerated;
    match (optimistic, pessimistic) {
        (true, true) => Classification::LowerBound,
        (false, false) => Classification::UpperBound,
        _ => Classification::Undecided,
    }
}

/// The forwarding rate to expect at a load that is a lower bound: all but the worst of its full-length trials, as many as the exceed
/// ratio allows to be ignored, forwarded at least this. `None` where there is no such trial.
pub(super) fn conditional_throughput(load: f64, trials: &[Measured], goal: &Goal) -> Option<f64> {
    let mut full_length: Vec<&Measured> =
        trials.iter().filter(|trial| trial.duration >= goal.trial).collect();
    full_length.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
    let measured: f64 = full_length.iter().map(|trial| trial.duration.as_secs_f64()).sum();
    let mut remaining = measured.max(goal.duration_sum.as_secs_f64()) * (1.0 - goal.exceed_ratio);
    let mut loss_ratio = None;
    for trial in full_length {
        if loss_ratio.is_some() && remaining <= 1e-9 {
            break;
        }
        loss_ratio = Some(trial.loss_ratio);
        remaining -= trial.duration.as_secs_f64();
    }
    // Time that was not measured might have lost everything.
    let loss_ratio = if remaining > 1e-9 { loss_ratio.map(|_| 1.0) } else { loss_ratio };
    loss_ratio.map(|loss_ratio| load * (1.0 - loss_ratio))
}

/// The trials of a search by load.
#[derive(Debug, Default)]
pub(super) struct Loads {
    /// Loads are positive, and positive numbers are ordered as their bits are.
    trials: BTreeMap<u64, Vec<Measured>>,
}

impl Loads {
    pub(super) fn add(&mut self, load: f64, measured: Measured) {
        self.trials.entry(load.to_bits()).or_default().push(measured);
    }

    /// What most high-loss trials at a load are limited by.
    pub(super) fn limited_by(&self, load: f64, goal: &Goal) -> Option<LimitedBy> {
        let trials = self.trials.get(&load.to_bits())?.iter();
        let (mut device, mut sender) = (0, 0);
        for trial in trials.filter(|trial| trial.loss_ratio > goal.loss_ratio) {
            match trial.limited_by {
                LimitedBy::Device => device += 1,
                LimitedBy::Sender => sender += 1,
            }
        }
        (device + sender > 0).then_some(if sender > device { LimitedBy::Sender } else { LimitedBy::Device })
    }

    pub(super) fn classify(&self, load: f64, goal: &Goal) -> Classification {
        self.trials.get(&load.to_bits()).map_or(Classification::Undecided, |trials| classify(trials, goal))
    }

    pub(super) fn conditional_throughput(&self, load: f64, goal: &Goal) -> Option<f64> {
        conditional_throughput(load, self.trials.get(&load.to_bits())?, goal)
    }

    /// The relevant bounds: the smallest upper bound, and the largest lower bound below it.
    pub(super) fn relevant_bounds(&self, goal: &Goal) -> Bounds {
        let mut bounds = Bounds { lower: None, upper: None };
        for (&bits, trials) in &self.trials {
            match classify(trials, goal) {
                Classification::LowerBound => bounds.lower = Some(f64::from_bits(bits)),
                Classification::UpperBound => {
                    bounds.upper = Some(f64::from_bits(bits));
                    break;
                }
                Classification::Undecided => {}
            }
        }
        bounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(seconds: f64, loss_ratio: f64) -> Measured {
        let duration = Duration::from_secs_f64(seconds);
        Measured { duration, loss_ratio, limited_by: LimitedBy::Device }
    }

    /// Trials in the shorthand of the RFC: number, seconds, loss in percent.
    fn trials(groups: &[(usize, f64, f64)]) -> Vec<Measured> {
        groups
            .iter()
            .flat_map(|&(number, seconds, percent)| {
                std::iter::repeat_n(measured(seconds, percent / 100.0), number)
            })
            .collect()
    }

    fn goal(trial: u64, sum: u64, loss_percent: f64, exceed_percent: f64) -> Goal {
        Goal {
            loss_ratio: loss_percent / 100.0,
            exceed_ratio: exceed_percent / 100.0,
            relative_width: 0.005,
            trial: Duration::from_secs(trial),
            duration_sum: Duration::from_secs(sum),
        }
    }

    #[test]
    fn the_worked_example_of_the_method_is_reproduced() {
        use Classification::{LowerBound, Undecided, UpperBound};
        // As RFC 2544 asks, as ETSI TST 009 does, and short trials only.
        let goals = [goal(60, 60, 0.0, 0.0), goal(60, 120, 0.0, 50.0), goal(1, 120, 0.5, 50.0)];
        // Short trials, half of them lossy; then a long one with little loss; then one without.
        let long_bad = [(60, 1.0, 0.0), (60, 1.0, 1.0), (1, 60.0, 0.1)];
        let long_good = [(60, 1.0, 0.0), (60, 1.0, 1.0), (1, 60.0, 0.1), (1, 60.0, 0.0)];
        let found = |groups: &[(usize, f64, f64)]| goals.map(|goal| classify(&trials(groups), &goal));
        assert_eq!(found(&[]), [Undecided; 3]);
        assert_eq!(found(&long_bad), [UpperBound, Undecided, LowerBound]);
        assert_eq!(found(&long_good), [UpperBound, LowerBound, LowerBound]);
        for goal in &goals[1..] {
            assert_eq!(conditional_throughput(1e6, &trials(&long_good), goal), Some(1e6));
        }
        // One that tolerates 20 %: of its two full-length trials the worse is among the best 80 %.
        let goal = goal(60, 60, 0.5, 20.0);
        let throughput = conditional_throughput(1e6, &trials(&long_good), &goal).unwrap();
        assert!((throughput - 999e3).abs() < 1e-3, "{throughput}");
        // Its short trials of low loss make up for 15 s of the 60 s of high loss: 45 s of 165 s are 27 %.
        let sums = Sums::of(&trials(&long_good), &goal);
        assert!((sums.effective_high_loss(&goal) - 45.0).abs() < 1e-9);
        assert_eq!(classify(&trials(&long_good), &goal), UpperBound);
    }

    #[test]
    fn trials_of_one_kind_decide_early() {
        let ndr = Goal::NDR;
        assert_eq!(classify(&trials(&[(10, 1.0, 0.0)]), &ndr), Classification::Undecided);
        assert_eq!(classify(&trials(&[(11, 1.0, 0.0)]), &ndr), Classification::LowerBound);
        assert_eq!(classify(&trials(&[(10, 1.0, 0.1)]), &ndr), Classification::Undecided);
        assert_eq!(classify(&trials(&[(11, 1.0, 0.1)]), &ndr), Classification::UpperBound);
        assert_eq!(ndr.trials_a_load(), 11);
        assert_eq!(classify(&trials(&[(10, 1.0, 0.1), (11, 1.0, 0.0)]), &ndr), Classification::LowerBound);
        assert_eq!(classify(&trials(&[(11, 1.0, 0.3)]), &Goal::PDR), Classification::LowerBound);
    }

    #[test]
    fn a_full_duration_sum_always_decides() {
        for high_loss in 0..=21 {
            let trials = trials(&[(high_loss, 1.0, 2.0), (21 - high_loss, 1.0, 0.0)]);
            let expected =
                if high_loss <= 10 { Classification::LowerBound } else { Classification::UpperBound };
            assert_eq!(classify(&trials, &Goal::NDR), expected, "{high_loss}");
        }
    }

    #[test]
    fn the_relevant_upper_bound_is_the_smallest_and_the_lower_one_below_it() {
        let goal = goal(1, 1, 0.0, 0.5);
        let mut loads = Loads::default();
        for (load, loss_ratio) in [(50.0, 0.1), (10.0, 0.0), (30.0, 0.0), (70.0, 0.0), (90.0, 0.2)] {
            loads.add(load, measured(1.0, loss_ratio));
        }
        assert_eq!(loads.relevant_bounds(&goal), Bounds { lower: Some(30.0), upper: Some(50.0) });
    }

    #[test]
    fn too_little_measured_is_no_throughput() {
        assert_eq!(conditional_throughput(5.0, &[], &Goal::NDR), None);
        assert_eq!(conditional_throughput(5.0, &trials(&[(3, 1.0, 0.0)]), &Goal::NDR), Some(0.0));
        assert_eq!(conditional_throughput(5.0, &trials(&[(11, 1.0, 0.0)]), &Goal::NDR), Some(5.0));
    }
}
