//! A whole node whose LAG leads to DPDK's bonding driver in mode 4 (802.3ad), and its LACPDUs as tshark reads them.
//!
//! `dpdk-testpmd` has the far ends of the node's links. The driver sends its LACPDUs when its device is asked to send something, so testpmd
//! is told ten times a second to send one packet. Without the program, or without tshark, the test says so and ends.

#[path = "../../../../protocols/tests/support/testpmd_bonding.rs"]
mod testpmd_bonding;

use std::path::Path;
use std::process::{Command, Stdio};

use sluice_control::{Answer, CaptureDirection, Client, Request};

use super::{first, lag, wait_for_active};
use crate::support::network::{in_network, ip};
use crate::support::node::Node;
use testpmd_bonding::Bonding;

const PORTS: [&str; 3] = ["web-1", "fp-eth0", "fp-eth1"];

/// Fields of the LACPDUs in a capture, a line for each.
fn dissected(file: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-Y", "lacp", "-T", "fields", "-E", "separator=|", "-r"]).arg(file);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect()
}

#[test]
fn a_node_aggregates_with_dpdk_bonding_and_tshark_reads_along() {
    const NAME: &str = "lags::bonding::a_node_aggregates_with_dpdk_bonding_and_tshark_reads_along";
    let missing = |program: &str| {
        let version = Command::new(program).arg("--version").stdin(Stdio::null()).output();
        version.is_err()
    };
    if let Some(program) = ["dpdk-testpmd", "tshark"].into_iter().find(|program| missing(program)) {
        println!("{NAME}: SKIPPED, since {program} is not installed");
        return;
    }
    in_network(NAME, &PORTS, || {
        let node = Node::start(&first(2));
        let file = node.folder().join("lacp.pcap");
        // From before the other end speaks, so that the whole conversation is in it.
        let (socket, into) = (node.socket(), file.clone());
        let capture = std::thread::spawn(move || {
            let request = Request::StartCapture {
                interface: "fp-eth0".into(),
                file: into,
                count: Some(16),
                direction: CaptureDirection::Dual,
                overwrite: false,
            };
            Client::connect(&socket).unwrap().ask(&request).unwrap()
        });
        let bonding = Bonding::over(["fp-eth0-peer", "fp-eth1-peer"]);
        wait_for_active(&node, &["fp-eth0", "fp-eth1"]);
        let lag = lag(&node);
        let partner = lag.partner.clone().unwrap();
        assert!(lag.links.iter().all(|link| link.partner_system == partner.system), "{lag:?}");
        assert_ne!(lag.links[0].partner_port, lag.links[1].partner_port);

        assert!(matches!(capture.join().unwrap(), Answer::Captured(_)));
        let fields = ["eth.dst", "lacp.actor.sysid", "lacp.partner.sysid", "lacp.actor.state"];
        let read = dissected(&file, &fields);
        println!("LACPDUs as tshark reads them: {read:?}");
        let of = |system: &str| read.iter().filter(|line| line[1] == system).cloned().collect::<Vec<_>>();
        let (own, theirs) = (of(&lag.system), of(&partner.system));
        assert!(own.iter().all(|line| line[0] == "01:80:c2:00:00:02"));
        let state = |line: &Vec<String>| u8::from_str_radix(line[3].trim_start_matches("0x"), 16).unwrap();
        // In sync, collecting and distributing; the node asks for fast LACPDUs besides. The capture may end before the driver distributes.
        let says = |lines: &[Vec<String>], partner: &String, bits: u8| {
            lines.iter().any(|line| line[2] == *partner && state(line) & bits == bits)
        };
        assert!(says(&own, &partner.system, 0x3f), "the node: {own:?}");
        assert!(says(&theirs, &lag.system, 0x1d), "the driver: {theirs:?}");

        // A link that is cut, and plugged in again.
        ip("link set fp-eth1 down");
        wait_for_active(&node, &["fp-eth0"]);
        ip("link set fp-eth1 up");
        wait_for_active(&node, &["fp-eth0", "fp-eth1"]);
        let said = bonding.finish("show bonding lacp info 2\n");
        let own = lag.system.to_uppercase();
        let partners = said.lines().filter(|line| line.contains(&own)).count();
        assert_eq!(partners, 2, "the driver knows its partner on both ports: {said}");
    });
}
