//! Which node is asked, and what is said when it does not answer as it should.

mod support;

use std::os::unix::net::UnixListener;

use sluice_control::Reply;
use support::{FakeNode, Reaction, ran, run, sluice};

#[test]
fn without_a_node_it_says_how_to_start_one() {
    let directory = tempfile::tempdir().unwrap();
    let error = run(directory.path(), "get status").failed(1);
    assert_eq!(
        error,
        format!(
            "error: no node runs here: there is no control socket in {}; start one with 'sluiced --config FILE', or name a \
             socket with --socket ('sluice lab status' lists those of a lab)\n",
            directory.path().display()
        )
    );
    // The directory itself may not be there either.
    let error = run(&directory.path().join("nowhere"), "get status").failed(1);
    assert!(error.contains("no node runs here"), "{error}");
    let error = run(directory.path(), "--node edge-1 get status").failed(1);
    assert!(error.contains("no node answers on") && error.contains("edge-1.sock"), "{error}");
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
    drop(UnixListener::bind(directory.path().join("dead.sock")).unwrap());
    drop(UnixListener::bind(directory.path().join("gone.sock")).unwrap());
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
    assert_eq!(error, "error: there is no gateway 't9'; there are t0 and t1\n");
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
