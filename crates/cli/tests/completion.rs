//! Completion scripts: the shells themselves judge whether they are scripts.

mod support;

use std::io::ErrorKind;
use std::process::Command;

use support::run;

/// What a shell says of a script without running it; none where the shell is not installed.
fn judged(shell: &str, script: &std::path::Path) -> Option<bool> {
    match Command::new(shell).arg("-n").arg(script).output() {
        Ok(output) => Some(output.status.success()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{shell}: {error}"),
    }
}

#[test]
fn scripts_are_scripts_and_know_the_commands() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(directory.path(), &format!("completion {shell}")).succeeded();
        for word in ["logical-switches", "flow-cache", "capture", "completion"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let file = directory.path().join(shell);
        std::fs::write(&file, script).unwrap();
        match judged(shell, &file) {
            Some(is_script) => assert!(is_script, "{shell}"),
            None => assert_ne!(shell, "bash", "bash has to be installed for this test"),
        }
    }
    let error = run(directory.path(), "completion tcsh").failed(2);
    assert!(error.contains("bash, zsh, fish"), "{error}");
}

#[test]
fn bash_completes_commands() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("sluice.bash");
    std::fs::write(&script, run(directory.path(), "completion bash").succeeded()).unwrap();
    let program = format!(
        "source {}; COMP_WORDS=(sluice get logi); COMP_CWORD=2; _sluice sluice logi get; echo \"${{COMPREPLY[*]}}\"",
        script.display()
    );
    let output = Command::new("bash").args(["-c", &program]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "logical-switches logical-routers");
}
