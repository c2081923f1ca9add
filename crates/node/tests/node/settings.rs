//! Settings of the CLI: rings, restarts, the flow cache.

use sluice_control::{Request, RingDirection};

use crate::forwarding::Ends;
use crate::lifecycle::quiet_folder;
use crate::support::documents::{DB_1, PORTS, ROUTER_MAC, WEB_1};
use crate::support::frames::{numbered, routed};
use crate::support::network::in_network;
use crate::support::node::{Node, answer};
use crate::support::wait_for;

#[test]
fn ring_sizes_are_taken_at_the_next_restart() {
    let node = Node::start_in(quiet_folder());
    let set = |direction, size| Request::SetRingSize { direction, size };
    let sizes = || {
        let now = answer!(node, &Request::GetDataplane, Dataplane);
        let after = (now.rx_ring_size_after_restart, now.tx_ring_size_after_restart);
        ((now.rx_ring_size, now.tx_ring_size), after)
    };
    assert_eq!(
        node.refused(&set(RingDirection::Rx, 1000)),
        "a ring has 512, 1024, 2048 or 4096 descriptors, not 1000"
    );
    assert_eq!(sizes(), ((512, 512), (None, None)));
    let said = answer!(node, &set(RingDirection::Rx, 2048), Done);
    assert!(
        said.starts_with("receive rings will have 2048 descriptors after 'restart service dataplane'"),
        "{said}"
    );
    answer!(node, &set(RingDirection::Tx, 1024), Done);
    assert_eq!(sizes(), ((512, 512), (Some(2048), Some(1024))));
    answer!(node, &Request::RestartDataplane, Done);
    assert_eq!(sizes(), ((2048, 1024), (None, None)));

    // Too much for the memory: the rings stay as they are, and the node runs on.
    answer!(node, &set(RingDirection::Rx, 4096), Done);
    answer!(node, &set(RingDirection::Tx, 4096), Done);
    let said = node.refused(&Request::RestartDataplane);
    assert!(said.contains("dataplane.memory-mib") && said.contains("use smaller rings"), "{said}");
    assert_eq!(sizes().0, (2048, 1024));
}

#[test]
fn a_restarted_data_plane_forwards_as_before() {
    in_network("settings::a_restarted_data_plane_forwards_as_before", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        for number in 0..3 {
            let frame = numbered(WEB_1, DB_1.0, number);
            let expected = routed(&frame, ROUTER_MAC, DB_1.1);
            ends.web_1.send(&frame);
            ends.db_1.expect("the datagram", |frame| (frame == expected).then_some(()));
            answer!(node, &Request::RestartDataplane, Done);
            node.wait_for_tunnels(|| {
                ends.underlay.glance();
            });
        }
        assert_eq!(node.status().generation, 1, "no document was taken");
    });
}

#[test]
fn the_flow_cache_can_be_turned_off_and_on() {
    in_network("settings::the_flow_cache_can_be_turned_off_and_on", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        let counts = || (node.flow_cache().hits, node.flow_cache().misses);
        let mut sent = 0;
        let mut send_fifty = || {
            let before = counts();
            for _ in 0..50 {
                sent += 1;
                let frame = numbered(WEB_1, DB_1.0, sent);
                let expected = routed(&frame, ROUTER_MAC, DB_1.1);
                ends.web_1.send(&frame);
                ends.db_1.expect("the datagram", |frame| (frame == expected).then_some(()));
            }
            let after = counts();
            (after.0 - before.0, after.1 - before.1)
        };
        assert_eq!(send_fifty(), (49, 1), "decided once");
        assert_eq!(send_fifty(), (50, 0));
        let said = answer!(node, &Request::SetFlowCache { enabled: false }, Done);
        assert_eq!(said, "the flow cache is disabled: every packet is decided afresh");
        assert!(!answer!(node, &Request::GetFlowCacheConfig, FlowCacheConfig).enabled);
        assert_eq!(send_fifty(), (0, 50));
        // Off survives a restart, as it was set last.
        answer!(node, &Request::RestartDataplane, Done);
        assert!(!answer!(node, &Request::GetDataplane, Dataplane).flow_cache_enabled);
        wait_for("the link", || {
            let ports = answer!(node, &Request::GetPhysicalPorts, PhysicalPorts);
            ports.iter().all(|port| port.link == "up").then_some(())
        });
        assert_eq!(send_fifty(), (0, 50));
        assert_eq!(
            answer!(node, &Request::SetFlowCache { enabled: true }, Done),
            "the flow cache is enabled"
        );
        let (hits, misses) = send_fifty();
        assert_eq!((hits, misses), (49, 1));
        assert!(node.flow_cache().insertions >= 1);
    });
}
