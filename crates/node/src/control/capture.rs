//! Packet captures: workers copy frames into rings, the control thread writes them to a pcap file.

use std::cell::RefCell;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, TsResolution};
use rtrb::{Consumer, RingBuffer};
use sluice_control::{CaptureDirection, Captured};
use sluice_datapath::counters::Counter;
use sluice_dpdk::cycles;
use sluice_intent::plan::PortIndex;
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;

use super::node::Node;
use crate::dataplane::Dataplane;
use crate::worker::{Capture, Captured as Frame, Command, CycleClock};

/// Frames that may wait between a worker and the file, for each worker.
const RING: usize = 4096;

/// The running capture, if there is one: each copies frames on the workers, so there is one at a time.
#[derive(Default)]
pub(super) struct Captures(Option<Running>);

struct Running {
    rings: Vec<Consumer<Frame>>,
    missed: Vec<Arc<Counter>>,
    writer: PcapWriter<BufWriter<File>>,
    file: PathBuf,
    written: u64,
    count: u64,
    /// Wall clock at a reading of the time stamp counter.
    epoch: (u64, Duration),
    clock: CycleClock,
    done: Option<oneshot::Sender<anyhow::Result<Captured>>>,
}

/// Captures until `count` frames are written or the client closes its connection.
pub(super) async fn run(
    node: &Rc<RefCell<Node>>,
    interface: &str,
    file: PathBuf,
    count: Option<u64>,
    direction: CaptureDirection,
    client: &mut (impl tokio::io::AsyncRead + Unpin),
) -> anyhow::Result<Captured> {
    let done = node.borrow_mut().start_capture(interface, file, count, direction)?;
    let mut byte = [0];
    tokio::select! {
        result = done => result.context("the capture ended with the data plane")?,
        // The client closes its side or says anything at all: the capture ends with what it has.
        _ = client.read(&mut byte) => node.borrow_mut().finish_capture(),
    }
}

impl Node {
    fn start_capture(
        &mut self,
        interface: &str,
        file: PathBuf,
        count: Option<u64>,
        direction: CaptureDirection,
    ) -> anyhow::Result<oneshot::Receiver<anyhow::Result<Captured>>> {
        let known = || self.plan.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
        let number = self.plan.ports.iter().position(|port| port.name == interface);
        let number =
            number.with_context(|| format!("there is no port '{interface}'; this node has {}", known()))?;
        if let Some(running) = &self.captures.0 {
            anyhow::bail!("a capture to {} is running; end it first", running.file.display());
        }
        let dataplane = self.dataplane.as_mut().context("the data plane is not running")?;
        let created = File::create(&file).with_context(|| {
            format!("{} cannot be written; name a file that the node may create", file.display())
        })?;
        let header = PcapHeader {
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            snaplen: u32::from(u16::MAX),
            ..PcapHeader::default()
        };
        let writer = PcapWriter::with_header(BufWriter::new(created), header)
            .with_context(|| format!("{} cannot be written", file.display()))?;
        let (mut rings, mut missed) = (Vec::new(), Vec::new());
        for worker in &mut dataplane.workers {
            let (frames, ring) = RingBuffer::new(RING);
            let lost = Arc::new(Counter::default());
            rings.push(ring);
            missed.push(Arc::clone(&lost));
            worker.command(Command::Capture(Some(Capture {
                port: PortIndex(number as u16),
                received: direction != CaptureDirection::Output,
                transmitted: direction != CaptureDirection::Input,
                frames,
                missed: lost,
            })));
        }
        let (done, finished) = oneshot::channel();
        self.captures.0 = Some(Running {
            rings,
            missed,
            writer,
            file,
            written: 0,
            count: count.unwrap_or(u64::MAX),
            epoch: (cycles(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
            clock: dataplane.clock,
            done: Some(done),
        });
        Ok(finished)
    }

    fn finish_capture(&mut self) -> anyhow::Result<Captured> {
        let dataplane = self.dataplane.as_mut().context("the data plane is not running")?;
        let mut running = self.captures.0.take().context("the capture has ended already")?;
        end_copies(dataplane);
        running.write_waiting()?;
        running.finish()
    }
}

fn end_copies(dataplane: &mut Dataplane) {
    for worker in &mut dataplane.workers {
        worker.command(Command::Capture(None));
    }
}

impl Captures {
    /// Writes what the workers have copied since the last call.
    pub(super) fn collect(&mut self, dataplane: &mut Dataplane) {
        let Some(running) = &mut self.0 else { return };
        let result = running.write_waiting();
        if result.is_ok() && running.written < running.count {
            return;
        }
        end_copies(dataplane);
        if let Some(mut running) = self.0.take() {
            let done = running.done.take();
            let result = result.and_then(|()| running.finish());
            if let Some(done) = done {
                // Nobody waits any more if the client went away.
                drop(done.send(result));
            }
        }
    }

    /// Ends the capture without further ado, before the ports close.
    pub(super) fn stop(&mut self) {
        self.0 = None;
    }
}

impl Running {
    fn write_waiting(&mut self) -> anyhow::Result<()> {
        let Self { rings, writer, written, count, epoch, clock, file, .. } = self;
        for ring in rings {
            while *written < *count
                && let Ok(frame) = ring.pop()
            {
                let since = clock.at(frame.cycles.wrapping_sub(epoch.0)).as_nanos();
                let timestamp = epoch.1 + Duration::from_nanos(since);
                let packet = PcapPacket::new(timestamp, frame.length, frame.frame.data());
                writer
                    .write_packet(&packet)
                    .with_context(|| format!("{} cannot be written", file.display()))?;
                *written += 1;
            }
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<Captured> {
        let missed = self.missed.iter().map(|counter| counter.get()).sum();
        let file = self.file.display().to_string();
        let mut inner = self.writer.into_writer();
        std::io::Write::flush(&mut inner).with_context(|| format!("{file} cannot be written"))?;
        Ok(Captured { frames: self.written, missed, file })
    }
}
