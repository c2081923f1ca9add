//! `sluice lab exec`: a program in the namespaces of a node, with the caller's terminal, standard streams and exit code.
//!
//! The calling process enters the node and starts the program as its child. It has one thread throughout: a process with
//! several may not enter a user namespace, and may start no thread once its children belong to another PID namespace.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::error::{LabError, Result, While};
use crate::lab::Lab;
use crate::namespaces;
use crate::state::Status;

/// Runs a program in a node; its exit code, 128 + signal when a signal ended it.
///
/// # Errors
/// [`LabError::NotUp`], [`LabError::UnknownNode`], and [`LabError::System`] when the node cannot be entered (the process has
/// several threads, or is not the one who brought the lab up) or the program not started.
pub(crate) fn run(lab: &Lab, node: &str, program: &[String]) -> Result<u8> {
    lab.node(node)?;
    let not_up = || LabError::NotUp(lab.name().into());
    let init = lab.state().init().ok_or_else(not_up)?;
    let status: Status = lab.state().read("status.json").ok_or_else(not_up)?;
    namespaces::enter_from_outside(init, *status.namespaces.get(node).ok_or_else(not_up)?)?;
    let Some((name, arguments)) = program.split_first() else {
        return Err(LabError::Step("there is no program to run".into()));
    };
    let child =
        Command::new(name).args(arguments).spawn().doing(|| format!("starting {name} in node {node}"))?;
    let status = wait(child)?;
    Ok(exit_code(status))
}

/// Waits for the child. Signals of the terminal reach it by themselves and leave this process alone; a SIGTERM or SIGHUP to
/// this process alone is passed on.
fn wait(mut child: Child) -> Result<ExitStatus> {
    let what = || "waiting for the program".to_string();
    let pid = Pid::from_raw(child.id().cast_signed());
    let pidfd = rustix::process::Pid::from_raw(pid.as_raw())
        .ok_or_else(|| LabError::Step("the program has no pid".into()))?;
    let pidfd = pidfd_open(pidfd, PidfdFlags::empty()).doing(what)?;
    let mut pipes = Vec::new();
    for (signal, passed_on) in
        [(SIGINT, None), (SIGQUIT, None), (SIGTERM, Some(Signal::SIGTERM)), (SIGHUP, Some(Signal::SIGHUP))]
    {
        let (receiver, sender) = UnixStream::pair().doing(what)?;
        pipe::register(signal, sender).doing(what)?;
        pipes.push((receiver, passed_on));
    }
    loop {
        let mut watched = vec![PollFd::new(&pidfd, PollFlags::IN)];
        watched.extend(
            pipes.iter().map(|(receiver, _)| PollFd::from_borrowed_fd(receiver.as_fd(), PollFlags::IN)),
        );
        match poll(&mut watched, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error).doing(what),
        }
        let ready: Vec<_> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] {
            return child.wait().doing(what);
        }
        for ((receiver, passed_on), _) in pipes.iter_mut().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            receiver.read(&mut [0; 64]).doing(what)?;
            if let Some(signal) = passed_on {
                // Not waited for yet, so the pid is still the child's.
                let _ = kill(pid, *signal);
            }
        }
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    u8::try_from(code).unwrap_or(255)
}
