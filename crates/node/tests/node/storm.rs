//! A storm of broadcasts on the underlay keeps the node from none of the answers that are meant for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use sluice_wire::MacAddr;
use sluice_wire::arp::{Arp, ArpOperation};

use crate::forwarding::Ends;
use crate::support::documents::{LOCAL_TEP, PORTS, TEP_A, UPLINK_MAC};
use crate::support::link::{Link, arp, arp_frame};
use crate::support::network::in_network;

/// Somebody who asks everybody for somebody else.
const STRANGER: (std::net::Ipv4Addr, MacAddr) =
    (std::net::Ipv4Addr::new(172, 16, 1, 99), MacAddr([2, 0, 0, 0, 0, 99]));
/// Broadcasts every millisecond: five times of what the control thread is handed.
const BURST: u64 = 10;
/// Broadcasts at most: half a minute of them.
const LONGEST: u64 = 300_000;
/// Packets to the node itself that have to get through.
const QUESTIONS: u32 = 40;
/// Far longer than an answer takes.
const PATIENCE: Duration = Duration::from_millis(500);

/// Asks the node's MAC address until it answers; returns how many times that took.
fn ask(link: &Link) -> u32 {
    let question = arp_frame(TEP_A.1, UPLINK_MAC, Arp::request(TEP_A.1, TEP_A.0, LOCAL_TEP));
    for attempt in 1..=20 {
        link.send(&question);
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let answer = link.glance().and_then(|frame| arp(&frame));
            if answer
                .is_some_and(|arp| arp.operation == ArpOperation::REPLY && arp.sender_address == LOCAL_TEP)
            {
                return attempt;
            }
        }
    }
    panic!("the node answers nothing");
}

#[test]
fn what_is_sent_to_the_node_gets_through_a_storm_of_broadcasts() {
    in_network("storm::what_is_sent_to_the_node_gets_through_a_storm_of_broadcasts", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let request = Arp::request(STRANGER.1, STRANGER.0, [172, 16, 1, 200].into());
        let broadcast = arp_frame(STRANGER.1, MacAddr::BROADCAST, request);
        let attempts = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(SeqCst) && sent.load(SeqCst) < LONGEST {
                    let burst = Instant::now();
                    (0..BURST).for_each(|_| ends.underlay.send(&broadcast));
                    sent.fetch_add(BURST, SeqCst);
                    std::thread::sleep(Duration::from_millis(1).saturating_sub(burst.elapsed()));
                }
            });
            // From when the limit is reached.
            while node.drops("punt-limit") == 0 {
                assert!(sent.load(SeqCst) < LONGEST, "{LONGEST} broadcasts were not limited");
            }
            let attempts: u32 = (0..QUESTIONS).map(|_| ask(&ends.underlay)).sum();
            over.store(true, SeqCst);
            attempts
        });
        let limited = node.drops("punt-limit");
        println!(
            "{} broadcasts, {limited} over the limit; {QUESTIONS} questions took {attempts}",
            sent.load(SeqCst)
        );
        // A machine that is busy with other things may lose one of ten.
        assert!(attempts <= QUESTIONS + QUESTIONS / 10, "{QUESTIONS} questions took {attempts} attempts");
        assert!(limited > 0);
    });
}
