//! Cycles by stage: what is counted of traffic through a node, and when.

use sluice_control::{CoreStages, Request, Stages};

use crate::forwarding::Ends;
use crate::lifecycle::quiet_folder;
use crate::support::documents::{DB_1, PORTS, ROUTER_MAC, WEB_1};
use crate::support::frames::{flow, routed};
use crate::support::network::in_network;
use crate::support::node::{Node, answer};
use crate::support::wait_for;

/// Flows of a test, each of them decided once.
const FLOWS: u16 = 20;
/// Packets of each flow.
const EACH: u16 = 5;

fn set(node: &Node, enabled: bool) -> String {
    answer!(node, &Request::SetProfile { enabled }, Done)
}

fn stages(node: &Node) -> Stages {
    answer!(node, &Request::GetStages, Stages)
}

/// Packets that passed a stage.
fn packets(core: &CoreStages, stage: &str) -> u64 {
    core.stages.iter().find(|stats| stats.stage == stage).expect("a stage of this name").packets
}

/// Sends packets of several flows, each after the one before has come through.
fn send(ends: &Ends) {
    for packet in 0..FLOWS * EACH {
        let frame = flow(WEB_1, ROUTER_MAC, DB_1.0, 20_000 + packet % FLOWS, &packet.to_be_bytes());
        let expected = routed(&frame, ROUTER_MAC, DB_1.1);
        ends.web_1.send(&frame);
        ends.db_1.expect("the datagram", |frame| (frame == expected).then_some(()));
    }
}

/// What the only worker has counted, when it has counted so many packets sent: a loop is counted when it ends.
fn counted(node: &Node, sent: u16) -> CoreStages {
    wait_for("the last packet to be counted", || {
        let mut cores = stages(node).cores;
        assert_eq!(cores.len(), 1, "the tests' nodes have one worker");
        let core = cores.remove(0);
        (packets(&core, "tx") >= u64::from(sent)).then_some(core)
    })
}

#[test]
fn packets_are_counted_by_stage_and_cycles_add_up() {
    in_network("profile::packets_are_counted_by_stage_and_cycles_add_up", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        assert_eq!(stages(&node), Stages { profile: false, cores: Vec::new() });
        assert_eq!(
            set(&node, true),
            "the profile is enabled: 'get dataplane stages' shows the cycles from now on"
        );
        send(&ends);
        let core = counted(&node, FLOWS * EACH);
        let (all, flows) = (u64::from(FLOWS * EACH), u64::from(FLOWS));
        for stage in ["rx", "parse", "flow-cache", "rewrite", "tx"] {
            assert_eq!(packets(&core, stage), all, "{stage}");
        }
        for stage in ["ingress", "tier-1", "compile", "insert"] {
            assert_eq!(packets(&core, stage), flows, "{stage}: hits are not decided");
        }
        for stage in ["ecmp", "neighbor", "tunnel", "answer", "free"] {
            assert_eq!(packets(&core, stage), 0, "{stage}");
        }
        let attributed: u64 = core.stages.iter().map(|stage| stage.cycles).sum();
        assert_eq!(attributed + core.other_cycles, core.busy_cycles);
        assert!(core.other_cycles > 0, "no stage is counted twice");
        assert!(core.time_stamp_cycles > 0 && core.time_stamp_cycles < 10_000, "{core:?}");
        for stage in core.stages.iter().filter(|stage| stage.packets > 0) {
            assert!(stage.cycles > 0 && stage.time_stamps > 0, "{stage:?}");
        }

        // Each of the bursts was found at one of four ports.
        let stamps = |stage: &str| core.stages.iter().find(|stats| stats.stage == stage).unwrap().time_stamps;
        assert!(stamps("rx") <= all && stamps("empty-polls") >= 2 * stamps("rx"), "{core:?}");

        // What was counted stays, and nothing more is.
        assert_eq!(
            set(&node, false),
            "the profile is disabled: 'get dataplane stages' shows what it counted"
        );
        send(&ends);
        let after = stages(&node);
        assert_eq!((after.profile, packets(&after.cores[0], "rx")), (false, all));
        // A new profile begins from zero, and finds every flow in the cache.
        set(&node, true);
        send(&ends);
        let core = counted(&node, FLOWS * EACH);
        assert_eq!((packets(&core, "rx"), packets(&core, "ingress")), (all, 0));
    });
}

#[test]
fn a_profile_goes_on_after_a_restart() {
    let node = Node::start_in(quiet_folder());
    set(&node, true);
    answer!(node, &Request::RestartDataplane, Done);
    let after = stages(&node);
    assert!(after.profile && after.cores.len() == 1, "{after:?}");
    set(&node, false);
    answer!(node, &Request::RestartDataplane, Done);
    assert_eq!(stages(&node), Stages { profile: false, cores: Vec::new() });
}
