//! What init tells the process that brings the lab up: one JSON object a line, on init's standard output.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::error::{Result, While};

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Event {
    /// A step begins.
    Step {
        /// What is being done.
        what: String,
    },
    /// Everything is built; nothing follows.
    Ready,
    /// The lab could not be built; nothing follows.
    Failed {
        /// Why, in one sentence, with the last lines of a log where there is one.
        why: String,
    },
}

impl Event {
    /// Tells it. The reader is gone when this fails, and with it the one who wants the lab.
    pub(crate) fn tell(&self) -> Result<()> {
        let mut line =
            serde_json::to_vec(self).map_err(io::Error::from).doing(|| "writing an event".into())?;
        line.push(b'\n');
        io::stdout()
            .write_all(&line)
            .and_then(|()| io::stdout().flush())
            .doing(|| "telling `up` of progress".into())
    }
}
