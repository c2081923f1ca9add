//! Reads what `ovs-appctl dpif-netdev/pmd-stats-show` prints.

use super::Counters;

/// The counters of the poll-mode thread on a core; `None` if the text has none of that core or lacks a number.
pub(super) fn parse(text: &str, core: u16) -> Option<Counters> {
    let suffix = format!("core_id {core}:");
    let mut lines =
        text.lines().skip_while(|line| !(line.starts_with("pmd thread") && line.ends_with(&suffix)));
    lines.next()?;
    let section: Vec<(&str, u64)> =
        lines.take_while(|line| line.starts_with(' ')).filter_map(number_of).collect();
    let number = |name| section.iter().find(|(entry, _)| *entry == name).map(|(_, number)| *number);
    // The exact-match cache and the two below it are Open vSwitch's flow cache in three levels. A packet that is decapsulated passes twice.
    let hits = ["emc hits", "smc hits", "megaflow hits"].into_iter().filter_map(number).sum();
    let misses = ["miss with success upcall", "miss with failed upcall"].into_iter().filter_map(number).sum();
    Some(Counters {
        heap_allocations: None,
        packets: number("packets received")?,
        busy_cycles: number("processing cycles")?,
        cache: Some((hits, misses)),
    })
}

/// Name and leading whole number of a line such as `  processing cycles: 1234 (56.78%)`.
fn number_of(line: &str) -> Option<(&str, u64)> {
    let (name, rest) = line.trim_start().split_once(": ")?;
    Some((name, rest.split_whitespace().next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
pmd thread numa_id 0 core_id 1:
  packets received: 5120000
  packet recirculations: 2560000
  avg. datapath passes per packet: 1.50
  phwol hits: 0
  mfex opt hits: 0
  simple match hits: 0
  emc hits: 7679000
  smc hits: 0
  megaflow hits: 990
  avg. subtable lookups per megaflow hit: 1.20
  miss with success upcall: 8
  miss with failed upcall: 2
  avg. packets per output batch: 31.50
  idle cycles: 12000000 (0.53%)
  processing cycles: 2252800000 (99.47%)
  avg cycles per packet: 442.34 (2264800000/5120000)
  avg processing cycles per packet: 440.00 (2252800000/5120000)
main thread:
  packets received: 17
  packet recirculations: 0
  processing cycles: 99
";

    #[test]
    fn cycles_and_packets_are_those_of_the_polling_thread() {
        let counters = parse(TEXT, 1).unwrap();
        assert_eq!((counters.packets, counters.busy_cycles), (5_120_000, 2_252_800_000));
        assert_eq!(counters.cycles_per_packet(), Some(440.0));
        assert_eq!(counters.cache, Some((7_679_990, 10)));
    }

    #[test]
    fn what_is_not_there_is_not_made_up() {
        assert_eq!(parse(TEXT, 0), None);
        assert_eq!(parse(TEXT, 11), None);
        assert_eq!(parse(&TEXT.replace("processing cycles: 2", "other: 2"), 1), None);
        assert_eq!(parse("", 1), None);
        let idle = TEXT.replace("packets received: 5120000", "packets received: 0");
        assert_eq!(parse(&idle, 1).unwrap().cycles_per_packet(), None);
    }
}
