//! A network namespace for one test, with a pair of interfaces for each port of the node.

use std::process::Command;

use nix::sched::{CloneFlags, unshare};

/// Set in the process that runs one test as the root of a user namespace.
const INSIDE: &str = "SLUICE_TEST_IN_USER_NAMESPACE";

/// Runs the test `name` in a new network namespace, with pairs of interfaces `port` (the node's end) and `port-peer` (the test's).
///
/// The namespace is that of this thread and of the processes that it starts. An ordinary user runs the test once more, as the root of a
/// user namespace; where the system does not allow that either, the test says so and ends.
pub(crate) fn in_network(name: &str, ports: &[&str], test: impl FnOnce()) {
    if unshare(CloneFlags::CLONE_NEWNET).is_ok() {
        for port in ports {
            make_pair(port);
        }
        test();
        return;
    }
    assert!(std::env::var_os(INSIDE).is_none(), "no network namespace for the root of a user namespace");
    if !Command::new("unshare").args(["-Urn", "true"]).output().is_ok_and(|output| output.status.success()) {
        println!("{name}: SKIPPED, since this user may make neither network nor user namespaces here");
        return;
    }
    let mut again = Command::new("unshare");
    again
        .arg("-Urn")
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, "1");
    let output = again.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{complaint}");
}

/// Frames of up to 1,700 bytes of layer 3, and nothing that the kernel would send by itself.
fn make_pair(port: &str) {
    let peer = format!("{port}-peer");
    ip(&format!("link add {port} mtu 1700 type veth peer name {peer} mtu 1700"));
    for interface in [port, &peer] {
        ip(&format!("link set {interface} addrgenmode none"));
        ip(&format!("link set {interface} up"));
    }
}

/// Runs `ip` in the test's namespace.
pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2 is installed");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}
