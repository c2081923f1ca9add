//! The scripted demonstration, on networks that carry everything and on networks that do not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{As, PAIR, PAIR_DEMONSTRATION, Runner, text, until, with};

fn whole(lab: &mut Runner) {
    let name = lab.name("demo");
    let output = lab.lab(&["demo", "--topology", "linux", "--name", &name, "--seconds", "1"]);
    let table = text(&output);
    assert!(output.status.success() && !table.contains('✗'), "{table}");
    // Fourteen pairs, two routes, six measurements, and the capture where it can be judged.
    let passed = table.matches('✓').count();
    let judged = !table.contains("tshark is not installed");
    assert_eq!(passed, 22 + usize::from(judged), "{table}");
    assert!(table.contains("10.10.10.1 → 198.51.100.1 → 192.0.2.10"), "{table}");
    assert!(!judged || table.contains("VXLAN frames, virtual networks {5001, 5002}"), "{table}");
    assert!(!lab.state(&name).exists());
}

#[test]
fn passes_on_the_linux_topology_as_root() {
    with(As::Root, whole);
}

#[test]
fn passes_on_the_linux_topology_as_user() {
    with(As::User, whole);
}

#[test]
fn every_failed_check_fails_it_and_the_lab_goes_down() {
    with(As::Root, |lab| {
        let right = format!("{PAIR}{PAIR_DEMONSTRATION}");
        let cases = [
            (right.clone(), None),
            (
                right.replace("192.0.2.2, \"2001", "192.0.2.9, \"2001"),
                Some("192.0.2.2 where tester was expected"),
            ),
            // One family is not enough.
            (
                right.replace("[192.0.2.2/24, \"2001:db8::2/64\"]", "[192.0.2.2/24]"),
                Some("b has no IPv6 address"),
            ),
            (
                right.replace("[192.0.2.2/24, \"2001:db8::2/64\"]", "[192.0.2.2/24, \"2001:db8:1::2/64\"]"),
                Some("2001:db8:1::2 did not answer"),
            ),
        ];
        for (document, problem) in cases {
            let file = lab.file("demonstrated.yaml", &document);
            let name = lab.name("fails");
            let output = lab.lab(&["demo", "--topology", &file, "--name", &name]);
            let table = text(&output);
            assert_eq!(output.status.success(), problem.is_none(), "{table}");
            assert_eq!(table.contains('✗'), problem.is_some(), "{table}");
            assert!(table.contains(problem.unwrap_or("0 failed")), "{table}");
            assert!(!lab.state(&name).exists());
        }
        assert!(
            lab.refused(&["demo", "--topology", &lab.file("plain.yaml", PAIR)])
                .contains("has no demonstration")
        );
    });
}

fn interrupted(lab: &mut Runner) {
    let name = lab.name("interrupt");
    let mut demo = lab.command(&["demo", "--topology", "linux", "--name", &name]);
    let mut demo = demo.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the lab", || lab.status(&name).is_some_and(|status| status["ready"] == true));
    let traces = lab.traces(&name);
    kill(Pid::from_raw(demo.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    traces.assert_gone_soon();
}

#[test]
fn interrupted_demonstration_takes_the_lab_down_as_root() {
    with(As::Root, interrupted);
}

#[test]
fn interrupted_demonstration_takes_the_lab_down_as_user() {
    with(As::User, interrupted);
}
