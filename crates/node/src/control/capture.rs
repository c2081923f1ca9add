//! Packet captures: workers copy frames into rings, the control thread takes them from there, and a thread of the file writes them as pcap.

mod file;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::TrySendError;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use rtrb::{Consumer, RingBuffer};
use sluice_control::{CaptureDirection, Captured};
use sluice_datapath::counters::Counter;
use sluice_dpdk::cycles;
use sluice_intent::plan::PortIndex;
use tokio::io::AsyncReadExt;

use super::node::Node;
use crate::dataplane::Dataplane;
use crate::worker::{Capture, Captured as Frame, Command, CycleClock};
use file::{Message, Output, Record};

/// Frames that may wait between a worker and the control thread, for each worker.
const RING: usize = 4096;

/// How long a worker may take to let go of a capture: one that is held up has no more to say.
const LET_GO_LIMIT: Duration = Duration::from_secs(1);

/// The running capture, if there is one: each copies frames on the workers, so there is one at a time.
#[derive(Default)]
pub(super) struct Captures {
    running: Option<Running>,
    /// Captures that were begun.
    begun: u64,
}

struct Running {
    number: u64,
    rings: Vec<Consumer<Frame>>,
    missed: Vec<Arc<Counter>>,
    /// None once the capture has ended: the file's thread has the rest.
    output: Option<Output>,
    /// When the workers were told to copy no more: what they have copied by the time that they know is still written.
    ending: Option<Instant>,
    /// A frame that the file's thread had no room for.
    held: Option<Message>,
    file: PathBuf,
    /// Frames on their way to the file.
    taken: u64,
    /// Frames that were captured and had no room at the end.
    left: u64,
    count: u64,
    /// Wall clock at a reading of the time stamp counter.
    epoch: (u64, Duration),
    clock: CycleClock,
}

/// What is to be captured, as in [`sluice_control::Request::StartCapture`].
pub(super) struct Wanted {
    pub(super) interface: String,
    pub(super) file: PathBuf,
    pub(super) count: Option<u64>,
    pub(super) direction: CaptureDirection,
    pub(super) overwrite: bool,
}

/// Captures until as many frames as are wanted are written, or the client closes its connection.
pub(super) async fn run(
    node: &Rc<RefCell<Node>>,
    wanted: Wanted,
    client: &mut (impl tokio::io::AsyncRead + Unpin),
) -> anyhow::Result<Captured> {
    const GONE: &str = "the thread of the capture has ended";
    node.borrow().may_capture(&wanted.interface)?;
    let (output, mut outcome) = file::open(wanted.file.clone(), wanted.overwrite)?;
    outcome.opened.await.context(GONE)??;
    let number = node.borrow_mut().start_capture(wanted, output)?;
    let mut byte = [0];
    let written = tokio::select! {
        written = &mut outcome.written => written,
        // The client closes its side or says anything at all: the capture ends with what it has.
        _ = client.read(&mut byte) => {
            node.borrow_mut().end_capture(number);
            outcome.written.await
        }
    };
    // Where the file cannot be written, its thread ends before the workers were told.
    node.borrow_mut().end_capture(number);
    let running = node.borrow_mut().captures.take(number).context("the capture ended with the data plane")?;
    let frames = written.context(GONE)??;
    let unwritten = if running.taken < running.count { running.left } else { 0 };
    let missed = running.missed.iter().map(|counter| counter.get()).sum::<u64>() + unwritten;
    Ok(Captured { frames, missed, file: running.file.display().to_string() })
}

impl Node {
    /// The port of this name, if a capture may start there.
    fn may_capture(&self, interface: &str) -> anyhow::Result<PortIndex> {
        let known = || self.plan.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
        let number = self.plan.ports.iter().position(|port| port.name == interface);
        if let Some(lag) = self.plan.lags.iter().find(|lag| lag.name == interface) {
            let links: Vec<&str> = lag.ports.iter().map(|port| self.plan.port_name(*port)).collect();
            anyhow::bail!(
                "'{interface}' is a LAG, whose frames are on its links: capture one of {}",
                links.join(", ")
            );
        }
        let number =
            number.with_context(|| format!("there is no port '{interface}'; this node has {}", known()))?;
        if let Some(running) = &self.captures.running {
            anyhow::bail!("a capture to {} is running; end it first", running.file.display());
        }
        Ok(PortIndex(number as u16))
    }

