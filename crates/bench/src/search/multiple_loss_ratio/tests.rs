use proptest::prelude::*;

use super::super::simulated::{Lie, Simulated};
use super::super::{Limits, Traffic};
use super::*;

const MAXIMUM: f64 = 1e6;

fn settings() -> Settings {
    Settings::ndr_and_pdr(MAXIMUM / 100.0, MAXIMUM)
}

fn found(settings: &Settings, device: &mut Simulated) -> MultipleLossRatio {
    search(settings, device, &mut |_| ()).unwrap()
}

fn bounds(result: &GoalResult) -> (f64, f64) {
    assert_eq!(result.ending, Ending::Regular, "{result:?}");
    (result.relevant_lower_bound.unwrap(), result.relevant_upper_bound.unwrap())
}

#[test]
fn both_rates_of_a_steady_device_are_found() {
    let mut device = Simulated::steady(600_000.0);
    let result = found(&settings(), &mut device);
    let (lower, upper) = bounds(&result.goals[0]);
    assert!(lower <= 600_001.0 && upper >= 600_000.0, "{lower} {upper}");
    assert!((upper - lower) / upper <= 0.005);
    assert_eq!(result.goals[0].conditional_throughput, Some(lower));
    // 0.5 % of the frames are lost at a load of knee / 0.995.
    let (lower, upper) = bounds(&result.goals[1]);
    let partial = 600_000.0 / 0.995;
    assert!(lower <= partial + 1.0 && upper >= partial - 1.0, "{lower} {upper}");
    assert!((upper - lower) / upper <= 0.005);
    let conditional = result.goals[1].conditional_throughput.unwrap();
    assert!(conditional <= lower && conditional >= lower * 0.995, "{conditional} {lower}");
    assert_eq!(result.limit_reached, None);
    assert!(device.trials < 100, "{} trials", device.trials);
}

#[test]
fn the_first_trial_warms_up_and_is_not_judged() {
    let mut phases = Vec::new();
    let mut device = Simulated::steady(2e6).cold(1);
    let result = search(&settings(), &mut device, &mut |progress| phases.push(progress.phase)).unwrap();
    assert_eq!(phases[..2], [Phase::WarmUp, Phase::Maximum]);
    assert_eq!(result.goals[0].ending, Ending::AtLeastMaximum);
    assert_eq!(result.goals[0].conditional_throughput, Some(MAXIMUM));
    assert_eq!((result.goals[0].relevant_upper_bound, result.goals[0].limited_by), (None, None));
    // 11 trials without loss settle a duration sum of 21 s, for both goals.
    assert_eq!(device.trials, 12);
}

#[test]
fn a_device_that_drops_at_every_rate_has_no_ndr_but_a_pdr() {
    let mut device = Simulated::steady(500_000.0).losing(0.000_1);
    let result = found(&settings(), &mut device);
    assert_eq!(result.goals[0].ending, Ending::BelowMinimum);
    assert_eq!(result.goals[0].relevant_lower_bound, None);
    assert_eq!(result.goals[0].conditional_throughput, None);
    let (lower, upper) = bounds(&result.goals[1]);
    assert!(lower < 503_000.0 && upper > 497_000.0, "{lower} {upper}");
}

#[test]
fn noise_in_less_than_half_of_the_trials_is_forgiven() {
    // Every third trial loses frames, at any load.
    let losing: Vec<u32> = (1..3_000).filter(|trial| trial % 3 == 0).collect();
    let mut device = Simulated::steady(600_000.0).losing_trials(&losing);
    let result = found(&settings(), &mut device);
    let (lower, upper) = bounds(&result.goals[0]);
    assert!(lower <= 600_001.0 && upper >= 600_000.0, "{lower} {upper}");
    let mut strict = settings();
    strict.goals[0].exceed_ratio = 0.0;
    let losing: Vec<u32> = (1..3_000).filter(|trial| trial % 3 == 0).collect();
    let result = found(&strict, &mut Simulated::steady(600_000.0).losing_trials(&losing));
    assert_eq!(result.goals[0].ending, Ending::BelowMinimum, "{:?}", result.goals[0]);
}

