//! The ways from a client to a server, and what the difference of two of them is the cost of.

use std::net::{Ipv4Addr, SocketAddr};

/// Port of every server.
pub(super) const PORT: u16 = 5201;

/// A way from a client to a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// Its name in reports.
    pub(super) name: &'static str,
    /// What it passes.
    pub(super) about: &'static str,
    /// The node of the topology that the client runs in.
    pub(super) client: &'static str,
    /// The node of the topology that the server runs in.
    pub(super) server: &'static str,
    address: Ipv4Addr,
    /// Node and interfaces in the middle of the way, that on the client's side first; none where one node is all there is.
    pub(super) underlay: Option<(&'static str, [&'static str; 2])>,
}

impl Case {
    /// Where the server listens.
    pub(super) fn server_address(&self) -> SocketAddr {
        SocketAddr::from((self.address, PORT))
    }

    /// Where frames of this case can be captured, from the client to the server: node and interface.
    pub(super) fn points(&self) -> Vec<(&'static str, &'static str)> {
        let middle = self.underlay.iter().flat_map(|(node, interfaces)| interfaces.map(|name| (*node, name)));
        let ends = [(self.client, "eth0"), (self.server, "eth0")];
        std::iter::once(ends[0]).chain(middle).chain([ends[1]]).collect()
    }
}

/// Bridges only: the document's third scenario.
pub(super) const LAYER_2: Case = Case {
    name: "layer 2",
    about: "three bridges of the kernel",
    client: "physical",
    server: "layer-2",
    address: Ipv4Addr::new(10, 1, 1, 12),
    underlay: Some(("switch", ["left", "right"])),
};

/// A router between two bridges: the document's second scenario.
pub(super) const ROUTED: Case = Case {
    name: "routed",
    about: "bridge, router and bridge of the kernel",
    client: "physical",
    server: "routed",
    address: Ipv4Addr::new(10, 1, 2, 12),
    underlay: Some(("router", ["left", "right"])),
};

/// One node, one segment.
pub(super) const NODE_SWITCHED: Case = Case {
    name: "1 node, switched",
    about: "one node, with both workloads on one segment",
    client: "client",
    server: "local-web",
    address: Ipv4Addr::new(10, 0, 1, 11),
    underlay: None,
};

/// One node, two segments.
pub(super) const NODE_ROUTED: Case = Case {
    name: "1 node, routed",
    about: "one node, with workloads on two segments",
    client: "client",
    server: "local-db",
    address: Ipv4Addr::new(10, 0, 2, 11),
    underlay: None,
};

/// Two nodes that route without an overlay.
pub(super) const PLAIN: Case = Case {
    name: "2 nodes, no overlay",
    about: "node, router and node, whose tier-0 gateways route to each other without encapsulation",
    client: "client",
    server: "tier-0",
    address: Ipv4Addr::new(10, 0, 3, 12),
    underlay: Some(("router", ["plain-1", "plain-2"])),
};

/// Two nodes, one segment.
pub(super) const OVERLAY_SWITCHED: Case = Case {
    name: "2 nodes, overlay",
    about: "node, router and node, with both workloads on one segment",
    client: "client",
    server: "remote-web",
    address: Ipv4Addr::new(10, 0, 1, 12),
    underlay: Some(("router", ["tep-1", "tep-2"])),
};

/// Two nodes, two segments: the document's first scenario.
pub(super) const OVERLAY_ROUTED: Case = Case {
    name: "2 nodes, overlay, routed",
    about: "node, router and node, with workloads on two segments",
    client: "client",
    server: "remote-db",
    address: Ipv4Addr::new(10, 0, 2, 12),
    underlay: Some(("router", ["tep-1", "tep-2"])),
};

/// Every case, in the order of a round.
pub(super) const CASES: [&Case; 7] =
    [&LAYER_2, &ROUTED, &NODE_SWITCHED, &NODE_ROUTED, &PLAIN, &OVERLAY_SWITCHED, &OVERLAY_ROUTED];

/// What the difference of two cases is the cost of.
#[derive(Debug)]
pub(super) struct Feature {
    /// What is added.
    pub(super) name: &'static str,
    /// The case with it.
    pub(super) with: &'static Case,
    /// The case without it.
    pub(super) without: &'static Case,
    /// What the document says that it adds to the round trip, µs: the least and the most.
    pub(super) document: Option<[f64; 2]>,
}

/// What the document publishes for distributed routing, µs.
const DOCUMENT_ROUTING: [f64; 2] = [8.0, 14.0];
/// What the document publishes for VXLAN, µs.
const DOCUMENT_VXLAN: [f64; 2] = [3.0, 10.0];

/// Distributed routing between two nodes, the document's first result.
pub(super) const ROUTING: Feature = Feature {
    name: "distributed routing, 2 nodes",
    with: &OVERLAY_ROUTED,
    without: &OVERLAY_SWITCHED,
    document: Some(DOCUMENT_ROUTING),
};

/// Encapsulation, the document's second result. Both cases route, through the same nodes and the same router.
pub(super) const OVERLAY: Feature = Feature {
    name: "overlay encapsulation",
    with: &OVERLAY_ROUTED,
    without: &PLAIN,
    document: Some(DOCUMENT_VXLAN),
};

/// Everything apart that is measured.
pub(super) const FEATURES: [&Feature; 6] = [
    &Feature { name: "physical routing", with: &ROUTED, without: &LAYER_2, document: None },
    &Feature {
        name: "distributed routing, 1 node",
        with: &NODE_ROUTED,
        without: &NODE_SWITCHED,
        document: Some(DOCUMENT_ROUTING),
    },
    &ROUTING,
    &OVERLAY,
    &Feature { name: "2 nodes in place of bridges", with: &PLAIN, without: &ROUTED, document: None },
    &Feature { name: "all: nodes, overlay, router", with: &OVERLAY_ROUTED, without: &ROUTED, document: None },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_differences_of_cases_that_are_measured() {
        for feature in FEATURES {
            assert!(CASES.contains(&feature.with) && CASES.contains(&feature.without), "{}", feature.name);
            assert_ne!(feature.with, feature.without, "{}", feature.name);
        }
    }

    #[test]
    fn points_go_from_the_client_to_the_server() {
        let expected = [("client", "eth0"), ("router", "tep-1"), ("router", "tep-2"), ("remote-db", "eth0")];
        assert_eq!(OVERLAY_ROUTED.points(), expected);
        assert_eq!(NODE_ROUTED.points(), [("client", "eth0"), ("local-db", "eth0")]);
    }
}
