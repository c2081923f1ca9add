//! Every peer beside a node, one short trial, under the ordinary scheduler, in huge pages where they can be had. A peer either forwards frames, all of them
//! right, or the report says why it cannot run here, and so does this test.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::program;

/// Each peer, the node that it is compared with, and whether what it needs is here, as far as that can be told from outside.
fn peers(huge_pages: bool) -> [(&'static str, &'static str, bool); 3] {
    let is_root = nix::unistd::geteuid().is_root();
    let has = |program: &str| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
    };
    let ovs = Path::new("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk").exists();
    [
        ("ovs-dpdk", "sluice", is_root && ovs && huge_pages),
        ("testpmd-io", "sluice", has("dpdk-testpmd")),
        ("linux-vxlan", "sluice-veth", is_root && has("ip") && has("ethtool") && can_make_vxlan()),
    ]
}

/// Whether the kernel has VXLAN, tried in a namespace that ends with the attempt.
fn can_make_vxlan() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--net", "ip", "link", "add", "vxlan", "type", "vxlan", "id", "1", "dstport", "4789"]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[test]
fn each_peer_forwards_or_the_report_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("target/bench")).unwrap();
    let output = Command::new(program())
        .args(["bench", "peers", "--no-realtime", "--json", "--direction", "both"])
        .args(["--family", "ipv4,ipv6", "--trial-ms", "500", "--repeat", "1"])
        .env("TMPDIR", folder.path())
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["complete"], true, "{report:#}");
    let file = std::fs::read_to_string(folder.path().join("target/bench/peers.json")).unwrap();
    let rows: Vec<Value> = serde_json::from_str(&file).unwrap();
    let of = |device: &str| rows.iter().filter(|row| row["device"] == device).collect::<Vec<_>>();
    let memory = report["environment"]["packet_memory"].as_str().unwrap();
    for (peer, node, is_possible) in peers(memory.contains("huge")) {
        let reason = report["notes"].as_array().unwrap().iter().find_map(|note| {
            let text = note["text"].as_str()?;
            (text.starts_with(&format!("{peer} ")) || text.starts_with("nothing was measured on veths"))
                .then_some(text)
        });
        let measured = of(peer);
        if let Some(reason) = reason.filter(|_| measured.is_empty()) {
            assert!(!is_possible, "all that {peer} needs is here, but {reason}");
            eprintln!("{reason}");
            continue;
        }
        for row in measured.iter().chain(&of(node)) {
            assert!(row["mpps"].as_f64().unwrap() > 0.001, "{row}");
            let cycles = row["cycles_per_packet"].as_f64();
            assert!(cycles.map_or(peer == "linux-vxlan", |cycles| cycles > 10.0), "{row}");
        }
        let cases: Vec<&str> = measured.iter().map(|row| row["case"].as_str().unwrap()).collect();
        assert_eq!(cases, ["both IPv4 64", "both IPv6 80"], "{peer}");
        assert_eq!(of(node).len(), 2, "{node}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [folder.path().join("target")], "nothing but the rows is left behind");
}