#[test]
fn a_jittery_knee_is_found_at_its_middle() {
    for seed in 1..20 {
        let mut device = Simulated::steady(600_000.0).noisy(0.03, 0.0, [seed; 16]);
        let result = found(&settings(), &mut device);
        let (lower, upper) = bounds(&result.goals[0]);
        assert!(lower > 580_000.0 && upper < 620_000.0, "{lower} {upper} with seed {seed}");
        assert!(device.trials < 400, "{} trials with seed {seed}", device.trials);
    }
}

#[test]
fn a_device_that_collapses_or_does_not_recover_is_found_below_its_knee() {
    let mut device = Simulated::steady(600_000.0).collapsing(1.0);
    let (lower, upper) = bounds(&found(&settings(), &mut device).goals[0]);
    assert!(lower <= 600_001.0 && upper >= 600_000.0, "{lower} {upper}");
    let mut device = Simulated::steady(700_000.0).recovering_at(500_000.0);
    let (lower, upper) = bounds(&found(&settings(), &mut device).goals[0]);
    assert!(lower > 490_000.0 && upper < 710_000.0, "{lower} {upper}");
}

#[test]
fn the_quick_variant_takes_less_time() {
    let quick = Settings::quick(MAXIMUM / 100.0, MAXIMUM);
    let result = found(&quick, &mut Simulated::steady(600_000.0));
    let (lower, upper) = bounds(&result.goals[0]);
    assert!(lower <= 600_001.0 && upper >= 600_000.0 && upper - lower <= 0.01 * upper);
    let sending: Duration = result.trials.iter().map(|trial| trial.sending).sum();
    assert!(sending < Duration::from_secs(20), "{sending:?}");
}

#[test]
fn a_slow_generator_limits_the_result() {
    let mut device = Simulated::steady(2e6).sending_at_most(300_000.0, false);
    let result = found(&settings(), &mut device).goals[0];
    let (lower, upper) = bounds(&result);
    assert!(lower <= 300_010.0 && upper >= 300_000.0, "{lower} {upper}");
    assert_eq!(result.limited_by, Some(LimitedBy::Sender));
    let result = found(&settings(), &mut Simulated::steady(3e5)).goals[0];
    assert_eq!(result.limited_by, Some(LimitedBy::Device));
}

#[test]
fn goals_with_trials_of_other_lengths_share_them() {
    let mut mixed = settings();
    mixed.goals[1].trial = Duration::from_secs(3);
    let result = found(&mixed, &mut Simulated::steady(600_000.0));
    assert!(result.goals.iter().all(|goal| goal.ending == Ending::Regular), "{:?}", result.goals);
}

#[test]
fn a_goal_whose_bounds_change_with_later_trials_is_taken_up_again() {
    // The first goal is content with 11 trials at the maximum. The second asks for more, which lose frames: the maximum is an upper
    // bound for both then. The second finds a lower bound far below and is content with that.
    let mut settings = settings();
    settings.goals[1] = Goal { duration_sum: Duration::from_secs(41), relative_width: 0.3, ..Goal::NDR };
    let losing: Vec<u32> = (13..=33).collect();
    let result = found(&settings, &mut Simulated::steady(2e6).losing_trials(&losing));
    let ((lower, upper), (far_below, same)) = (bounds(&result.goals[0]), bounds(&result.goals[1]));
    assert_eq!((upper, same), (MAXIMUM, MAXIMUM));
    assert!(lower >= 0.995 * MAXIMUM && far_below <= lower, "{lower} {far_below}");
}

#[test]
fn limits_leave_irregular_results() {
    let limits = Limits { trials: 20, ..Limits::default() };
    let settings = Settings { conditions: Conditions { limits, ..Conditions::default() }, ..settings() };
    let result = found(&settings, &mut Simulated::steady(600_000.0));
    assert_eq!(result.trials.len(), 20);
    assert!(result.limit_reached.is_some());
    assert_eq!(result.goals.len(), 2);
    assert!(result.goals.iter().all(|goal| goal.ending == Ending::LimitReached), "{:?}", result.goals);
    let limits = Limits { trials: 0, ..Limits::default() };
    let settings = Settings { conditions: Conditions { limits, ..Conditions::default() }, ..settings };
    let error = search(&settings, &mut Simulated::steady(1.0), &mut |_| ()).unwrap_err();
    assert!(matches!(error, SearchError::LimitReached(_)), "{error}");
}