    /// Tells the workers to copy. The number of the capture.
    fn start_capture(&mut self, wanted: Wanted, output: Output) -> anyhow::Result<u64> {
        let Wanted { interface, file, count, direction, .. } = wanted;
        let port = self.may_capture(&interface)?;
        let dataplane = self.dataplane.as_mut().context("the data plane is not running")?;
        // Before any frame is copied.
        let epoch = (cycles(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let (mut rings, mut missed) = (Vec::new(), Vec::new());
        for worker in &mut dataplane.workers {
            let (frames, ring) = RingBuffer::new(RING);
            let lost = Arc::new(Counter::default());
            rings.push(ring);
            missed.push(Arc::clone(&lost));
            worker.command(Command::Capture(Some(Capture {
                port,
                received: direction != CaptureDirection::Output,
                transmitted: direction != CaptureDirection::Input,
                frames,
                missed: lost,
            })));
        }
        // The file has its header from here on: whoever sees that knows that frames are copied.
        drop(output.messages.try_send(Message::Begin));
        self.captures.begun += 1;
        let number = self.captures.begun;
        self.captures.running = Some(Running {
            number,
            rings,
            missed,
            output: Some(output),
            ending: None,
            held: None,
            file,
            taken: 0,
            left: 0,
            count: count.unwrap_or(u64::MAX),
            epoch,
            clock: dataplane.clock,
        });
        Ok(number)
    }

    /// Ends a capture, if it is the one that runs. What was captured so far is still written.
    fn end_capture(&mut self, number: u64) {
        let running = self.captures.running.as_mut().filter(|running| running.number == number);
        if let (Some(running), Some(dataplane)) = (running, &mut self.dataplane) {
            running.end(dataplane);
        }
    }
}

impl Captures {
    /// Takes what the workers have copied since the last call.
    pub(super) fn collect(&mut self, dataplane: &mut Dataplane) {
        let Some(running) = self.running.as_mut().filter(|running| running.output.is_some()) else { return };
        // Before a look at what is left: a worker that has let go copies nothing after it.
        let let_go = running.rings.iter().all(Consumer::is_abandoned);
        let late = running.ending.is_some_and(|since| since.elapsed() > LET_GO_LIMIT);
        if !running.take_waiting() || late || (let_go && running.waiting() == 0) {
            running.end(dataplane);
            running.left = running.waiting();
            running.output = None;
        }
    }

    /// Ends the capture without further ado, before the ports close. What was captured is written.
    pub(super) fn stop(&mut self) {
        if let Some(output) = self.running.take().and_then(|running| running.output) {
            output.close();
        }
    }

    fn take(&mut self, number: u64) -> Option<Running> {
        self.running.take_if(|running| running.number == number)
    }
}

impl Running {
    /// Hands the frames that wait in the rings to the file's thread, as far as it has room. False: there is nothing more to do for it.
    fn take_waiting(&mut self) -> bool {
        let Some(output) = &self.output else { return false };
        loop {
            let Some(message) = self.held.take().or_else(|| {
                let frame = self.rings.iter_mut().find_map(|ring| ring.pop().ok())?;
                let since = self.clock.at(frame.cycles.saturating_sub(self.epoch.0)).as_nanos();
                let at = self.epoch.1 + Duration::from_nanos(since);
                Some(Message::Frame(Record { at, length: frame.length, data: frame.frame.data().to_vec() }))
            }) else {
                return true;
            };
            match output.messages.try_send(message) {
                Ok(()) => self.taken += 1,
                Err(TrySendError::Full(message)) => {
                    self.held = Some(message);
                    return true;
                }
                Err(TrySendError::Disconnected(_)) => return false,
            }
            if self.taken >= self.count {
                return false;
            }
        }
    }

    /// Frames that were copied and are not on their way to the file.
    fn waiting(&self) -> u64 {
        u64::from(self.held.is_some()) + self.rings.iter().map(|ring| ring.slots() as u64).sum::<u64>()
    }

    /// Makes the workers copy no more.
    fn end(&mut self, dataplane: &mut Dataplane) {
        if self.ending.is_none() {
            self.ending = Some(Instant::now());
            dataplane.workers.iter_mut().for_each(|worker| worker.deliver(Command::Capture(None)));
        }
    }
}
