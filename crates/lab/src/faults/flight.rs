//! Numbered packets at a constant rate from one node to another.
//!
//! Sender and receiver are this program itself, started again inside the lab with hidden arguments. The sender numbers its packets, spreads
//! them over [`FLOWS`] flows in turn, and says at which number it was when it was told of an event; so nothing has to compare clocks. A
//! packet that is sent late, because the sender waited for a core, keeps its place: what is late is told apart from what is lost.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result, While};
use crate::lab::Lab;
use crate::program::finish_within;

/// Packets a second.
pub(super) const RATE: u64 = 1_000;
/// Flows, told apart by the sender's port.
pub(super) const FLOWS: u64 = 4;
/// First port of the sender; another one for each flow.
const FIRST_PORT: u16 = 47_000;
/// Port of the receiver.
const PORT: u16 = 47_100;
/// What the receiver says when it listens.
const READY: &str = "ready";
/// Longest time that a sender runs.
const LIMIT: Duration = Duration::from_secs(600);
/// A packet that was sent so much later than it should have been tells of a machine that held its programs up.
const LATE: Duration = Duration::from_millis(5);
/// How long packets get to arrive when the last one was sent.
const GRACE: Duration = Duration::from_millis(500);
/// Bytes of a packet's payload: those of a small frame with its number in front.
const PAYLOAD: usize = 64;

/// Hidden arguments of the sender.
#[derive(Args, Debug)]
pub(crate) struct SenderArguments {
    /// The receiver's address.
    to: IpAddr,
}

/// What a sender says in the end.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    /// Packets.
    packets: u64,
    /// The next packet's number at each event.
    marks: Vec<u64>,
    /// Packets that were sent late, and by how many milliseconds.
    late: Vec<(u64, f64)>,
}

/// Sends until standard input ends; each line there is an event.
pub(crate) fn send(arguments: &SenderArguments) -> Result<()> {
    let sockets = (0..FLOWS as u16)
        .map(|flow| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, FIRST_PORT + flow)))
        .collect::<std::io::Result<Vec<_>>>()
        .doing(|| "binding the ports of a probe".into())?;
    let (to, start) = (SocketAddr::from((arguments.to, PORT)), Instant::now());
    let (mut sent, mut events) = (Sent::default(), [0; 256]);
    while start.elapsed() < LIMIT {
        let due = Duration::from_nanos(sent.packets * (1_000_000_000 / RATE));
        let left = due.saturating_sub(start.elapsed());
        if is_readable(std::io::stdin(), left)? {
            match std::io::stdin().read(&mut events).doing(|| "reading events".into())? {
                0 => break,
                bytes => {
                    let lines = events[..bytes].iter().filter(|byte| **byte == b'\n').count();
                    sent.marks.extend(std::iter::repeat_n(sent.packets, lines));
                }
            }
            continue;
        }
        let late = start.elapsed().saturating_sub(due);
        if late > LATE {
            sent.late.push((sent.packets, late.as_secs_f64() * 1e3));
        }
        let mut payload = [0; PAYLOAD];
        payload[..8].copy_from_slice(&sent.packets.to_be_bytes());
        // A packet that the kernel does not take, while a route is missing for instance, is lost as any other.
        let _ = sockets[(sent.packets % FLOWS) as usize].send_to(&payload, to);
        sent.packets += 1;
    }
    tell(&sent)
}

/// Receives until standard input ends, and prints the numbers that came.
pub(crate) fn receive() -> Result<()> {
    let socket =
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).doing(|| "binding the port of a probe".into())?;
    socket.set_nonblocking(true).doing(|| "setting up the socket of a probe".into())?;
    println!("{READY}");
    let (mut numbers, mut payload) = (Vec::<u64>::new(), [0; 2 * PAYLOAD]);
    loop {
        let input = std::io::stdin();
        let mut watched = [PollFd::new(&input, PollFlags::IN), PollFd::new(&socket, PollFlags::IN)];
        match poll(&mut watched, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).doing(|| "waiting for packets of a probe".into()),
        }
        let ended = !watched[0].revents().is_empty();
        while let Ok(bytes) = socket.recv(&mut payload) {
            numbers.extend(payload[..bytes].first_chunk().map(|number| u64::from_be_bytes(*number)));
        }
        if ended {
            return tell(&numbers);
        }
    }
}

