//! Which node is asked, and what is said when it does not answer as it should.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod support;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::unistd::geteuid;
use sluice_control::Reply;
use support::{FakeNode, Reaction, hang_up, ran, run, sluice};

#[test]
fn without_a_node_it_says_how_to_start_one() {
    let directory = tempfile::tempdir().unwrap();
    let error = run(directory.path(), "get status").failed(1);
    assert_eq!(
        error,
        format!(
            "error: no node runs here: there is no control socket in {}, and no lab is up; start one with 'sluiced --config FILE', \
             or name a socket with --socket\n",
            directory.path().display()
        )
    );
    // The directory itself may not be there either.
    let error = run(&directory.path().join("nowhere"), "get status").failed(1);
    assert!(error.contains("no node runs here"), "{error}");
    let error = run(directory.path(), "--node edge-1 get status").failed(1);
    assert!(error.starts_with("error: no node 'edge-1' runs here, nor any other; start one"), "{error}");
    let _node = FakeNode::start(directory.path(), "edge-2");
    let error = run(directory.path(), "--node edge-1 get status").failed(1);
    assert!(error.starts_with("error: no node 'edge-1' runs here, only edge-2; start one"), "{error}");
}

/// A node in a lab.
fn in_lab(run_directory: &Path, lab: &str, name: &str) -> FakeNode {
    let directory = run_directory.join("lab").join(lab).join("run");
    std::fs::create_dir_all(&directory).unwrap();
    FakeNode::start(&directory, name)
}

#[test]
fn the_nodes_of_labs_are_found_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let run = |line| run(directory.path(), line);
    let demo_edge = in_lab(directory.path(), "demo", "edge1");
    // The only node that runs needs no name.
    run("get status").succeeded();
    let _demo_host = in_lab(directory.path(), "demo", "host1");
    assert_eq!(
        run("get status").failed(2),
        "error: several nodes run here: demo/edge1, demo/host1; say which with --node NAME\n"
    );
    run("--node edge1 get logical-routers").succeeded();
    run("--node demo/edge1 get logical-routers").succeeded();
    assert_eq!(demo_edge.requests().len(), 3);

    let other_edge = in_lab(directory.path(), "other", "edge1");
    assert_eq!(
        run("--node edge1 get status").failed(2),
        "error: several nodes are called 'edge1'; say which with one of --node demo/edge1, --node other/edge1\n"
    );
    run("--node other/edge1 get status").succeeded();
    assert_eq!((demo_edge.requests().len(), other_edge.requests().len()), (3, 1));

    // What a lab that died left behind is passed over.
    let socket = other_edge.socket.clone();
    drop(other_edge);
    assert!(socket.exists());
    run("--node edge1 get status").succeeded();
    assert_eq!(demo_edge.requests().len(), 4);

    let plain = FakeNode::start(directory.path(), "edge1");
    let error = run("--node edge1 get status").failed(2);
    assert!(error.contains(&format!("--socket {}, --node demo/edge1", plain.socket.display())), "{error}");
    let error = run("--node demo/edge7 get status").failed(1);
    assert!(error.contains("no node 'demo/edge7' runs here, only edge1, demo/edge1, demo/host1;"), "{error}");
    for wrong in ["a/b/c", "/edge1", "demo/", "demo/..", "../edge1"] {
        let error = ran(sluice(directory.path()).args(["--node", wrong, "get", "status"])).failed(2);
        assert!(error.contains("NAME or LAB/NAME"), "{error}");
    }
}

#[test]
fn a_node_that_does_not_answer_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::reacting(directory.path(), "edge-1", |_| Reaction::Silence);
    let error = run(directory.path(), "--timeout 1 get status").failed(1);
    assert_eq!(
        error,
        format!(
            "error: the node on {} did not answer within 1 s; look whether its process still runs and what its log says, or wait \
             longer with --timeout\n",
            node.socket.display()
        )
    );
    assert!(run(directory.path(), "--timeout 0 get status").failed(2).contains("0 is not in 1..=86400"));
    assert!(run(directory.path(), "get --help").succeeded().contains("--timeout <SECONDS>"));
}

#[test]
fn several_nodes_have_to_be_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let edge = FakeNode::start(directory.path(), "edge-1");
    let host = FakeNode::start(directory.path(), "host-1");
    std::fs::write(directory.path().join("note.txt"), "no socket").unwrap();
    std::fs::write(directory.path().join("file.sock"), "no socket either").unwrap();
    let error = run(directory.path(), "get status").failed(2);
    assert_eq!(error, "error: several nodes run here: edge-1, host-1; say which with --node NAME\n");
    run(directory.path(), "--node host-1 get status").succeeded();
    run(directory.path(), "get status --node host-1").succeeded();
    assert_eq!((edge.requests().len(), host.requests().len()), (0, 2));
}

