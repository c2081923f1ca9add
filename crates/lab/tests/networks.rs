//! Labs of plain Linux nodes, really built, as root and as an ordinary user: what they carry and what their commands say.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{As, PAIR, Runner, text, until, with};

fn carries_traffic(lab: &mut Runner) {
    let name = lab.up("linux", "linux", &[]);
    for (from, to) in [
        ("web-1", "192.0.2.10"),
        ("web-1", "10.10.20.12"),
        ("web-2", "10.10.10.11"),
        ("tester", "10.10.20.11"),
    ] {
        let output = lab.exec(&name, from, &["ping", "-c", "1", "-w", "5", to]);
        assert!(output.status.success(), "{from} to {to}: {}", text(&output));
    }
    for (from, to) in
        [("db-2", "2001:db8:0:2::10"), ("web-1", "2001:db8:10:20::12"), ("tester", "2001:db8:10:10::12")]
    {
        let output = lab.exec(&name, from, &["ping", "-c", "1", "-w", "5", to]);
        assert!(output.status.success(), "{from} to {to}: {}", text(&output));
    }
    let status = lab.status(&name).unwrap();
    assert_eq!((&status["ready"], &status["topology"]), (&true.into(), &"linux".into()));
    assert_eq!(status["nodes"].as_array().unwrap().len(), 10);
    let web = lab.node(&name, "web-1");
    assert_eq!(web["interfaces"][0]["name"], "eth0");
    assert_eq!(web["interfaces"][0]["mac"], "02:00:00:00:0a:0b");
    assert_eq!(web["interfaces"][0]["addresses"][0], "10.10.10.11/24");
    let table = lab.ok(&["status", "--name", &name]);
    assert!(table.contains("tep-hosts mtu 1700") && table.contains("198.51.100.1/30"), "{table}");

    let again = lab.refused(&["up", "--topology", "linux", "--name", &name]);
    assert!(again.contains("is up already"), "{again}");
    let traces = lab.traces(&name);
    assert!(traces.namespaces.len() >= 24 && traces.seen() == traces.namespaces.len());
    assert!(lab.ok(&["down", "--name", &name]).contains("is down"));
    traces.assert_gone();
    assert!(lab.ok(&["down", "--name", &name]).contains("was not up"));
    assert!(lab.refused(&["status", "--name", &name]).contains("is not up"));
}

#[test]
fn carries_traffic_as_root() {
    with(As::Root, carries_traffic);
}

#[test]
fn carries_traffic_as_user() {
    with(As::User, carries_traffic);
}

fn limits(lab: &mut Runner) {
    let file = lab.file("pair.yaml", PAIR);
    let name = lab.up("limits", &file, &[]);
    let ping = |size: &str| {
        lab.exec(&name, "a", &["ping", "-c", "1", "-w", "3", "-M", "do", "-s", size, "192.0.2.2"])
    };
    // 1,400 bytes are 1,372 of data, 8 of ICMP and 20 of IPv4.
    assert!(ping("1372").status.success());
    let refused = ping("1373");
    assert!(!refused.status.success() && text(&refused).contains("1400"), "{}", text(&refused));

    // A busy machine may starve a measurement, but none may exceed the limit, and the best comes near it.
    let mut best: f64 = 0.0;
    for _ in 0..3 {
        let rate = tcp_rate(lab, &name);
        assert!(rate < 1.3e8, "the limit is 100 Mb/s, {rate} bit/s arrived");
        best = best.max(rate);
        if best > 0.5e8 {
            return;
        }
    }
    panic!("the limit is 100 Mb/s, {best} bit/s arrived at best");
}

/// Bits a second from `a` to `b`, measured for two seconds.
fn tcp_rate(lab: &Runner, name: &str) -> f64 {
    let mut server = lab
        .command(&["exec", "--name", name, "b", "--", "iperf3", "--server", "--one-off", "--forceflush"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(server.stdout.take().unwrap());
    let mut lines = output.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("Server listening")), "iperf3 does not listen");
    let client = lab.exec(name, "a", &["iperf3", "--json", "--client", "192.0.2.2", "--time", "2"]);
    let result: Value =
        serde_json::from_slice(&client.stdout).unwrap_or_else(|_| panic!("{}", text(&client)));
    assert!(result.get("error").is_none(), "{result}");
    // The server ends after its one client.
    lines.for_each(drop);
    server.wait().unwrap();
    result["end"]["sum_received"]["bits_per_second"].as_f64().unwrap()
}

#[test]
fn mtu_and_rate_are_kept_as_root() {
    with(As::Root, limits);
}

#[test]
fn mtu_and_rate_are_kept_as_user() {
    with(As::User, limits);
}

