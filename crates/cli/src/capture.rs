//! `start capture`: waits until the node has the frames or the user has seen enough.
//!
//! Ctrl-C closes the sending side of the connection; the node then ends the capture and answers with the count. A second Ctrl-C
//! gives up waiting for that.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::{io, process, thread};

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sluice_control::{Answer, Request, RequestsEnd};

use crate::error::CliError;
use crate::target::Target;

/// The capture that a signal ends; none while nothing is captured.
static RUNNING: Mutex<Option<RequestsEnd>> = Mutex::new(None);

pub(crate) fn capture(request: &Request, target: &Target) -> Result<Answer, CliError> {
    let mut client = target.connect()?;
    let end = client.requests_end().map_err(|source| CliError::system("cannot watch the capture", source))?;
    set_running(Some(end));
    watch_signals().map_err(|source| CliError::system("cannot watch for Ctrl-C", source))?;
    let spinner = spinner();
    let answer = client.ask(request);
    spinner.finish_and_clear();
    set_running(None);
    Ok(answer?)
}

fn set_running(end: Option<RequestsEnd>) {
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = end;
}

/// From the first capture on, for the rest of the process: a signal ends the capture that runs, otherwise the process.
fn watch_signals() -> io::Result<()> {
    static WATCHED: OnceLock<()> = OnceLock::new();
    if WATCHED.get().is_some() {
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).take();
            if running.is_none_or(|end| end.close().is_err()) {
                process::exit(128 + signal);
            }
        }
    });
    WATCHED.get_or_init(|| ());
    Ok(())
}

/// The running time, on standard error; nothing where that is no terminal.
fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} capturing for {elapsed}; Ctrl-C ends it")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let spinner = ProgressBar::new_spinner().with_style(style);
    spinner.enable_steady_tick(Duration::from_millis(200));
    spinner
}
