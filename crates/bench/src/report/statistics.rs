//! The middle of trials, and whether two sets of them differ by more than their noise.
//!
//! Trials on a shared machine have outliers on one side (something else took the core), so that the spread is taken from the median absolute
//! deviation (MAD), which up to half of the trials may be outliers of. With so few trials as a bench has, the MAD of a normal distribution
//! is too small on average; the factors of Croux and Rousseeuw ("Time-efficient algorithms for two highly robust estimators of scale", 1992)
//! correct that. The standard error of a median is √(π/2) that of a mean.

/// A difference of so many standard errors is more than noise. Chosen so that of normally distributed trials of equal rates, five on each
/// side, fewer than one pair in fifty is told apart (see the tests); the least relative change comes on top.
const STANDARD_ERRORS: f64 = 4.0;
/// The same where the spread is known of one side only, and so less certain.
const STANDARD_ERRORS_OF_ONE: f64 = 6.0;
/// Turns the MAD of a normal distribution into its standard deviation.
const NORMAL: f64 = 1.4826;
/// √(π/2).
const MEDIAN_ERROR: f64 = 1.2533;

/// What noise alone may make of a difference of medians: the largest difference that says nothing. `None` where neither side has two
/// trials. A side with fewer than two is taken to be as noisy as the other, each of its trials by itself.
pub(super) fn noise(a: &[f64], b: &[f64]) -> Option<f64> {
    let (of_a, of_b) = (spread(a), spread(b));
    let error = |own: Option<f64>, other: Option<f64>, trials: usize| match own {
        Some(spread) => Some(MEDIAN_ERROR * spread / (trials as f64).sqrt()),
        None => other,
    };
    let (a, b) = (error(of_a, of_b, a.len())?, error(of_b, of_a, b.len())?);
    let errors = if of_a.is_some() && of_b.is_some() { STANDARD_ERRORS } else { STANDARD_ERRORS_OF_ONE };
    Some(errors * a.hypot(b))
}

/// Whether the trials themselves went where their medians did: of the pairs of one trial of each side, four in five (the statistic of Mann and
/// Whitney in proportion to its largest value). Three trials have too little spread by chance too often to go by that alone; one outlier of five
/// is still allowed. True where a side has fewer than two trials, since that says nothing.
pub(super) fn follow(a: &[f64], b: &[f64], rising: bool) -> bool {
    const SHARE: f64 = 0.8;
    if a.len() < 2 || b.len() < 2 {
        return true;
    }
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    let along = pairs.filter(|(a, b)| if rising { a < b } else { a > b }).count();
    along as f64 >= SHARE * (a.len() * b.len()) as f64
}

/// The standard deviation, estimated from the MAD; `None` of fewer than two trials.
fn spread(trials: &[f64]) -> Option<f64> {
    if trials.len() < 2 {
        return None;
    }
    let middle = median(trials.iter().copied())?;
    let deviation = median(trials.iter().map(|trial| (trial - middle).abs()))?;
    Some(small_sample_factor(trials.len()) * NORMAL * deviation)
}

/// Croux and Rousseeuw's correction for few trials.
fn small_sample_factor(trials: usize) -> f64 {
    const FACTORS: [f64; 8] = [1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107];
    FACTORS.get(trials.saturating_sub(2)).copied().unwrap_or_else(|| trials as f64 / (trials as f64 - 0.8))
}

/// The middle of some numbers (the mean of the two in the middle of an even count); `None` of none.
pub fn median(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = numbers.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 3.0, 4.0]), Some(3.5));
    }

    /// Normally distributed numbers, the same in each run (a linear congruential generator and Irwin–Hall's sum of twelve).
    struct Normal(u64);

    impl Normal {
        fn next(&mut self) -> f64 {
            let mut sum = 0.0;
            for _ in 0..12 {
                self.0 =
                    self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                sum += (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
            }
            sum - 6.0
        }

        fn trials(&mut self, mean: f64, deviation: f64, count: usize) -> Vec<f64> {
            (0..count).map(|_| mean + deviation * self.next()).collect()
        }
    }

    /// The share of pairs that are told apart.
    fn told_apart(means: [f64; 2], deviation: f64, trials: [usize; 2]) -> f64 {
        const PAIRS: usize = 4_000;
        let mut normal = Normal(4711);
        let apart = (0..PAIRS).filter(|_| {
            let a = normal.trials(means[0], deviation, trials[0]);
            let b = normal.trials(means[1], deviation, trials[1]);
            let difference = median(a.iter().copied()).unwrap() - median(b.iter().copied()).unwrap();
            difference.abs() > noise(&a, &b).unwrap()
        });
        apart.count() as f64 / PAIRS as f64
    }

    #[test]
    fn noise_is_seldom_taken_for_a_change() {
        for (trials, most) in [([5, 5], 0.02), ([9, 9], 0.01), ([3, 3], 0.06), ([5, 1], 0.03)] {
            let share = told_apart([100.0, 100.0], 3.0, trials);
            assert!(share < most, "{trials:?}: {share}");
        }
    }

    #[test]
    fn a_change_of_several_deviations_is_found() {
        assert!(told_apart([100.0, 110.0], 1.5, [5, 5]) > 0.8);
        assert!(told_apart([100.0, 106.0], 1.0, [9, 9]) > 0.95);
    }

    #[test]
    fn an_outlier_does_not_hide_a_change() {
        let quiet = noise(&[100.0, 101.0, 99.0, 100.5, 99.5], &[90.0, 91.0, 89.0, 90.5, 89.5]).unwrap();
        let struck = noise(&[100.0, 101.0, 99.0, 100.5, 20.0], &[90.0, 91.0, 89.0, 90.5, 89.5]).unwrap();
        assert!(quiet < 5.0 && struck < 10.0, "{quiet} {struck}");
    }

    #[test]
    fn trials_that_overlap_do_not_follow() {
        assert!(!follow(&[1188.0, 3134.0, 3349.0], &[1376.0, 1504.0, 4234.0], false));
        assert!(follow(&[3.0, 3.1, 3.2], &[1.0, 1.1, 1.2], false));
        assert!(!follow(&[3.0, 3.1, 3.2], &[1.0, 1.1, 1.2], true));
        assert!(
            follow(&[10.0, 10.1, 9.9, 10.0, 2.0], &[8.0, 8.1, 7.9, 8.0, 8.0], false),
            "one outlier of five"
        );
        assert!(follow(&[], &[1.0, 2.0], true));
    }

    #[test]
    fn without_trials_nothing_is_known_of_the_noise() {
        assert_eq!(noise(&[], &[]), None);
        assert_eq!(noise(&[1.0], &[2.0]), None);
        assert_eq!(noise(&[5.0, 5.0], &[5.0, 5.0]), Some(0.0));
        assert_eq!(noise(&[1.0, 3.0], &[]), noise(&[], &[1.0, 3.0]), "symmetric");
    }
}
