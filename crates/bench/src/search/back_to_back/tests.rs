use proptest::prelude::*;

use super::super::Traffic;
use super::super::simulated::{Lie, Simulated};
use super::*;

const LINE_RATE: f64 = 1e6;

/// Half of what comes is forwarded while the buffer fills, so that a burst twice as long as the buffer passes.
fn device(buffer: u64) -> Simulated {
    Simulated::steady(LINE_RATE / 2.0).with_buffer(buffer, LINE_RATE)
}

fn settings(repetitions: u32) -> Settings {
    Settings { repetitions, ..Settings::rfc_9004(LINE_RATE, LINE_RATE / 2.0) }
}

fn verdict(settings: &Settings, device: &mut Simulated) -> Verdict {
    search(settings, device, &mut |_| ()).unwrap().verdict
}

#[test]
fn the_buffer_is_found_and_its_time_corrected() {
    let mut device = device(5_000);
    let Verdict::Found(bursts) = verdict(&settings(3), &mut device) else { panic!("it has a limit") };
    assert_eq!((bursts.least, bursts.most, bursts.standard_deviation), (10_000, 10_000, 0.0));
    assert_eq!(bursts.implied_buffer_time, Duration::from_millis(10));
    assert_eq!(bursts.corrected_buffer_time, Duration::from_millis(5), "5,000 frames at a million a second");
    assert!(device.trials <= settings(3).most_trials());
}

#[test]
fn repetitions_are_averaged() {
    let mut noisy = device(5_000).noisy(0.1, 0.0, [9; 16]);
    let Verdict::Found(bursts) = verdict(&settings(50), &mut noisy) else { panic!("it has a limit") };
    assert!(bursts.least < bursts.most && bursts.standard_deviation > 0.0, "{bursts:?}");
    // The knee moves between 45 and 55 %, so that between 1/0.55 and 1/0.45 of the buffer passes.
    assert!(bursts.least >= 9_000 && bursts.most <= 11_200, "{bursts:?}");
    assert!((bursts.least as f64..=bursts.most as f64).contains(&bursts.average));
}

#[test]
fn the_deviation_is_that_of_a_sample() {
    let bursts = Bursts::of(&[2, 4, 4, 4, 5, 5, 7, 9], &settings(8));
    assert_eq!((bursts.average, bursts.least, bursts.most), (5.0, 2, 9));
    assert!((bursts.standard_deviation - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
    assert_eq!(Bursts::of(&[3], &settings(1)).standard_deviation, 0.0);
}

#[test]
fn the_ends_of_the_range_are_no_numbers() {
    let mut unlimited = Simulated::steady(LINE_RATE * 2.0).with_buffer(0, LINE_RATE);
    let Verdict::AtLeast { bursts, repetitions: 2 } = verdict(&settings(2), &mut unlimited) else {
        panic!("it was not brought to its limit")
    };
    assert_eq!(bursts.least, 2_000_000);
    let mut hopeless = Simulated::steady(1.0).with_buffer(0, LINE_RATE).losing(1.0);
    assert_eq!(verdict(&settings(2), &mut hopeless), Verdict::BelowMinimum { repetitions: 2 });
}

#[test]
fn a_burst_that_is_not_back_to_back_is_refused() {
    let mut slow = device(5_000).sending_at_most(LINE_RATE * 0.8, false);
    let error = search(&settings(1), &mut slow, &mut |_| ()).unwrap_err();
    assert!(
        matches!(error, SearchError::Invalid { trial: 1, reason: Invalid::BurstTooSlow { .. }, .. }),
        "{error}"
    );
    let mut incomplete = device(5_000).lying(Lie::SendsLess, 2);
    let error = search(&settings(1), &mut incomplete, &mut |_| ()).unwrap_err();
    assert!(
        matches!(error, SearchError::Invalid { trial: 2, reason: Invalid::BurstIncomplete { .. }, .. }),
        "{error}"
    );
}

#[test]
fn lies_and_impossible_settings_are_errors() {
    let mut liar = device(5_000).lying(Lie::Corrupted, 7);
    let error = search(&settings(1), &mut liar, &mut |_| ()).unwrap_err();
    assert!(
        matches!(error, SearchError::Invalid { trial: 7, traffic: Traffic::Burst { .. }, .. }),
        "{error}"
    );

    let bad = Settings { minimum: 0, repetitions: 0, resolution: 0, throughput: 2e6, ..settings(1) };
    let Err(SearchError::Impossible(error)) = search(&bad, &mut device(1), &mut |_| ()) else {
        panic!("it is impossible")
    };
    assert_eq!(error.faults.len(), 4, "{error}");
    let swapped = Settings { minimum: 10, maximum: 9, ..settings(1) };
    assert!(matches!(swapped.check().unwrap_err().faults[..], [Fault::MaximumBelowMinimum { .. }]));
    let endless = Settings { maximum: MOST_FRAMES, maximum_frame_rate: 1.0, throughput: 0.5, ..settings(1) };
    assert_eq!(endless.check().unwrap_err().faults.len(), 1);
}

#[test]
fn progress_counts_down() {
    let mut seen = Vec::new();
    search(&settings(2), &mut device(5_000), &mut |progress| seen.push(*progress)).unwrap();
    assert_eq!(seen[0].trials_left, settings(2).most_trials());
    assert!(seen.windows(2).all(|pair| pair[0].trials_left > pair[1].trials_left));
    assert_eq!(seen.last().unwrap().phase, Phase::Repetition { repetition: 2 });
}

proptest! {
    #[test]
    fn any_buffer_is_found_within_the_resolution(buffer in 1..400_000u64, resolution in 1..1_000u64) {
        let mut device = device(buffer);
        let settings = Settings { resolution, ..settings(1) };
        let Verdict::Found(bursts) = verdict(&settings, &mut device) else { panic!("it has a limit") };
        prop_assert!(device.trials <= settings.most_trials());
        // Half a frame is not forwarded: one more or less at the very limit.
        prop_assert!(bursts.most <= 2 * buffer + 1 && bursts.most + resolution >= 2 * buffer, "{:?}", bursts);
    }
}
