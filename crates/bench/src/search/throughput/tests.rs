use proptest::prelude::*;

use super::super::simulated::{Broken, Lie, Simulated};
use super::super::{Accepted, Fault, Invalid, Limits, Preparation, Request, Traffic};
use super::*;

fn settings() -> Settings {
    Settings { trial: Duration::from_secs(10), ..Settings::bare_metal(1_000_000.0) }
}

fn verdict(settings: &Settings, device: &mut Simulated) -> Verdict {
    search(settings, device, &mut |_| ()).unwrap().verdict
}

fn found(settings: &Settings, device: &mut Simulated) -> (f64, f64) {
    match verdict(settings, device) {
        Verdict::Found { throughput, upper, .. } => (throughput, upper),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_knee_of_a_steady_device_is_found() {
    let mut device = Simulated::steady(654_321.0);
    let (throughput, upper) = found(&settings(), &mut device);
    // 0.01 % of loss is tolerated, so that the answer may be that much above the knee.
    assert!(upper - throughput <= 1_000.0);
    assert!(throughput <= 654_321.0 * 1.000_2 && upper >= 654_321.0, "{throughput} {upper}");
}

#[test]
fn a_device_that_drops_at_every_rate_has_no_throughput() {
    let mut device = Simulated::steady(2e6).losing(0.01);
    let limited_by = LimitedBy::Device;
    assert_eq!(verdict(&settings(), &mut device), Verdict::BelowMinimum { limited_by });
    assert_eq!(device.trials, 8, "the maximum and the minimum, four times each");
}

#[test]
fn a_device_that_is_never_brought_to_its_limit_has_at_least_the_maximum() {
    let mut device = Simulated::steady(2e6);
    assert_eq!(verdict(&settings(), &mut device), Verdict::AtLeastMaximum);
    assert_eq!(device.trials, 1);
}

#[test]
fn a_device_that_loses_one_frame_in_ten_thousand_passes_with_the_tolerance_of_the_document_alone() {
    let device = || Simulated::steady(5e5).losing(0.000_1);
    assert!(matches!(verdict(&settings(), &mut device()), Verdict::Found { .. }));
    let strict = Settings { loss_tolerance: 0.0, ..settings() };
    assert!(matches!(verdict(&strict, &mut device()), Verdict::BelowMinimum { .. }));
    let just_below = Settings { loss_tolerance: 0.000_099, ..settings() };
    assert!(matches!(verdict(&just_below, &mut device()), Verdict::BelowMinimum { .. }));
}

#[test]
fn retries_forgive_single_failures() {
    let failing = |trials: &[u32]| Simulated::steady(2e6).losing_trials(trials);
    assert_eq!(verdict(&settings(), &mut failing(&[1, 2, 3])), Verdict::AtLeastMaximum);
    let mut device = failing(&[1, 2, 3, 4]);
    assert!(matches!(verdict(&settings(), &mut device), Verdict::Found { upper, .. } if upper == 1e6));
    let none = Settings { retries: 0, ..settings() };
    assert!(matches!(verdict(&none, &mut failing(&[1])), Verdict::Found { .. }));
}

#[test]
fn a_device_that_needs_warm_up_is_helped_by_retries() {
    let mut device = Simulated::steady(2e6).cold(2);
    assert_eq!(verdict(&settings(), &mut device), Verdict::AtLeastMaximum);
    assert_eq!(device.trials, 3);
}

#[test]
fn a_device_with_hysteresis_is_between_recovery_and_knee() {
    let mut device = Simulated::steady(700_000.0).recovering_at(500_000.0);
    let (throughput, upper) = found(&settings(), &mut device);
    assert!((499_000.0..=700_000.0).contains(&throughput), "{throughput}");
    assert!(upper - throughput <= 1_000.0);
}

#[test]
fn a_noisy_device_is_found_within_its_noise() {
    for seed in 0..20 {
        let mut device = Simulated::steady(400_000.0).noisy(0.02, 0.000_05, [seed + 1; 16]);
        let (throughput, _) = found(&settings(), &mut device);
        assert!((391_000.0..=409_000.0).contains(&throughput), "{throughput} with seed {seed}");
    }
}

#[test]
fn what_is_not_sent_is_lost_and_the_sender_is_named() {
    for stretches in [false, true] {
        let mut device = Simulated::steady(2e6).sending_at_most(300_000.0, stretches);
        let Verdict::Found { throughput, limited_by, .. } = verdict(&settings(), &mut device) else {
            panic!("the generator is slower than the maximum")
        };
        assert_eq!(limited_by, LimitedBy::Sender);
        // A thousandth of lateness is no stretching.
        assert!((299_000.0..=301_000.0).contains(&throughput), "{throughput}");
    }
}

#[test]
fn some_microseconds_worth_of_frames_may_stay_unsent() {
    let strict = Settings { loss_tolerance: 0.0, retries: 0, ..settings() };
    // 9 and 11 frames of 10 million; at a million a second, 10 µs are worth 10.
    let sender = |frames: f64| Simulated::steady(2e6).sending_at_most(1e6 - frames / 10.0, false);
    assert_eq!(verdict(&strict, &mut sender(9.0)), Verdict::AtLeastMaximum);
    assert!(matches!(verdict(&strict, &mut sender(11.0)), Verdict::Found { .. }));
}

#[test]
fn every_lie_ends_the_search_in_its_trial() {
    let cases = [
        (Lie::ReceivedMoreThanSent, "duplicates are counted as received"),
        (Lie::DuplicatesForLost, "10 frames came back more than once"),
        (Lie::MoreReorderedThanReceived, "were reordered, but only"),
        (Lie::Foreign, "5 frames came that were not of the test"),
        (Lie::Corrupted, "1 frames came back corrupted"),
        (Lie::Stale, "2 frames of an earlier trial"),
        (Lie::CounterGoesBackwards, "foreign frames went backwards, from 3 to 2"),
        (Lie::SentMoreThanIntended, "were intended"),
        (Lie::IntendsLess, "were asked for"),
        (Lie::SendsTooFast, "were sent in 5s"),
        (Lie::LinkGoesDown, "a link went down"),
        (Lie::ClockJumps, "the clock jumped"),
        (Lie::IsInterrupted, "it was interrupted"),
    ];
    for (lie, words) in cases {
        for trial in [1, 6] {
            let mut device = Simulated::steady(300_000.0).lying(lie, trial);
            let error = search(&settings(), &mut device, &mut |_| ()).unwrap_err();
            assert!(
                matches!(error, SearchError::Invalid { trial: at, .. } if at == trial),
                "{lie:?}: {error}"
            );
            assert!(error.to_string().contains(words), "{lie:?}: {error}");
            assert_eq!(device.trials, trial, "nothing is tried after it");
        }
    }
}

#[test]
fn a_device_that_cannot_run_a_trial_is_an_error_with_its_reason() {
    let mut device = Simulated::steady(1.0).lying(Lie::Fails, 3);
    let error = search(&settings(), &mut device, &mut |_| ()).unwrap_err();
    assert!(matches!(error, SearchError::Device { trial: 3, source: Broken, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "trial 3 (1000000 frames a second for 10s) could not be run: the generator has ended"
    );
}

#[test]
fn accepted_irregularities_change_nothing_else() {
    let accepting = |accepted| Settings {
        loss_tolerance: 0.0,
        retries: 0,
        conditions: Conditions { accepted, ..Conditions::default() },
        ..settings()
    };
    let liar = |lie, accepted| verdict(&accepting(accepted), &mut Simulated::steady(2e6).lying(lie, 1));
    let foreign = Accepted { foreign: 5, ..Accepted::default() };
    assert_eq!(liar(Lie::Foreign, foreign), Verdict::AtLeastMaximum);
    let stale = Accepted { stale: true, ..Accepted::default() };
    assert_eq!(liar(Lie::Stale, stale), Verdict::AtLeastMaximum);
    let duplicates = Accepted { duplicates: true, ..Accepted::default() };
    let verdict = liar(Lie::DuplicatesForLost, duplicates);
    assert!(matches!(verdict, Verdict::Found { .. }), "copies do not replace what was lost: {verdict:?}");
}

#[test]
fn all_faults_are_named_at_once_and_no_trial_is_run() {
    let bad = Settings {
        minimum: 0.0,
        maximum: f64::NAN,
        resolution: -1.0,
        loss_tolerance: 1.0,
        trial: Duration::ZERO,
        retries: 1_000,
        conditions: Conditions::default(),
    };
    let mut device = Simulated::steady(1.0);
    let Err(SearchError::Impossible(error)) = search(&bad, &mut device, &mut |_| ()) else {
        panic!("it is impossible")
    };
    assert_eq!((error.faults.len(), device.trials), (6, 0), "{error}");
    assert!(error.to_string().contains("; the maximum rate is not a finite number; the trial"));

    let faults = |settings: Settings| settings.check().unwrap_err().faults;
    let swapped = Settings { minimum: 2e6, ..settings() };
    assert!(matches!(faults(swapped)[..], [Fault::MaximumBelowMinimum { .. }]));
    let tiny = Settings { minimum: 0.01, ..settings() };
    assert!(matches!(faults(tiny)[..], [Fault::NoFrame { .. }]));
    let limits = Limits { sending: Duration::from_secs(9), ..Limits::default() };
    let long = Settings { conditions: Conditions { limits, ..Conditions::default() }, ..settings() };
    assert!(matches!(faults(long)[..], [Fault::LongerThanLimit { .. }]));
    assert!(settings().check().is_ok());
}

#[test]
fn limits_end_the_search_with_what_is_known() {
    let limited =
        |limits| Settings { conditions: Conditions { limits, ..Conditions::default() }, ..settings() };
    for limits in [
        Limits { trials: 11, ..Limits::default() },
        Limits { sending: Duration::from_secs(119), ..Limits::default() },
    ] {
        let mut device = Simulated::steady(300_000.0);
        let error = search(&limited(limits), &mut device, &mut |_| ()).unwrap_err();
        let SearchError::LimitReached(reached) = error else { panic!("{error}") };
        assert_eq!((reached.trials, device.trials), (11, 11));
        let (lower, upper) = (reached.lower.unwrap(), reached.upper.unwrap());
        assert!(lower <= 300_000.0 && 300_000.0 <= upper, "{reached}");
        assert!(reached.to_string().contains("(between "), "{reached}");
    }
}

#[test]
fn progress_tells_each_trial_and_what_is_left() {
    let mut seen = Vec::new();
    let mut device = Simulated::steady(654_321.0);
    search(&settings(), &mut device, &mut |progress| seen.push(*progress)).unwrap();
    assert_eq!(seen.len(), device.trials as usize);
    assert_eq!(seen[0].phase, Phase::Maximum);
    assert_eq!(seen[1].phase, Phase::Retrying { retry: 1 });
    assert_eq!(seen[4].phase, Phase::Minimum);
    assert_eq!((seen[4].lower, seen[4].upper), (None, Some(1e6)));
    assert_eq!(seen[5].phase, Phase::Narrowing);
    assert_eq!((seen[5].lower, seen[5].upper), (Some(1e4), Some(1e6)));
    assert!(
        matches!(seen[5].traffic, Traffic::Load { frames_per_second, .. } if frames_per_second == 505_000.0)
    );
    assert_eq!(seen[5].sending_done, Duration::from_secs(50));
    assert!(seen.windows(2).all(|pair| pair[0].trials_left > pair[1].trials_left), "it counts down");
    assert!(seen.windows(2).all(|pair| pair[0].share() < pair[1].share()));
    assert!(seen.iter().all(|progress| progress.sending_left >= Duration::from_secs(10)));
}

#[test]
fn each_trial_is_prepared_as_asked() {
    let conditions = Conditions { preparation: Preparation::ResetState, ..Conditions::default() };
    let mut device = Simulated::steady(3e5);
    search(&Settings { conditions, ..settings() }, &mut device, &mut |_| ()).unwrap();
    let reset = |request: &Request| request.preparation == Preparation::ResetState;
    assert!(device.requests.iter().all(reset));
}

#[test]
fn equal_bounds_are_one_question() {
    let one = |rate| Settings { minimum: rate, maximum: rate, ..settings() };
    assert_eq!(verdict(&one(1e5), &mut Simulated::steady(2e5)), Verdict::AtLeastMaximum);
    let limited_by = LimitedBy::Device;
    assert_eq!(verdict(&one(3e5), &mut Simulated::steady(2e5)), Verdict::BelowMinimum { limited_by });
}

#[test]
fn an_intention_that_is_rounded_by_direction_is_accepted() {
    let request = Request {
        traffic: Traffic::Load { frames_per_second: 1e6, duration: Duration::from_secs(1) },
        preparation: Preparation::Nothing,
    };
    let judge = |intended| {
        let counted = super::super::Counters { sent: intended, received: intended, ..Default::default() };
        let outcome = super::super::Outcome::counted(intended, counted, Duration::from_secs(1));
        Trial::judge(&request, &outcome, &Conditions::default())
    };
    assert!(judge(999_998).is_ok() && judge(1_000_900).is_ok());
    assert!(matches!(judge(998_000), Err(Invalid::AnotherIntention { .. })));
    assert!(matches!(judge(0), Err(Invalid::AnotherIntention { .. })));
}

proptest! {
    #[test]
    fn any_knee_is_found_within_the_resolution(
        minimum in 1e3..1e5f64,
        range in 1.0..1e4f64,
        place in 0.0..1.0f64,
        fineness in 1e-6..0.5f64,
        retries in 0..4u32,
    ) {
        let maximum = minimum * range;
        let knee = minimum + (maximum - minimum) * place;
        let resolution = maximum * fineness;
        let settings = Settings { minimum, maximum, resolution, retries, loss_tolerance: 0.0, ..settings() };
        let mut device = Simulated::steady(knee);
        let verdict = verdict(&settings, &mut device);
        prop_assert!(device.trials <= settings.most_trials());
        match verdict {
            Verdict::Found { throughput, upper, .. } => {
                prop_assert!(upper - throughput <= resolution);
                // A trial counts whole frames, so that a rate less than a frame a trial beyond the knee passes.
                prop_assert!(throughput <= knee + 0.2 && upper >= knee, "{throughput} {knee} {upper}");
            }
            Verdict::AtLeastMaximum => prop_assert!(knee >= maximum - 0.2),
            Verdict::BelowMinimum { .. } => prop_assert!(false, "the minimum is below the knee"),
        }
    }

    #[test]
    fn any_noisy_device_ends_in_time_with_bounds_that_were_seen(
        knee in 1e4..2e6f64,
        jitter in 0.0..0.3f64,
        loss in 0.0..0.001f64,
        collapse in 0.0..2.0f64,
        seed in 1..255u8,
    ) {
        let mut device = Simulated::steady(knee).noisy(jitter, loss, [seed; 16]).collapsing(collapse);
        let settings = settings();
        let result = search(&settings, &mut device, &mut |_| ()).unwrap();
        prop_assert!(device.trials <= settings.most_trials());
        let passed = |rate: f64| result.trials.iter().any(|trial| {
            matches!(trial.traffic, Traffic::Load { frames_per_second, .. } if frames_per_second == rate)
                && trial.loss_ratio() <= settings.loss_tolerance
        });
        if let Verdict::Found { throughput, upper, .. } = result.verdict {
            prop_assert!(passed(throughput) && !passed(upper) && upper - throughput <= settings.resolution);
        }
    }
}
