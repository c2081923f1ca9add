//! What keeps a node from starting: exit code 1, one sentence that says what to do, and nothing left behind.

use std::path::Path;

use tempfile::TempDir;

use crate::lifecycle::quiet_folder;
use crate::support::documents::{self, changed};
use crate::support::node::sluiced;

/// Starts a node that must not start; returns what it says.
fn complaint(folder: &Path) -> String {
    let mut command = sluiced();
    command.arg("--config").arg(folder.join("node.yaml")).arg("--socket").arg(folder.join("node.sock"));
    let output = command.env("SLUICE_LOG", "off").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("sluiced: ") && said.ends_with('\n'), "{said}");
    assert!(!folder.join("node.sock").exists(), "the socket is left, after: {said}");
    said
}

/// What the node says where one part of a good document is another; one line.
fn complaint_about(from: &str, to: &str) -> String {
    let folder = with_change(from, to);
    let said = complaint(folder.path());
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

fn with_change(from: &str, to: &str) -> TempDir {
    let folder = quiet_folder();
    let document = changed(&documents::on_files(folder.path()), from, to);
    std::fs::write(folder.path().join("node.yaml"), document).unwrap();
    folder
}

fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
}

#[test]
fn a_missing_document() {
    let folder = tempfile::tempdir().unwrap();
    let said = complaint(folder.path());
    assert_says(&said, &["node.yaml cannot be read", "name the node document with --config", "No such file"]);
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn a_wrong_document_is_told_of_every_mistake_at_once() {
    let folder = quiet_folder();
    let good = documents::on_files(folder.path());
    let bad = changed(
        &good,
        "segment: web, mac: \"02:00:00:00:0a:0b\"",
        "segment: wep, mac: \"02:00:00:00:0a:0b\"",
    );
    let bad = changed(&bad, "size: 4096", "size: 4095");
    let bad = changed(&bad, "{name: uplink-2, port: fp-eth1}", "{name: uplink-2, port: fp-eth9}");
    std::fs::write(folder.path().join("node.yaml"), bad).unwrap();
    let said = complaint(folder.path());
    assert_says(&said, &["wep", "4095 is not a power of two", "fp-eth9", "node.yaml"]);
}

#[test]
fn an_interface_that_does_not_exist() {
    let folder = quiet_folder();
    let document = documents::on_files(folder.path());
    let path = folder.path().display();
    let pcap = format!("kind: pcap, receive: {path}/web-1-in.pcap, transmit: {path}/web-1-out.pcap");
    let document = changed(&document, &pcap, "kind: af_packet, interface: no-such-if");
    std::fs::write(folder.path().join("node.yaml"), document).unwrap();
    let said = complaint(folder.path());
    assert_says(
        &said,
        &["port `web-1`", "interface no-such-if does not exist in this network namespace", "`ip link`"],
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_core_that_does_not_exist() {
    let said = complaint_about("dataplane: {", "dataplane: {cores: [1023], ");
    assert_says(&said, &["dataplane.cores: core 1023 does not exist", "the cores of this process are 0"]);
}

#[test]
fn huge_pages_that_are_not_there() {
    let folder = quiet_folder();
    let document = documents::on_files(folder.path());
    // More than any machine that runs this has reserved.
    let document = changed(
        &document,
        "memory-mib: 96, huge-pages: \"off\"",
        "memory-mib: 1048576, huge-pages: required",
    );
    std::fs::write(folder.path().join("node.yaml"), document).unwrap();
    let said = complaint(folder.path());
    assert_says(&said, &["1048576 MiB of huge pages are required", "sysctl vm.nr_hugepages="]);
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn memory_that_is_too_small_for_the_rings() {
    let said = complaint_about("memory-mib: 96", "memory-mib: 64, ring-size: {rx: 4096, tx: 4096}");
    assert_says(
        &said,
        &["dataplane.memory-mib: the rings of the ports need", "64 MiB hold", "set it to at least"],
    );
    // What it tells to do, does.
    let remedy = said.split("set it to at least ").nth(1).unwrap().split(',').next().unwrap();
    let folder =
        with_change("memory-mib: 96", &format!("memory-mib: {remedy}, ring-size: {{rx: 4096, tx: 4096}}"));
    let node = crate::support::node::Node::start_in(folder);
    assert_eq!(node.status().generation, 1);
}

#[test]
fn a_pcap_file_that_does_not_exist() {
    let said = complaint_about("db-1-in.pcap", "db-7-in.pcap");
    assert_says(
        &said,
        &["port `db-1`", "db-7-in.pcap cannot be read (No such file", "give a capture file that exists"],
    );
    assert_eq!(said.matches("No such file").count(), 1, "told once: {said}");
}

#[test]
fn a_folder_that_does_not_exist() {
    let said = complaint_about("db-1-out.pcap", "nowhere/db-1-out.pcap");
    assert_says(&said, &["port `db-1`", "the folder of", "does not exist: create it first"]);
}

#[test]
fn a_socket_that_cannot_be() {
    let folder = quiet_folder();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let mut command = sluiced();
    command
        .arg("--config")
        .arg(folder.path().join("node.yaml"))
        .arg("--socket")
        .arg(folder.path().join("file/node.sock"));
    let output = command.env("SLUICE_LOG", "off").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_says(&said, &["name another socket with --socket", "file"]);
    assert_eq!(said.lines().count(), 1, "{said}");
}
