//! How failures of tunnels and TEPs are noticed: what the schema did not judge already.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::Scope;
use crate::draft::Slot;
use crate::plan::{self, MAX_BFD_PACKETS, Plan, TepIndex, Tier};
use crate::problem::{Findings, Path};

/// Packets of a session in as many intervals: each follows the one before after three quarters to the whole of one (RFC 5880 section 6.8.7).
const PACKETS: u64 = 8;
const INTERVALS: u64 = 7;

/// BFD needs tunnels to watch.
pub(super) fn check_bfd(scope: &Scope<'_>, findings: &mut Findings) -> Option<plan::Bfd> {
    let Slot::Present(bfd) = &scope.draft.bfd else { return None };
    require_teps(scope, "bfd", findings);
    Some(plan::Bfd { interval_ms: bfd.interval_ms, multiplier: bfd.multiplier })
}

/// High availability needs TEPs that can fail.
pub(super) fn check_teps(scope: &Scope<'_>, findings: &mut Findings) -> Option<plan::TepHighAvailability> {
    let Slot::Present(profile) = &scope.draft.tep_high_availability else { return None };
    require_teps(scope, "tep-high-availability", findings);
    Some(plan::TepHighAvailability {
        failover_timeout_s: profile.failover_timeout_s,
        auto_recovery: profile.auto_recovery,
        auto_recovery_initial_wait_s: profile.auto_recovery_initial_wait_s,
        auto_recovery_max_backoff_s: profile.auto_recovery_max_backoff_s,
    })
}

/// Sessions must not send more than a worker hands over: all of them may come by one.
pub(super) fn check_capacity(plan: &Plan, findings: &mut Findings) {
    let most = u64::from(MAX_BFD_PACKETS);
    let every =
        |sessions: u64, interval_ms: u16| sessions * PACKETS * 1000 / (INTERVALS * u64::from(interval_ms));
    let peers = plan.gateways.iter().flat_map(|gateway| &gateway.bfd_peers);
    // Tenths of a packet, since each of them is rounded.
    let of_peers = peers.map(|peer| every(10, peer.interval_ms)).sum::<u64>() / 10;
    let Some(left) = most.checked_sub(of_peers) else {
        let message = format!(
            "the bfd-peers of all gateways send {of_peers} BFD packets a second, and a worker takes {most}; give them longer intervals, or have \
             fewer"
        );
        findings.report(Path::root().field("gateways"), message);
        return;
    };
    let Some(bfd) = plan.bfd else { return };
    let sessions = pairs(plan).len() as u64;
    let packets = every(sessions, bfd.interval_ms);
    if packets > left {
        let enough = (sessions * PACKETS * 1000).div_ceil(INTERVALS * left.max(1));
        let message = format!(
            "the tunnels between {sessions} pairs of a local and a remote TEP bring {packets} BFD packets a second at {} ms, and a worker takes \
             {left}; give {enough} or more, or have fewer TEPs",
            bfd.interval_ms
        );
        findings.report(Path::root().field("bfd").field("interval-ms"), message);
    }
}

/// The pairs of a local and a remote TEP that tunnels lead between.
fn pairs(plan: &Plan) -> HashSet<(TepIndex, IpAddr)> {
    let groups: HashMap<IpAddr, &[IpAddr]> = plan
        .remote_tep_groups
        .iter()
        .flat_map(|group| group.teps.iter().map(|address| (*address, group.teps.as_slice())))
        .collect();
    let of_segments = plan.segments.iter().map(|segment| (&segment.teps, segment.remote_teps.clone()));
    let of_transits = plan.gateways.iter().filter_map(|gateway| match &gateway.tier {
        Tier::Tier0 { transit: Some(transit), .. } => {
            Some((&transit.teps, transit.service_routers.iter().map(|router| router.tep).collect()))
        }
        _ => None,
    });
    let own = |address: &IpAddr| plan.teps.iter().any(|tep| tep.address.addr() == *address);
    let mut pairs = HashSet::new();
    for (teps, remotes) in of_segments.chain(of_transits) {
        for remote in remotes.iter().filter(|remote| !own(remote)) {
            let same = |tep: &&TepIndex| plan.teps[tep.index()].address.addr().is_ipv4() == remote.is_ipv4();
            let alone = std::slice::from_ref(remote);
            for tep in teps.iter().filter(same) {
                let local = &plan.teps[tep.index()];
                let all = groups.get(remote).copied().unwrap_or(alone).iter();
                let reached = all.filter(|remote| local.gateway.is_some() || local.address.contains(*remote));
                pairs.extend(reached.map(|remote| (*tep, *remote)));
            }
        }
    }
    pairs
}

fn require_teps(scope: &Scope<'_>, section: &'static str, findings: &mut Findings) {
    if scope.local_teps().next().is_none() && !scope.teps.incomplete() {
        let message = "there is no TEP whose tunnels could be watched; add TEPs, or remove the section";
        findings.report(Path::root().field(section), message);
    }
}

#[cfg(test)]
mod tests {
    /// A host with eight TEPs and so many remote ones.
    fn document(remotes: usize, bfd: &str) -> String {
        let mut text = "version: 1\nname: host-1\nrole: host\nports:\n  - {name: fp-eth0, kind: af_packet, interface: eth0, mtu: 1700}\n\
                        uplinks:\n  - {name: uplink-1, port: fp-eth0}\nteps:\n"
            .to_owned();
        for tep in 1..=8 {
            text += &format!("  - {{name: tep-{tep}, address: 172.16.0.{tep}/16, uplink: uplink-1}}\n");
        }
        let remotes: Vec<_> =
            (0..remotes).map(|number| format!("172.16.{}.{}", 1 + number / 250, 1 + number % 250)).collect();
        text += &format!("segments:\n  - {{name: web, vni: 5001, remote-teps: [{}]}}\n", remotes.join(", "));
        text + bfd
    }

    #[test]
    fn sessions_that_a_worker_could_not_take_are_refused_with_what_would_do() {
        let refused = |text: &str| crate::parse(text, "node.yaml").err().map(|problems| problems.to_string());
        let text = refused(&document(300, "bfd: {interval-ms: 50}\n"));
        let expected = "bfd.interval-ms: the tunnels between 2400 pairs of a local and a remote TEP bring 54857 BFD packets a second at 50 ms, and a \
                        worker takes 50000; give 55 or more, or have fewer TEPs";
        assert!(text.as_ref().is_some_and(|text| text.ends_with(expected)), "{text:?}");
        assert_eq!(refused(&document(300, "bfd: {interval-ms: 55}\n")), None);
        assert_eq!(refused(&document(273, "bfd: {interval-ms: 50}\n")), None, "2,184 sessions");
        assert_eq!(refused(&document(300, "")), None, "without BFD");
    }
}
