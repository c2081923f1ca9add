//! EAL's and the drivers' log: kept out of stdout, handed to the program's own log when it asks, and quoted in errors.

use std::collections::VecDeque;
use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::ffi;

/// How many of the latest lines are kept to explain an error.
const KEPT_LINES: usize = 16;

/// What receives the log: one line a call, from any thread.
pub type LogSink = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

static SINK: OnceLock<LogSink> = OnceLock::new();
static RECENT: Mutex<VecDeque<(LogLevel, String)>> = Mutex::new(VecDeque::new());

/// Severity of a log line, as in syslog (RFC 5424, section 6.2.1), most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed for good.
    Error,
    /// Something is not as it should be.
    Warning,
    /// A normal event of note.
    Notice,
    /// For information.
    Info,
    /// For debugging drivers.
    Debug,
}

impl LogLevel {
    /// DPDK's number: 1 emergency to 4 error, then 5 warning to 8 debug.
    pub(crate) fn to_dpdk(self) -> u32 {
        match self {
            Self::Error => 4,
            Self::Warning => 5,
            Self::Notice => 6,
            Self::Info => 7,
            Self::Debug => 8,
        }
    }

    fn from_dpdk(level: u32) -> Self {
        match level {
            0..=4 => Self::Error,
            5 => Self::Warning,
            6 => Self::Notice,
            7 => Self::Info,
            _ => Self::Debug,
        }
    }
}

/// Sends the log to `sink` (nowhere without one) from now on. Called once, before the EAL starts.
pub(crate) fn open(level: LogLevel, sink: Option<LogSink>) {
    if let Some(sink) = sink {
        // The EAL starts once, so that the cell is empty; a second sink would be ignored.
        let _ = SINK.set(sink);
    }
    // Errors and warnings are needed to explain failures even when the program wants fewer.
    let level = level.max(LogLevel::Warning);
    // SAFETY: `line` is a function of the signature that the shim declares and lives as long as the process.
    let result = unsafe { ffi::sluice_log_open(line, level.to_dpdk()) };
    debug_assert_eq!(result, 0, "a log stream needs a few bytes of memory");
}

/// Forgets the lines so far, so that [`explain`] finds only what the next operation says.
pub(crate) fn forget() {
    recent().clear();
}

/// The most telling line since [`forget`]: the first error, else the first warning, else the text of the errno.
pub(crate) fn explain(errno: i32) -> String {
    let lines = recent();
    let first =
        |wanted: LogLevel| lines.iter().find(|(level, _)| *level == wanted).map(|(_, text)| text.clone());
    first(LogLevel::Error)
        .or_else(|| first(LogLevel::Warning))
        .unwrap_or_else(|| std::io::Error::from_raw_os_error(errno.abs()).to_string())
}

fn recent() -> MutexGuard<'static, VecDeque<(LogLevel, String)>> {
    RECENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says something that no driver of DPDK's says.
pub(crate) fn tell(level: LogLevel, text: &str) {
    if let Some(sink) = SINK.get() {
        sink(level, text);
    }
}

extern "C" fn line(level: u32, text: *const c_char, length: usize) {
    // SAFETY: the shim passes a text of `length` bytes that lives during this call.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    let level = LogLevel::from_dpdk(level);
    let text = String::from_utf8_lossy(bytes);
    for text in text.lines().map(str::trim).filter(|text| !text.is_empty()) {
        if level <= LogLevel::Warning {
            let mut lines = recent();
            if lines.len() == KEPT_LINES {
                lines.pop_front();
            }
            lines.push_back((level, text.to_owned()));
        }
        if let Some(sink) = SINK.get() {
            sink(level, text);
        }
    }
}