/// Whether there is something to be read, or the end of it, within a time.
fn is_readable(file: impl AsFd, within: Duration) -> Result<bool> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: within.subsec_nanos().into() };
    match poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error).doing(|| "waiting for events".into()),
    }
}

fn tell(what: &impl Serialize) -> Result<()> {
    let text =
        serde_json::to_string(what).map_err(std::io::Error::from).doing(|| "writing a result".into())?;
    println!("{text}");
    Ok(())
}

/// What was sent, and what came.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// Packets that were sent.
    pub(super) packets: u64,
    /// The next packet's number at each event.
    pub(super) marks: Vec<u64>,
    /// Packets that were sent late, and by how many milliseconds.
    pub(super) late: Vec<(u64, f64)>,
    /// Numbers that came, sorted, each once.
    pub(super) received: Vec<u64>,
}

/// Packets on their way from one node to another.
pub(super) struct Probe {
    sender: Child,
    events: Option<ChildStdin>,
    receiver: Child,
}

impl Probe {
    /// Starts sending between two nodes; `to` is reached at its first address.
    pub(super) fn start(lab: &Lab, realtime: Option<u8>, from: &str, to: &str) -> Result<Self> {
        let program = std::env::current_exe().doing(|| "finding the running program".into())?;
        let program = program.display().to_string();
        let address = lab.node(to)?.address(false);
        let address = address.ok_or_else(|| LabError::Step(format!("{to} has no IPv4 address")))?.to_string();
        let spawn = |node: &str, arguments: &[&str]| {
            let mut command = lab.at_priority(realtime, node, &program);
            command.arg("lab").args(arguments);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().doing(|| format!("starting a probe in {node}"))
        };
        let mut receiver = spawn(to, &["receive-probe"])?;
        let mut line = String::new();
        if let Some(output) = &mut receiver.stdout {
            // Byte by byte, so that nothing of what follows is lost with a buffer.
            BufReader::with_capacity(1, output)
                .read_line(&mut line)
                .doing(|| "waiting for a probe".into())?;
        }
        if line.trim_end() != READY {
            let ended = finish_within(receiver, Duration::from_secs(2))?;
            return Err(LabError::Step(format!("the receiver of a probe in {to} failed: {}", ended.stderr)));
        }
        let mut sender = spawn(from, &["send-probe", &address])?;
        let events = sender.stdin.take();
        Ok(Self { sender, events, receiver })
    }

    /// Tells the sender of an event.
    pub(super) fn mark(&mut self) -> Result<()> {
        let Some(events) = &mut self.events else { return Ok(()) };
        events.write_all(b"\n").and_then(|()| events.flush()).doing(|| "telling a probe of an event".into())
    }

    /// Stops sending, waits for what is on its way, and tells what came.
    pub(super) fn end(mut self) -> Result<Flight> {
        drop(self.events.take());
        let sender = finish_within(self.sender, Duration::from_secs(5))?;
        std::thread::sleep(GRACE);
        drop(self.receiver.stdin.take());
        let receiver = finish_within(self.receiver, Duration::from_secs(5))?;
        let unreadable =
            |which: &str, stderr: &str| LabError::Step(format!("a {which} of a probe failed: {stderr}"));
        let sent: Sent =
            serde_json::from_str(&sender.stdout).map_err(|_| unreadable("sender", &sender.stderr))?;
        let mut received: Vec<u64> =
            serde_json::from_str(&receiver.stdout).map_err(|_| unreadable("receiver", &receiver.stderr))?;
        received.sort_unstable();
        received.dedup();
        Ok(Flight { packets: sent.packets, marks: sent.marks, late: sent.late, received })
    }
}