#[test]
fn lies_end_the_search_even_while_it_warms_up() {
    for trial in [1, 2, 15] {
        for lie in [Lie::ReceivedMoreThanSent, Lie::CounterGoesBackwards, Lie::LinkGoesDown, Lie::ClockJumps]
        {
            let mut device = Simulated::steady(600_000.0).lying(lie, trial);
            let error = search(&settings(), &mut device, &mut |_| ()).unwrap_err();
            assert!(
                matches!(error, SearchError::Invalid { trial: at, .. } if at == trial),
                "{lie:?}: {error}"
            );
            assert_eq!(device.trials, trial);
        }
    }
}

#[test]
fn impossible_goals_are_named_together() {
    let bad = Goal {
        loss_ratio: 1.0,
        exceed_ratio: f64::NAN,
        relative_width: 0.0,
        trial: Duration::from_secs(5),
        duration_sum: Duration::from_secs(4),
    };
    let settings = Settings { goals: vec![Goal::NDR, bad], maximum: -1.0, ..settings() };
    let mut device = Simulated::steady(1.0);
    let Err(SearchError::Impossible(error)) = search(&settings, &mut device, &mut |_| ()) else {
        panic!("it is impossible")
    };
    assert_eq!((error.faults.len(), device.trials), (5, 0), "{error}");
    let none = Settings { goals: Vec::new(), ..settings };
    assert!(matches!(none.check().unwrap_err().faults[..], [Fault::Missing { setting: "goal" }]));
}

#[test]
fn progress_knows_the_bounds() {
    let mut seen = Vec::new();
    let mut device = Simulated::steady(600_000.0);
    search(&settings(), &mut device, &mut |progress| seen.push(*progress)).unwrap();
    assert_eq!(seen.len(), device.trials as usize);
    assert!(seen.iter().all(|progress| progress.trials_left > 0));
    let last = seen.last().unwrap();
    assert!(matches!(last.phase, Phase::Confirming { .. }));
    assert!(seen.iter().any(|progress| progress.phase == Phase::Exploring { goal: 0 }));
    let Traffic::Load { frames_per_second, .. } = last.traffic else { panic!("no burst") };
    assert!(last.lower.is_none_or(|lower| lower < frames_per_second));
    assert!(last.upper.is_none_or(|upper| upper > frames_per_second));
}

proptest! {
    #[test]
    fn any_knee_is_found_within_the_width(knee in 11_000.0..990_000.0f64, collapse in 0.0..1.0f64) {
        let mut device = Simulated::steady(knee).collapsing(collapse);
        let result = found(&settings(), &mut device);
        let (lower, upper) = bounds(&result.goals[0]);
        prop_assert!(lower <= knee + 2.0 && upper >= knee && upper - lower <= 0.005 * upper, "{lower} {knee} {upper}");
        prop_assert!(device.trials <= 300, "{} trials", device.trials);
    }

    #[test]
    fn any_noise_ends(
        knee in 1e3..2e6f64,
        jitter in 0.0..0.5f64,
        loss in 0.0..0.02f64,
        seed in 1..255u8,
    ) {
        let mut device = Simulated::steady(knee).noisy(jitter, loss, [seed; 16]);
        let result = found(&settings(), &mut device);
        prop_assert!(result.limit_reached.is_none(), "{} trials", device.trials);
        prop_assert!(device.trials <= 2_000, "{} trials", device.trials);
        for goal in &result.goals {
            if let (Some(lower), Some(upper)) = (goal.relevant_lower_bound, goal.relevant_upper_bound) {
                prop_assert!(goal.goal.is_narrow(lower, upper));
            }
        }
    }
}
