//! A storm of packets for the control thread stops neither forwarding nor the control socket.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use sluice_wire::MacAddr;
use sluice_wire::arp::Arp;

use crate::forwarding::Ends;
use crate::support::documents::{DB_1, LOCAL_TEP, PORTS, ROUTER_MAC, TEP_B, WEB_1};
use crate::support::frames::{numbered, routed};
use crate::support::link::{Link, arp_frame};
use crate::support::network::in_network;

/// Requests a millisecond: 100,000 a second.
const BURST: u64 = 100;
/// How long the storm lasts.
const STORM: Duration = Duration::from_secs(3);

/// Sends ARP requests until the time is up. What the rate falls behind on a busy machine is not made up for.
fn storm(link: &Link, sent: &AtomicU64) {
    let request = arp_frame(TEP_B.1, MacAddr::BROADCAST, Arp::request(TEP_B.1, TEP_B.0, LOCAL_TEP));
    let start = Instant::now();
    while start.elapsed() < STORM {
        let burst = Instant::now();
        (0..BURST).for_each(|_| link.send(&request));
        sent.fetch_add(BURST, SeqCst);
        std::thread::sleep(Duration::from_millis(1).saturating_sub(burst.elapsed()));
    }
}

#[test]
fn a_storm_of_arp_requests_is_limited() {
    in_network("punts::a_storm_of_arp_requests_is_limited", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        let (sent, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let (forwarded, slowest) = std::thread::scope(|scope| {
            scope.spawn(|| {
                storm(&ends.underlay, &sent);
                over.store(true, SeqCst);
            });
            let (mut number, mut slowest) = (0, Duration::ZERO);
            while !over.load(SeqCst) {
                number += 1;
                let frame = numbered(WEB_1, DB_1.0, number);
                let expected = routed(&frame, ROUTER_MAC, DB_1.1);
                ends.web_1.send(&frame);
                ends.db_1.expect("the datagram", |frame| (frame == expected).then_some(()));
                let asked = Instant::now();
                assert_eq!(node.status().generation, 1);
                slowest = slowest.max(asked.elapsed());
            }
            (number, slowest)
        });
        let (sent, limited) = (sent.load(SeqCst), node.drops("punt-limit"));
        let received = node.port_statistics("fp-eth0").rx_packets;
        println!(
            "{sent} requests sent, {received} received, {limited} over the limit; {forwarded} datagrams and answers, slowest {slowest:?}"
        );
        assert!(sent >= 50_000, "{sent} requests in {STORM:?} are no storm");
        // 2,000 a second go to the control thread, and a burst of 200; everything else is counted.
        let allowed = 2_000 * (STORM.as_secs() + 1) + 200;
        assert!(
            received <= limited + allowed + node.drops("punt-ring-full"),
            "{received} received, {limited} limited"
        );
        assert!(limited > 10_000, "{limited}");
        assert!(forwarded >= 50, "{forwarded} datagrams came through, and as many answers");
        assert!(slowest < Duration::from_secs(1), "an answer took {slowest:?}");
    });
}