#[test]
fn the_socket_of_a_dead_node_does_not_count() {
    let directory = tempfile::tempdir().unwrap();
    // A listener that is gone leaves its socket behind.
    hang_up(UnixListener::bind(directory.path().join("dead.sock")).unwrap());
    hang_up(UnixListener::bind(directory.path().join("gone.sock")).unwrap());
    let error = run(directory.path(), "get status").failed(1);
    assert!(error.contains("nobody listens on the control sockets"), "{error}");
    let node = FakeNode::start(directory.path(), "edge-1");
    run(directory.path(), "get status").succeeded();
    assert_eq!(node.requests().len(), 1);
}

#[test]
fn named_sockets_come_before_found_ones() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let found = FakeNode::start(here.path(), "edge-1");
    let named = FakeNode::start(there.path(), "host-1");
    ran(sluice(here.path()).arg("--socket").arg(&named.socket).args(["get", "status"])).succeeded();
    ran(sluice(here.path()).env("SLUICE_SOCKET", &named.socket).args(["get", "status"])).succeeded();
    assert_eq!((found.requests().len(), named.requests().len()), (0, 2));
    // A name on the command line comes before the variable.
    ran(sluice(here.path()).env("SLUICE_SOCKET", &named.socket).args(["--node", "edge-1", "get", "status"]))
        .succeeded();
    assert_eq!((found.requests().len(), named.requests().len()), (1, 2));
    let both = ran(sluice(here.path()).args(["--node", "a", "--socket", "b", "get", "status"]));
    assert_eq!(both.code, Some(2), "{}", both.stderr);
    let path = run(here.path(), "--node ../edge-1 get status").failed(2);
    assert!(path.contains("--socket"), "{path}");
}

#[test]
fn what_the_node_refuses_is_told_in_its_words() {
    let directory = tempfile::tempdir().unwrap();
    let _node = FakeNode::start(directory.path(), "edge-1");
    let error = run(directory.path(), "get route t9").failed(1);
    assert_eq!(error, "error: there is no gateway 't9'; this node has t0, t1\n");
}

#[test]
fn broken_answers_are_told() {
    for (reaction, message) in [
        ("nonsense", "the node's answer could not be read"),
        (r#"{"answer":{"status":{"name":1}}}"#, "use the sluice that came with it"),
        (r#"{"answer":{"weather":"fine"}}"#, "use the sluice that came with it"),
        ("", "the node closed the connection"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let _node = FakeNode::reacting(directory.path(), "edge-1", move |_| {
            if reaction.is_empty() { Reaction::Close } else { Reaction::Line(reaction) }
        });
        let error = run(directory.path(), "get status").failed(1);
        assert!(error.starts_with("error: ") && error.contains(message), "{reaction}: {error}");
    }
    // An answer to another question.
    let directory = tempfile::tempdir().unwrap();
    let _node = FakeNode::reacting(directory.path(), "edge-1", |_| {
        Reaction::Reply(Box::new(Reply::Answer(sluice_control::Answer::Done("Done.".into()))))
    });
    let error = run(directory.path(), "vrf 1 get route").failed(1);
    assert!(error.contains("answered another question"), "{error}");
}

#[test]
fn wrong_usage_is_told_apart_from_failure() {
    let directory = tempfile::tempdir().unwrap();
    let run = |line| run(directory.path(), line);
    assert_eq!(
        run("get dataplan").failed(2),
        "% Command not found: 'get dataplan'; the nearest is 'get dataplane'; 'help' lists the commands\n"
    );
    assert!(run("get status | grep x").failed(2).contains("'| grep x' is no filter"));
    assert!(run("").failed(2).contains("no command is given"));
    assert!(run("set dataplane ring-size rx 1000").failed(2).contains("512, 1024, 2048, 4096"));
    assert!(run("get physical-port fp-eth0").failed(2).contains("Usage:"));
    assert!(run("--help").succeeded().contains("Examples:"));
    assert_eq!(run("version").succeeded(), concat!("sluice ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(run("--version").succeeded(), run("version").succeeded());
}

#[test]
fn who_may_not_use_the_socket_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    std::fs::set_permissions(&node.socket, Permissions::from_mode(0o600)).unwrap();
    let mut command = sluice(directory.path());
    if geteuid().is_root() {
        // Root may use every socket: as nobody then, who has to get at the program and the folder.
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let program = directory.path().join("sluice");
        std::fs::copy(command.get_program(), &program).unwrap();
        let mut other = Command::new(&program);
        other.env("SLUICE_RUN_DIR", directory.path()).env_remove("SLUICE_SOCKET").uid(65_534).gid(65_534);
        command = other;
    } else {
        std::fs::set_permissions(&node.socket, Permissions::from_mode(0o000)).unwrap();
    }
    let error = ran(command.args(["get", "status"])).failed(1);
    assert_eq!(
        error,
        format!(
            "error: this user may not use the control socket {}; run the command as root, or as the user or in the group that the \
             socket belongs to\n",
            node.socket.display()
        )
    );
}
