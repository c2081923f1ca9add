//! A worker that a device holds up: the node says so, goes on answering, and waits for nothing without a limit.
//!
//! The device is a pcap file that is a pipe which nobody reads: once it is full, writing to it does not return.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sluice_control::Request;

use crate::forwarding::write_pcap;
use crate::lifecycle::quiet_folder;
use crate::support::documents::{self, DB_1, ROUTER_MAC, WEB_1, changed};
use crate::support::frames::datagram;
use crate::support::node::{Node, answer};
use crate::support::wait_for;

/// More than a pipe holds.
const FRAMES: usize = 500;

/// A node whose only worker is held up, and the pipe that does it.
fn held_up() -> (Node, File) {
    let folder = quiet_folder();
    let frame = datagram(WEB_1, ROUTER_MAC, DB_1.0, &[7; 1000]);
    write_pcap(&folder.path().join("web-1-in.pcap"), &vec![frame; FRAMES]);
    let path = folder.path().join("db-1-out.pcap");
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let pipe = File::options().read(true).write(true).open(path).unwrap();
    let node = Node::start_in(folder);
    wait_for("the pipe to be full", || {
        let mut state = [PollFd::new(&pipe, PollFlags::OUT)];
        poll(&mut state, Some(&Timespec::default())).unwrap();
        (!state[0].revents().contains(PollFlags::OUT)).then_some(())
    });
    (node, pipe)
}

fn other(folder: &Path, name: &str) -> String {
    changed(&documents::on_files(folder), "name: web-3", &format!("name: {name}"))
}

const SENTENCE: &str = "has not taken it: it does not go on; end sluiced and start it again if it stays so";

#[test]
fn the_node_answers_while_a_worker_is_held_up_and_goes_on_with_it() {
    let (node, mut pipe) = held_up();
    let core = answer!(node, &Request::GetDataplane, Dataplane).corelist[0];
    std::thread::scope(|scope| {
        let applied = scope.spawn(|| node.apply(&other(node.folder(), "web-8")));
        let mut answers = 0;
        while !applied.is_finished() {
            assert_eq!(node.port_statistics("web-1").name, "web-1");
            answers += 1;
        }
        let applied = applied.join().unwrap();
        assert_eq!(applied.changes.last(), Some(&format!("the worker on core {core} {SENTENCE}")));
        assert!(answers > 10, "only {answers} requests were answered meanwhile");
    });
    let told = "the worker does not go on";
    wait_for("the log", || node.log().contains(told).then_some(()));
    // It is known by now, so that nobody waits again; and however many documents there are, each is kept or replaced.
    for number in 0..50 {
        let applied = node.apply(&other(node.folder(), &format!("web-{}", 100 + number)));
        assert!(applied.changes.last().unwrap().ends_with(SENTENCE), "{applied:?}");
    }
    let said = node.refused(&Request::RestartDataplane);
    let expected = format!(
        "the worker on core {core} does not go on, a device holds it up most likely, so its ports cannot be closed; nothing has changed: \
         end sluiced and start it again"
    );
    assert_eq!(said, expected);
    assert_eq!(node.log().matches(told).count(), 1, "told once: {}", node.log());

    // Somebody reads the pipe: the worker goes on with everything that it was told meanwhile.
    let again = "the worker goes on again";
    wait_for("the log", || {
        drain(&mut pipe);
        node.log().contains(again).then_some(())
    });
    wait_for("every frame to be sent", || {
        drain(&mut pipe);
        (node.port_statistics("db-1").tx_packets == FRAMES as u64).then_some(())
    });
    let applied = node.apply(&other(node.folder(), "web-9"));
    assert_eq!(applied.changes, ["workloads: 1 added, 1 removed"]);
    answer!(node, &Request::RestartDataplane, Done);
}

/// Reads what is in the pipe.
fn drain(pipe: &mut File) {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let mut state = [PollFd::new(&*pipe, PollFlags::IN)];
        poll(&mut state, Some(&Timespec::default())).unwrap();
        if !state[0].revents().contains(PollFlags::IN) {
            return;
        }
        assert!(pipe.read(&mut bytes).unwrap() > 0);
    }
}

#[test]
fn a_node_ends_though_a_worker_does_not() {
    let (mut node, _pipe) = held_up();
    let core = answer!(node, &Request::GetDataplane, Dataplane).corelist[0];
    let ended = node.terminate(Signal::SIGTERM);
    assert_eq!(ended.code(), Some(1), "{}", node.log());
    let said = format!(
        "sluiced: a device holds up the worker on core {core}, which did not end; its ports were left as they are\n"
    );
    assert!(node.log().ends_with(&said), "{}", node.log());
    assert!(!node.socket().exists());
}
