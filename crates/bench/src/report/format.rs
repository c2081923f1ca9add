//! How numbers are written, the same on terminals and pages.

/// From here on a number is written with an exponent.
const LARGE: f64 = 1e15;
/// From here on the digits before the point are grouped.
const GROUPED: f64 = 1e4;

/// A number with so many digits behind the point. One that is not zero never looks like zero, and a huge one keeps its magnitude.
pub(super) fn number(value: f64, digits: u8) -> String {
    let digits = usize::from(digits);
    if !value.is_finite() {
        return "unknown".into();
    }
    if value == 0.0 {
        return format!("{:.digits$}", 0.0);
    }
    if value.abs() >= LARGE {
        return format!("{value:.3e}");
    }
    let text = format!("{value:.digits$}");
    if !text.contains(|digit: char| ('1'..='9').contains(&digit)) {
        return format!("{value:.1e}");
    }
    if value.abs() >= GROUPED { grouped(&text) } else { text }
}

/// Puts a comma before every third digit of the whole part.
fn grouped(text: &str) -> String {
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut result = String::from(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            result.push(',');
        }
        result.push(digit);
    }
    result + fraction
}

/// A duration in the unit that people would say it in.
pub(super) fn duration(seconds: f64) -> String {
    if seconds < 10.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Signs of footnotes in the order of their appearance; numbers where they do not do.
pub(super) fn sign(at: usize) -> String {
    const SIGNS: [&str; 5] = ["*", "†", "‡", "§", "¶"];
    SIGNS.get(at).map_or_else(|| format!("[{}]", at + 1), |sign| (*sign).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_never_lose_what_they_say() {
        assert_eq!(number(2.345, 2), "2.35");
        assert_eq!(number(0.0, 2), "0.00");
        assert_eq!(number(-0.0, 1), "0.0");
        assert_eq!(number(0.004, 2), "4.0e-3", "not zero");
        assert_eq!(number(0.005, 2), "0.01");
        assert_eq!(number(-0.4, 0), "-4.0e-1");
        assert_eq!(number(9999.0, 0), "9999");
        assert_eq!(number(1_234_567.891, 1), "1,234,567.9");
        assert_eq!(number(-123_456.0, 0), "-123,456");
        assert_eq!(number(1.5e300, 2), "1.500e300");
        assert_eq!(number(f64::NAN, 2), "unknown");
    }

    #[test]
    fn durations_are_what_people_say() {
        assert_eq!(
            [0.25, 59.6, 90.0, 7_260.0].map(duration),
            ["0.2 s", "1 min 0 s", "1 min 30 s", "2 h 1 min"]
        );
    }

    #[test]
    fn signs_do_not_run_out() {
        assert_eq!((sign(0).as_str(), sign(4).as_str(), sign(5).as_str()), ("*", "¶", "[6]"));
    }
}
