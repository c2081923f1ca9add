//! The file of a capture, written on a thread of its own: whatever holds it up, a slow disk or a pipe that nobody reads, does not hold up the
//! control thread.

use std::cell::RefCell;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel, sync_channel};
use std::time::Duration;

use anyhow::Context;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, TsResolution};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::oneshot;

/// Frames that may wait for the file.
const WAITING: usize = 4096;
/// How long a pipe may take nothing once the capture has ended.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the file's thread is told.
pub(super) enum Message {
    /// The capture has begun.
    Begin,
    /// A frame was captured.
    Frame(Record),
}

/// A captured frame.
pub(super) struct Record {
    /// Since the Unix epoch.
    pub(super) at: Duration,
    /// Bytes of the frame as it was.
    pub(super) length: u32,
    pub(super) data: Vec<u8>,
}

/// The control thread's side of the file. The capture ends when it is dropped: what was sent is written then.
pub(super) struct Output {
    pub(super) messages: SyncSender<Message>,
    /// Closed with the rest: from then on the file is not waited for without a limit.
    _patience: UnixStream,
    ended: Receiver<()>,
}

/// What the file's thread has to say: whether it could be opened, and how many frames were written in the end.
pub(super) struct Outcome {
    pub(super) opened: oneshot::Receiver<anyhow::Result<()>>,
    pub(super) written: oneshot::Receiver<anyhow::Result<u64>>,
}

/// Opens a file to write frames to; one that is not empty only to overwrite it.
pub(super) fn open(path: PathBuf, overwrite: bool) -> anyhow::Result<(Output, Outcome)> {
    let (messages, waiting) = sync_channel(WAITING);
    let (patience, closed) = UnixStream::pair().context("there is no file descriptor for a capture")?;
    let (end, ended) = channel();
    let (say_opened, opened) = oneshot::channel();
    let (say_written, written) = oneshot::channel();
    let thread = move || {
        // Dropped when the thread ends, which is all that it is for.
        let _end = end;
        let (said, file) = match create(&path, overwrite) {
            Ok(file) => (Ok(()), Some(file)),
            Err(error) => (Err(error), None),
        };
        // Nobody hears either of these any more if the client went away.
        drop(say_opened.send(said));
        if let Some(file) = file {
            let target = Target { file, closed, given_up: false };
            let written = write(target, &waiting);
            drop(say_written.send(written.with_context(|| format!("{} cannot be written", path.display()))));
        }
    };
    std::thread::Builder::new()
        .name("capture".to_owned())
        .spawn(thread)
        .context("no thread for a capture")?;
    Ok((Output { messages, _patience: patience, ended }, Outcome { opened, written }))
}

impl Output {
    /// Ends the capture and waits until everything is written, as far as somebody takes it.
    pub(super) fn close(self) {
        let Self { messages, _patience, ended } = self;
        drop((messages, _patience));
        // The thread says nothing here but that it is gone.
        let _ = ended.recv_timeout(PATIENCE);
    }
}

/// Creates a file, or opens an empty one or a pipe. Whatever else is there is left alone, but for a file that is to be overwritten.
fn create(path: &Path, overwrite: bool) -> anyhow::Result<File> {
    let cannot = || format!("{} cannot be written; name a file that the node may create", path.display());
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
    match std::fs::metadata(path) {
        Ok(found) => check(path, &found, overwrite)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            options.create_new(true);
        }
        Err(error) => return Err(error).with_context(cannot),
    }
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(errno) if errno == Errno::ENXIO as i32 => {
            anyhow::anyhow!("nobody reads the pipe {}; start its reader first", path.display())
        }
        _ => anyhow::Error::new(error).context(cannot()),
    })?;
    // What is there may have changed in between.
    let found = file.metadata().with_context(cannot)?;
    check(path, &found, overwrite)?;
    if found.is_file() {
        file.set_len(0).with_context(cannot)?;
    }
    Ok(file)
}

fn check(path: &Path, found: &Metadata, overwrite: bool) -> anyhow::Result<()> {
    if found.file_type().is_fifo() || found.is_file() && (overwrite || found.len() == 0) {
        return Ok(());
    }
    let path = path.display();
    if found.is_file() {
        anyhow::bail!(
            "{path} exists and is not empty, so it is left alone; name another file, or say that it is to be overwritten"
        );
    }
    anyhow::bail!("{path} is neither a file nor a pipe; name a file that the node may create")
}

/// Writes frames until there will be no more of them; how many there were. What is written is flushed whenever nothing waits.
fn write(target: Target, messages: &Receiver<Message>) -> anyhow::Result<u64> {
    let Ok(Message::Begin) = messages.recv() else { return Ok(0) };
    let header = PcapHeader {
        datalink: DataLink::ETHERNET,
        ts_resolution: TsResolution::NanoSecond,
        snaplen: u32::from(u16::MAX),
        ..PcapHeader::default()
    };
    let target = RefCell::new(BufWriter::new(target));
    let mut writer = PcapWriter::with_header(Shared(&target), header)?;
    let mut written = 0;
    loop {
        let message = match messages.try_recv() {
            Ok(message) => Some(message),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                target.borrow_mut().flush()?;
                messages.recv().ok()
            }
        };
        match message {
            Some(Message::Frame(Record { at, length, data })) => {
                writer.write_packet(&PcapPacket::new(at, length, &data))?;
                written += 1;
            }
            Some(Message::Begin) => {}
            None => {
                target.borrow_mut().flush()?;
                return Ok(written);
            }
        }
    }
}

/// The buffered file, which its writer as pcap does not flush.
struct Shared<'a>(&'a RefCell<BufWriter<Target>>);

impl Write for Shared<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

/// A file that is not waited for once the capture has ended.
struct Target {
    file: File,
    closed: UnixStream,
    given_up: bool,
}

impl Target {
    /// Waits until the file takes more.
    fn wait(&mut self) -> io::Result<()> {
        let mut on = [PollFd::new(&self.file, PollFlags::OUT), PollFd::new(&self.closed, PollFlags::IN)];
        poll(&mut on, None)?;
        if !on[0].revents().is_empty() {
            return Ok(());
        }
        let limit = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        if poll(&mut on[..1], Some(&limit))? > 0 {
            return Ok(());
        }
        self.given_up = true;
        Err(io::Error::new(ErrorKind::TimedOut, "its reader takes nothing"))
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            if self.given_up {
                return Err(ErrorKind::TimedOut.into());
            }
            match self.file.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait()?,
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
