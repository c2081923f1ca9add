//! The interactive shell on a pseudoterminal.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod support;

use std::path::Path;

use rexpect::session::{PtySession, spawn_command};
use sluice_control::{Reply, Request};
use support::{FakeNode, PATIENCE, Reaction, answers, sluice};

/// A shell whose lines have no colours, so that what is expected stands in one piece.
fn shell(directory: &Path) -> PtySession {
    let mut command = sluice(directory);
    command.env("NO_COLOR", "1").stdin(std::process::Stdio::inherit());
    spawn_command(command, Some(u64::try_from(PATIENCE.as_millis()).unwrap())).unwrap()
}

/// Types without ending the line.
fn press(shell: &mut PtySession, keys: &str) {
    shell.send(keys).unwrap();
    shell.flush().unwrap();
}

#[test]
fn commands_are_done_until_exit() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    let mut shell = shell(directory.path());
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("get dataplane | find tx_ring").unwrap();
    shell.exp_string("Tx_ring_size: 512").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("get status --json").unwrap();
    shell.exp_string("\"generation\": 7").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("get route t9").unwrap();
    shell.exp_string("% there is no gateway 't9'").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("help get").unwrap();
    shell.exp_string("logical-switches").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("?").unwrap();
    shell.exp_string("Leave the VRF, or the shell").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("lab up").unwrap();
    shell.exp_string("leave it with 'exit' and run 'sluice lab up'").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
    assert!(node.requests().contains(&Request::GetRoute { router: Some("t9".into()) }));
    let history = std::fs::read_to_string(directory.path().join("sluice/history")).unwrap();
    assert!(history.contains("get dataplane | find tx_ring"), "{history}");
}

#[test]
fn an_unknown_command_is_told_with_the_nearest() {
    let directory = tempfile::tempdir().unwrap();
    let _node = FakeNode::start(directory.path(), "edge-1");
    let mut shell = shell(directory.path());
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("get dataplan").unwrap();
    shell.exp_string("% Command not found: 'get dataplan'; the nearest is 'get dataplane'").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("status").unwrap();
    shell.exp_string("the nearest is 'get status'").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    // The end of input is an exit.
    shell.send_control('d').unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn tab_completes_commands_and_names_of_the_node() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    let mut shell = shell(directory.path());
    shell.exp_string("edge-1> ").unwrap();
    press(&mut shell, "get dr\t");
    shell.exp_string("get drops ").unwrap();
    press(&mut shell, "\n");
    shell.exp_string("1,234,567").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    // Two ports begin so: the common part is completed and both are listed.
    press(&mut shell, "get physical-port f\t");
    shell.exp_string("fp-eth").unwrap();
    press(&mut shell, "1\t");
    shell.exp_string("fp-eth1 ").unwrap();
    press(&mut shell, "st\t\n");
    shell.exp_string("rx_q0_packets").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    assert_eq!(node.requests().last(), Some(&Request::GetPhysicalPortStats { name: "fp-eth1".into() }));
    // Of workloads only those that can send here.
    press(&mut shell, "trace from \t");
    shell.exp_string("vm-1 ").unwrap();
    press(&mut shell, "to 192.0.2.10\n");
    shell.exp_string("Verdict").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    press(&mut shell, "get physical-port fp-eth1 st\t\n");
    shell.exp_string("rx_q0_packets").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    // The line before is in the history.
    press(&mut shell, "\u{1b}[A");
    shell.exp_string("get physical-port fp-eth1 st").unwrap();
    shell.send_control('c').unwrap();
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("quit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn a_vrf_is_entered_and_left() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    let mut shell = shell(directory.path());
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("vrf 2").unwrap();
    shell.exp_string("edge-1(vrf 2: t0)> ").unwrap();
    shell.send_line("get route").unwrap();
    shell.exp_string("t0 (VRF 2)").unwrap();
    shell.exp_string("edge-1(vrf 2: t0)> ").unwrap();
    assert_eq!(node.requests().last(), Some(&Request::GetRoute { router: Some("t0".into()) }));
    shell.send_line("exit").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("vrf 9").unwrap();
    shell.exp_string("% there is no VRF 9").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn a_restart_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    let mut shell = shell(directory.path());
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("restart service dataplane").unwrap();
    shell.exp_string("Restart? [y/N] ").unwrap();
    shell.send_line("n").unwrap();
    shell.exp_string("% not restarted").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    assert!(!node.requests().contains(&Request::RestartDataplane));
    shell.send_line("restart service dataplane").unwrap();
    shell.exp_string("Restart? [y/N] ").unwrap();
    shell.send_line("y").unwrap();
    shell.exp_string("was restarted").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    assert!(node.requests().contains(&Request::RestartDataplane));
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn the_shell_outlives_the_node() {
    let directory = tempfile::tempdir().unwrap();
    let mut shell = shell(directory.path());
    shell.exp_string("% no node runs here").unwrap();
    shell.exp_string("sluice> ").unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    shell.send_line("get status").unwrap();
    shell.exp_string("Generation").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    let socket = node.socket.clone();
    drop(node);
    shell.send_line("get status").unwrap();
    shell.exp_string("% no node answers on").unwrap();
    shell.exp_string("edge-1> ").unwrap();
    std::fs::remove_file(socket).unwrap();
    let _node = FakeNode::start(directory.path(), "edge-1");
    shell.send_line("get status").unwrap();
    shell.exp_string("Generation").unwrap();
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn control_c_ends_a_capture_and_not_the_shell() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::reacting(directory.path(), "edge-1", |request| {
        let reply = Box::new(answers::reply(request));
        match (request, &*reply) {
            (Request::StartCapture { .. }, Reply::Answer(_)) => Reaction::ReplyAtEnd(reply),
            _ => Reaction::Reply(reply),
        }
    });
    let mut shell = shell(directory.path());
    for _ in 0..2 {
        shell.exp_string("edge-1> ").unwrap();
        shell.send_line("start capture interface fp-eth0 file /nowhere/all.pcap").unwrap();
        shell.exp_string("Ctrl-C ends it").unwrap();
        while !matches!(node.requests().last(), Some(Request::StartCapture { .. })) {
            node.events.recv_timeout(PATIENCE).unwrap();
        }
        shell.send_control('c').unwrap();
        shell.exp_string("4,200 frames in /nowhere/all.pcap").unwrap();
    }
    shell.exp_string("edge-1> ").unwrap();
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}
