//! Notices that many BFD packets are refused in a short time: somebody forges them, or two nodes disagree.
//!
//! Told of each packet by [`super::teps`], on the control thread. Keeps the last [`PACKETS`] of them and no more, whoever sends how many.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use sluice_protocols::Timestamp;
use sluice_protocols::bfd::Refusal;

/// So many packets within [`WINDOW`] are an alarm.
const PACKETS: usize = 10;
const WINDOW: Duration = Duration::from_secs(10);
/// How long there have to be fewer until the alarm ends.
const QUIET: Duration = Duration::from_secs(60);

/// The packets that were refused last, see the [module](self).
#[derive(Debug, Default)]
pub(super) struct BfdRefused {
    /// With who sent each, where that is known; the oldest first.
    last: VecDeque<(Timestamp, Refusal, Option<IpAddr>)>,
    /// When there were last too many; none: no alarm is open.
    exceeded: Option<Timestamp>,
    /// When that was last put in words.
    told: Timestamp,
}

impl BfdRefused {
    /// A packet was refused. Returns what the alarm is to say, where there is news.
    pub(super) fn note(&mut self, reason: Refusal, source: Option<IpAddr>, now: Timestamp) -> Option<String> {
        if self.last.len() == PACKETS {
            self.last.pop_front();
        }
        self.last.push_back((now, reason, source));
        let (oldest, ..) = *self.last.front()?;
        if self.last.len() < PACKETS || now.since(oldest) > WINDOW {
            return None;
        }
        let open = self.exceeded.replace(now).is_some();
        if open && now.since(self.told) < WINDOW {
            return None;
        }
        self.told = now;
        Some(self.in_words())
    }

    /// Whether the alarm ends now.
    pub(super) fn ends(&mut self, now: Timestamp) -> bool {
        self.exceeded.take_if(|exceeded| now.since(*exceeded) >= QUIET).is_some()
    }

    fn in_words(&self) -> String {
        let reason = commonest(self.last.iter().map(|(_, reason, _)| *reason));
        let sources = self.last.iter().filter(|(_, other, _)| Some(*other) == reason);
        let source = commonest(sources.filter_map(|(_, _, source)| *source));
        let reason = reason.map_or_else(String::new, |reason| reason.to_string());
        let source = source.map_or_else(String::new, |source| format!(", from {source}"));
        format!(
            "{PACKETS} and more BFD packets were refused within {} seconds, most of them for this reason: {reason}{source}; they change nothing, \
             and 'get bfd-sessions' counts them: look at who sends them",
            WINDOW.as_secs()
        )
    }
}

/// What there is most of; the first of several.
fn commonest<T: PartialEq + Copy>(all: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: Vec<(T, usize)> = Vec::new();
    for item in all {
        match counts.iter_mut().find(|(known, _)| *known == item) {
            Some((_, count)) => *count += 1,
            None => counts.push((item, 1)),
        }
    }
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(item, _)| item)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + milliseconds)
    }

    fn source(number: u8) -> Option<IpAddr> {
        Some([172, 16, 1, number].into())
    }

    #[test]
    fn ten_within_ten_seconds_are_told_with_what_is_commonest() {
        let mut refused = BfdRefused::default();
        for number in 0..9 {
            let reason = if number % 3 == 0 { Refusal::Checksum } else { Refusal::Ttl };
            assert_eq!(refused.note(reason, source(7 + u8::from(number == 4)), at(number * 1_000)), None);
        }
        let told = refused.note(Refusal::Checksum, None, at(10_000)).unwrap();
        assert!(told.contains("the packet's TTL or hop limit is not 255, from 172.16.1.7;"), "{told}");
        // A flood of another kind is told of in its time, once.
        let flood: Vec<_> = (10_001..=20_000)
            .filter_map(|time| refused.note(Refusal::InnerAddress, source(9), at(time)))
            .collect();
        assert!(
            flood.len() == 1 && flood[0].contains("not those of its tunnel, from 172.16.1.9;"),
            "{flood:?}"
        );
        assert!(!refused.ends(at(79_999)));
        assert!(refused.ends(at(80_000)) && !refused.ends(at(90_000)), "once");
    }

    #[test]
    fn fewer_are_never_told() {
        let mut refused = BfdRefused::default();
        for number in 0..1_000 {
            assert_eq!(refused.note(Refusal::Ttl, source(7), at(number * 1_112)), None);
        }
    }
}
