//! The document of the tests' node: an edge that also hosts two workloads.
//!
//! ```text
//!  web-1 10.10.10.11 ─ port web-1 ─┐            ┌─ port fp-eth0 ─ TEP 172.16.1.10 ── 172.16.1.20: web-2, db-2
//!                                  ├─ node-1 ───┤                                └── 172.16.1.21: web-3
//!  db-1  10.10.20.11 ─ port db-1 ──┘            └─ port fp-eth1 ─ 198.51.100.2/30 ── 198.51.100.1: default route
//! ```

use std::net::Ipv4Addr;
use std::path::Path;

use sluice_wire::MacAddr;

/// Ports, in the order of the document.
pub(crate) const PORTS: [&str; 4] = ["web-1", "db-1", "fp-eth0", "fp-eth1"];

pub(crate) const ROUTER_MAC: MacAddr = MacAddr([0x02, 0x50, 0x56, 0x56, 0x44, 0x52]);
pub(crate) const UPLINK_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0xee, 0]);
pub(crate) const NORTH_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0xee, 1]);
pub(crate) const LOCAL_TEP: Ipv4Addr = Ipv4Addr::new(172, 16, 1, 10);
/// TEPs of other nodes, and their MAC addresses.
pub(crate) const TEP_A: (Ipv4Addr, MacAddr) = (Ipv4Addr::new(172, 16, 1, 20), MacAddr([2, 0, 0, 0, 1, 20]));
pub(crate) const TEP_B: (Ipv4Addr, MacAddr) = (Ipv4Addr::new(172, 16, 1, 21), MacAddr([2, 0, 0, 0, 1, 21]));

/// A workload: its address and its MAC address.
pub(crate) type Station = (Ipv4Addr, MacAddr);
pub(crate) const WEB_1: Station = (Ipv4Addr::new(10, 10, 10, 11), MacAddr([2, 0, 0, 0, 10, 11]));
pub(crate) const WEB_2: Station = (Ipv4Addr::new(10, 10, 10, 12), MacAddr([2, 0, 0, 0, 10, 12]));
pub(crate) const DB_1: Station = (Ipv4Addr::new(10, 10, 20, 11), MacAddr([2, 0, 0, 0, 20, 11]));
pub(crate) const DB_2: Station = (Ipv4Addr::new(10, 10, 20, 12), MacAddr([2, 0, 0, 0, 20, 12]));

pub(crate) const WEB_VNI: u32 = 5001;
pub(crate) const DB_VNI: u32 = 5002;

/// The line of the workload whose TEP tests change.
pub(crate) const WEB_2_LINE: &str = r#"{name: web-2, segment: web, mac: "02:00:00:00:0a:0c", addresses: [10.10.10.12], remote-tep: 172.16.1.20}"#;

const LOGICAL: &str = r#"
uplinks:
  - {name: uplink-1, port: fp-eth0}
  - {name: uplink-2, port: fp-eth1}
teps:
  - {name: tep-1, address: 172.16.1.10/24, gateway: 172.16.1.1, uplink: uplink-1, mtu: 1700}
segments:
  - {name: web, vni: 5001, gateway: t1, gateway-addresses: [10.10.10.1/24], remote-teps: [172.16.1.20, 172.16.1.21]}
  - {name: db, vni: 5002, gateway: t1, gateway-addresses: [10.10.20.1/24], encapsulation: vxlan}
workloads:
  - {name: web-1, segment: web, mac: "02:00:00:00:0a:0b", addresses: [10.10.10.11], port: web-1}
  - {name: db-1, segment: db, mac: "02:00:00:00:14:0b", addresses: [10.10.20.11], port: db-1}
  - {name: web-2, segment: web, mac: "02:00:00:00:0a:0c", addresses: [10.10.10.12], remote-tep: 172.16.1.20}
  - {name: db-2, segment: db, mac: "02:00:00:00:14:0c", addresses: [10.10.20.12], remote-tep: 172.16.1.20}
  - {name: web-3, segment: web, mac: "02:00:00:00:0a:0d", addresses: [10.10.10.13], remote-tep: 172.16.1.21}
gateways:
  - name: t0
    tier: 0
    interfaces:
      - {name: to-router, uplink: uplink-2, addresses: [198.51.100.2/30]}
    static-routes:
      - {prefix: 0.0.0.0/0, next-hops: [{address: 198.51.100.1}]}
  - name: t1
    tier: 1
    link: {tier-0: t0, tier-0-addresses: [100.64.0.0/31], tier-1-addresses: [100.64.0.1/31]}
"#;

/// The node on the interfaces of [`super::network::in_network`].
pub(crate) fn on_interfaces() -> String {
    with_ports(|port| format!("kind: af_packet, interface: {port}"))
}

/// The node with a pair of pcap files for every port: it reads `PORT-in.pcap` once and writes `PORT-out.pcap`.
pub(crate) fn on_files(folder: &Path) -> String {
    let folder = folder.display();
    with_ports(|port| {
        format!("kind: pcap, receive: {folder}/{port}-in.pcap, transmit: {folder}/{port}-out.pcap")
    })
}

fn with_ports(device: impl Fn(&str) -> String) -> String {
    let rest =
        ["mtu: 1500", "mtu: 1500", r#"mtu: 1700, mac: "02:00:00:00:ee:00""#, r#"mac: "02:00:00:00:ee:01""#];
    let port = |(name, rest): (&&str, &str)| format!("  - {{name: {name}, {}, {rest}}}\n", device(name));
    let ports: String = PORTS.iter().zip(rest).map(port).collect();
    format!(
        "version: 1\nname: node-1\nrole: edge\n\
         dataplane: {{flow-cache: {{size: 4096}}, memory-mib: 96, huge-pages: \"off\"}}\nports:\n{ports}{LOGICAL}"
    )
}

/// The other node, which has web-2: its TEP is that of [`TEP_A`], on the far end of the first node's fp-eth0.
///
/// ```text
///  web-2 10.10.10.12 ─ port web-2 ─ node-2 ─ port fp-eth0 ─ TEP 172.16.1.20 ── 172.16.1.10: web-1
/// ```
pub(crate) fn other_node(uplink: &str) -> String {
    format!(
        r#"version: 1
name: node-2
role: host
dataplane: {{flow-cache: {{size: 4096}}, memory-mib: 96, huge-pages: "off"}}
ports:
  - {{name: web-2, kind: af_packet, interface: web-2, mtu: 1500}}
  - {{name: fp-eth0, {uplink}, mtu: 1700, mac: "02:00:00:00:01:14"}}
uplinks:
  - {{name: uplink-1, port: fp-eth0}}
teps:
  - {{name: tep-1, address: 172.16.1.20/24, uplink: uplink-1, mtu: 1700}}
segments:
  - {{name: web, vni: 5001}}
workloads:
  - {{name: web-2, segment: web, mac: "02:00:00:00:0a:0c", addresses: [10.10.10.12], port: web-2}}
  - {{name: web-1, segment: web, mac: "02:00:00:00:0a:0b", addresses: [10.10.10.11], remote-tep: 172.16.1.10}}
"#
    )
}

/// The node on interfaces, with another device behind one of its ports.
pub(crate) fn with_device(port: &str, device: &str) -> String {
    changed(&on_interfaces(), &format!("kind: af_packet, interface: {port},"), &format!("{device},"))
}

/// The document with `from` written as `to`.
pub(crate) fn changed(document: &str, from: &str, to: &str) -> String {
    assert!(document.contains(from), "the document has no '{from}'");
    document.replace(from, to)
}