fn programs(lab: &mut Runner) {
    let file = lab.file("pair.yaml", PAIR);
    let name = lab.up("exec", &file, &[]);
    for code in [0, 1, 7, 255] {
        let output = lab.exec(&name, "a", &["sh", "-c", &format!("exit {code}")]);
        assert_eq!(output.status.code(), Some(code));
    }
    assert_eq!(lab.exec(&name, "a", &["sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    // Options of the program are its own.
    let output = lab.exec(&name, "a", &["echo", "--name", "-x"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--name -x\n");
    assert_eq!(lab.exec(&name, "a", &["pwd"]).stdout, b"/\n");
    // The node's own interfaces, also in /sys, and its own processes.
    assert_eq!(lab.exec(&name, "a", &["ls", "/sys/class/net"]).stdout, b"eth0\nlo\n");

    let mut child = lab
        .command(&["exec", "--name", &name, "b", "--", "tr", "a-z", "A-Z"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"through and through").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"THROUGH AND THROUGH");

    assert!(lab.refused(&["exec", "--name", &name, "c", "--", "true"]).contains("its nodes are a, b"));
    assert!(
        lab.refused(&["exec", "--name", &name, "a", "--", "no-such-program"])
            .contains("starting no-such-program")
    );
    assert!(lab.refused(&["exec", "--name", "not-there", "a", "--", "true"]).contains("is not up"));
}

#[test]
fn programs_run_in_nodes_as_root() {
    with(As::Root, programs);
}

#[test]
fn programs_run_in_nodes_as_user() {
    with(As::User, programs);
}

fn termination(lab: &mut Runner) {
    let file = lab.file("pair.yaml", PAIR);
    let name = lab.up("signal", &file, &[]);
    let ready = lab.directory().join("ready");
    let script = format!("trap 'exit 42' TERM; touch {}; while :; do sleep 0.05; done", ready.display());
    let mut child = lab.command(&["exec", "--name", &name, "a", "--", "sh", "-c", &script]).spawn().unwrap();
    until("the trap", || ready.exists());
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(42));

    // And a program that still runs does not outlive the lab.
    let begun = lab.directory().join("begun");
    let script = format!("touch {}; exec sleep 600", begun.display());
    let mut child = lab.command(&["exec", "--name", &name, "a", "--", "sh", "-c", &script]).spawn().unwrap();
    until("the program", || begun.exists());
    lab.ok(&["down", "--name", &name]);
    assert_eq!(child.wait().unwrap().code(), Some(137));
}

#[test]
fn sigterm_reaches_the_program_as_root() {
    with(As::Root, termination);
}

#[test]
fn sigterm_reaches_the_program_as_user() {
    with(As::User, termination);
}

fn links(lab: &mut Runner) {
    let file = lab.file("pair.yaml", PAIR);
    let name = lab.up("link", &file, &[]);
    // The kernel may take a second to tell that a link has its carrier again.
    let reaches =
        |seconds| lab.exec(&name, "a", &["ping", "-c", "1", "-w", seconds, "192.0.2.2"]).status.success();
    assert!(reaches("5"));
    lab.ok(&["link", "--name", &name, "b", "eth0", "down"]);
    assert_eq!(lab.node(&name, "b")["interfaces"][0]["up"], false);
    assert!(!reaches("1"));
    lab.ok(&["link", "--name", &name, "b", "eth0", "up"]);
    assert!(reaches("5"));
    let refused = lab.refused(&["link", "--name", &name, "b", "eth9", "down"]);
    assert_eq!(refused, "node 'b' has no interface 'eth9'; its interfaces are eth0\n");
}

#[test]
fn links_go_down_and_up_as_root() {
    with(As::Root, links);
}

#[test]
fn links_go_down_and_up_as_user() {
    with(As::User, links);
}

/// Addresses and routes of a node, one a line. Link-local ones are the kernel's own matter.
fn addressing(lab: &Runner, name: &str, node: &str) -> Vec<String> {
    let script = "ip -oneline address show; ip route show; ip -6 route show";
    let output = lab.exec(name, node, &["sh", "-c", script]);
    assert!(output.status.success(), "{}", text(&output));
    // The state of a link follows it a moment later.
    let line = |line: &str| line.replace(" linkdown", "").trim().to_string();
    let output = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<_> = output.lines().filter(|line| !line.contains("fe80::")).map(line).collect();
    lines.sort();
    lines
}

fn links_come_back_whole(lab: &mut Runner) {
    let name = lab.up("whole", "linux", &[]);
    let link = |node: &str, interface: &str, state: &str| {
        lab.ok(&["link", "--name", &name, node, interface, state]);
    };
    for (node, interface, lost) in [
        ("tor", "uplink", ["10.10.0.0/16", "2001:db8:10::/48", "2001:db8:0:100::1/64"]),
        (
            "web-1",
            "eth0",
            ["default via 10.10.10.1", "default via 2001:db8:10:10::1", "2001:db8:10:10::11/64"],
        ),
    ] {
        let before = addressing(lab, &name, node);
        link(node, interface, "down");
        let meanwhile = addressing(lab, &name, node).join("\n");
        let whole = before.join("\n");
        for lost in lost {
            assert!(
                whole.contains(lost) && !meanwhile.contains(lost),
                "{lost} in {whole}\nand then\n{meanwhile}"
            );
        }
        link(node, interface, "up");
        assert_eq!(addressing(lab, &name, node), before);
        // Nothing is there twice after another one.
        link(node, interface, "up");
        assert_eq!(addressing(lab, &name, node), before);
    }
    // Both ends of a link, of which the first comes up without a carrier.
    let before = addressing(lab, &name, "tor");
    for state in ["down", "up"] {
        link("tor", "uplink", state);
        link("edge-1", "fp-eth1", state);
    }
    assert_eq!(addressing(lab, &name, "tor"), before);
    for (from, to) in
        [("tester", "10.10.20.12"), ("tester", "2001:db8:10:10::11"), ("web-1", "2001:db8:0:2::10")]
    {
        // The kernel may take a second to tell that a link has its carrier again.
        let output = lab.exec(&name, from, &["ping", "-c", "1", "-w", "5", to]);
        assert!(output.status.success(), "{from} to {to}: {}", text(&output));
    }
}

#[test]
fn links_come_back_with_their_addresses_and_routes_as_root() {
    with(As::Root, links_come_back_whole);
}

#[test]
fn links_come_back_with_their_addresses_and_routes_as_user() {
    with(As::User, links_come_back_whole);
}

fn next_steps(lab: &mut Runner) {
    let name = lab.name("steps");
    let told = lab.ok(&["up", "--topology", "linux", "--name", &name]);
    let lines: Vec<_> = told.lines().skip_while(|line| *line != "try:").skip(1).collect();
    assert_eq!(lines.len(), 3, "{told}");
    assert!(
        lines[0].contains(" lab exec ") && lines[0].ends_with(" web-1 -- ping -c 3 192.0.2.10"),
        "{told}"
    );
    for line in lines {
        let mut command = lab.command(&[]);
        // What is told begins with the program as it was called, and other labs may be up meanwhile.
        let words: Vec<_> = line.split_whitespace().skip(2).collect();
        command.args(&words[..1]);
        if !line.contains("--name") {
            command.args(["--name", &name]);
        }
        let output = command.args(&words[1..]).output().unwrap();
        assert!(output.status.success(), "{line}: {}", text(&output));
    }
    assert!(lab.refused(&["status", "--name", &name]).contains("is not up"));
}

/// Who reads no further than the first line gets no complaint.
fn closed_output(lab: &mut Runner) {
    let file = lab.file("pair.yaml", PAIR);
    let name = lab.name("closed");
    for arguments in [&["up", "--topology", &file, "--name", &name][..], &["status", "--name", &name]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = lab.command(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = output.wait_with_output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        // Steps are told there; an error would begin so.
        assert!(output.status.success() && !complaint.contains("error"), "{arguments:?}: {}", text(&output));
    }
}

#[test]
fn output_that_nobody_reads_is_no_error() {
    with(As::Root, closed_output);
}

#[test]
fn commands_that_up_suggests_work() {
    with(As::Root, next_steps);
}

fn two_at_once(lab: &mut Runner) {
    let file = lab.file("pair.yaml", PAIR);
    let first = lab.up("first", &file, &[]);
    let second = lab.up("second", &file, &[]);
    let (one, two) = (lab.traces(&first), lab.traces(&second));
    let shared: Vec<_> = one.namespaces.intersection(&two.namespaces).collect();
    assert!(shared.is_empty(), "{shared:?}");
    lab.ok(&["down", "--name", &first]);
    one.assert_gone();
    assert!(lab.exec(&second, "a", &["ping", "-c", "1", "-w", "3", "2001:db8::2"]).status.success());
    lab.ok(&["down", "--name", &second]);
    two.assert_gone();
}

#[test]
fn two_labs_coexist_as_root() {
    with(As::Root, two_at_once);
}

#[test]
fn two_labs_coexist_as_user() {
    with(As::User, two_at_once);
}

fn bad_documents(lab: &mut Runner) {
    let file = lab.file(
        "bad.yaml",
        &PAIR.replace("mtu: 1400", "mtu: 60").replace("name: b", "name: b\n    colour: red"),
    );
    let error = lab.refused(&["up", "--topology", &file]);
    assert!(
        error.contains("has 2 problem(s)") && error.contains("'colour'") && error.contains("at least 68"),
        "{error}"
    );
    assert!(lab.refused(&["up", "--topology", "nowhere"]).contains("give one of demo, linux"));
    assert!(lab.refused(&["up", "--topology", "linux", "--name", "../x"]).contains("cannot name a lab"));

    // What only the kernel refuses leaves nothing, and the message says where.
    let file = lab.file(
        "late.yaml",
        &PAIR.replace("name: a\n", "name: a\n    sysctls: {net.ipv4.no_such_parameter: 1}\n"),
    );
    let name = lab.name("late");
    let error = lab.refused(&["up", "--topology", &file, "--name", &name]);
    assert!(error.contains("node a: setting net.ipv4.no_such_parameter"), "{error}");
    assert!(!lab.state(&name).exists());
}

#[test]
fn bad_documents_are_refused_and_leave_nothing() {
    with(As::Root, bad_documents);
}

#[test]
fn bad_documents_are_refused_and_leave_nothing_as_user() {
    with(As::User, bad_documents);
}
