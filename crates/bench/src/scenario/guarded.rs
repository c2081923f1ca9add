//! Labs that go down with the bench, whatever ends it: on the ways out that there are in Rust because a value is dropped, and otherwise by
//! a process that waits for the end of a pipe.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sluice_lab::Lab;

use crate::command::ENDS;
use crate::error::{Result, While};

/// Takes a lab down when it is dropped, and even if it never is.
pub(super) struct Guarded {
    lab: String,
    guard: Child,
}

impl Guarded {
    /// For a lab of this name, which is brought up then. `program` is this program.
    pub(super) fn new(lab: String, program: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["bench", ENDS, "guard", &lab]);
        // Of its own group, so that Ctrl-C ends the bench and not the guard.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let guard = command.spawn().during(|| format!("starting {}", program.display()))?;
        Ok(Self { lab, guard })
    }

    /// Name of the lab.
    pub(super) fn lab(&self) -> &str {
        &self.lab
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Err(error) = Lab::down(&self.lab) {
            eprintln!("{error}");
        }
        // Its input ends; there is nothing left to be taken down.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}
