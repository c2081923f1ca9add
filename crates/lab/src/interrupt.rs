//! SIGINT and SIGTERM to a command that brings a lab up: the lab is taken down before the command ends.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{LabError, Result, While};
use crate::state::StateDirectory;

/// What a signal takes down.
#[derive(Clone, Default)]
pub(crate) struct Interrupts {
    lab: Arc<Mutex<Option<StateDirectory>>>,
    arrived: Arc<AtomicBool>,
}

impl Interrupts {
    /// Watches from a thread of its own, for the rest of the process, which ends with code 128 + signal at the first one.
    pub(crate) fn watch() -> Result<Self> {
        let interrupts = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).doing(|| "watching for signals".into())?;
        let watching = interrupts.clone();
        thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                watching.arrived.store(true, Ordering::SeqCst);
                watching.take_down();
                process::exit(128 + signal);
            }
        });
        Ok(interrupts)
    }

    /// From now on a signal takes this lab down.
    pub(crate) fn guard(&self, lab: &StateDirectory) {
        *self.lab.lock().unwrap_or_else(PoisonError::into_inner) = Some(lab.clone());
    }

    /// From now on a signal takes nothing down.
    pub(crate) fn release(&self) {
        *self.lab.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Never returns once a signal has arrived: what fails from then on fails because the lab is being taken down, and the
    /// watching thread ends the process.
    pub(crate) fn settle(&self) {
        while self.arrived.load(Ordering::SeqCst) {
            thread::park();
        }
    }

    fn take_down(&self) {
        if let Some(lab) = &*self.lab.lock().unwrap_or_else(PoisonError::into_inner) {
            eprintln!("\ninterrupted: taking lab '{}' down", lab.name());
            match lab.tear_down() {
                Ok(_) => eprintln!("{}", LabError::Interrupted),
                Err(error) => eprintln!("{error}"),
            }
        }
    }
}
