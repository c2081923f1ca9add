//! At which loads latency is measured (RFC 2544 section 26.2).
//!
//! The RFC measures at the throughput itself, where queues are as full as they can be without loss. Latency that users see is that
//! of lower loads, so the field measures at shares of the throughput as well. Only the loads are made here: the times of
//! single frames are the generator's. Its own latency, measured with the device replaced by a cable, belongs beside the result.

use std::time::Duration;

use super::Impossible;
use super::error::Faults;

/// How long the RFC sends at each load.
pub const TRIAL: Duration = Duration::from_secs(120);
/// How often the RFC repeats each load; it reports the average.
pub const REPETITIONS: u32 = 20;
/// Shares of the throughput: hardly any queues, half of the load, nearly all of it.
pub const SHARES: [f64; 3] = [0.1, 0.5, 0.9];

/// Least share.
const LEAST_SHARE: f64 = 1e-6;

/// A load at which latency is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadPoint {
    /// Share of the throughput, 0.000 001 to 1.
    pub share: f64,
    /// The load, frames a second.
    pub frames_per_second: f64,
}

/// The loads at these shares of a throughput in frames a second, in the order of the shares.
///
/// # Errors
///
/// Where the throughput is not a rate, there is no share, or a share is not from 0.000 001 to 1: all that is wrong.
pub fn load_points(throughput: f64, shares: &[f64]) -> Result<Vec<LoadPoint>, Impossible> {
    let mut faults = Faults::default();
    faults.rate("throughput", throughput);
    faults.count("number of load points", shares.len() as u64, 1_000);
    for &share in shares {
        faults.range("share of the throughput", share, LEAST_SHARE, 1.0);
    }
    faults.finish()?;
    Ok(shares.iter().map(|&share| LoadPoint { share, frames_per_second: share * throughput }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_points_are_shares_of_the_throughput() {
        let points = load_points(2_000.0, &SHARES).unwrap();
        let rates: Vec<f64> = points.iter().map(|point| point.frames_per_second).collect();
        assert_eq!(rates, [200.0, 1_000.0, 1_800.0]);
        assert_eq!(points[1].share, 0.5);
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        assert_eq!(load_points(f64::NAN, &[0.0, 1.0, 1.5]).unwrap_err().faults.len(), 3);
        assert_eq!(load_points(-1.0, &[]).unwrap_err().faults.len(), 2);
        assert_eq!(load_points(0.0, &[f64::INFINITY]).unwrap_err().faults.len(), 2);
    }
}
