//! One side of a memif, made by hand: speaks the public protocol (version 2.0) over its socket and writes to the shared memory as it
//! likes, right or wrong. It uses nothing of the crate.

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    accept, bind, connect, listen, recvmsg, sendmsg, setsockopt, socket,
};
use nix::sys::stat::fstat;
use nix::sys::time::TimeVal;
use nix::unistd::ftruncate;

pub(crate) const VERSION: u16 = 0x200;
pub(crate) const COOKIE: u32 = 0x03e3_1f20;
pub(crate) const NEXT: u16 = 1;
/// Flag of a ring from the client.
pub(crate) const FROM_CLIENT: u16 = 1;
const RING_HEADER: usize = 128;
const HEAD: usize = 6;
const TAIL: usize = 64;

/// A message: its fields, packed, and zeros.
pub(crate) fn message(kind: u16, fields: &[&[u8]]) -> Vec<u8> {
    let mut octets = [&kind.to_ne_bytes()[..], &fields.concat()].concat();
    octets.resize(128, 0);
    octets
}

pub(crate) fn hello(oldest: u16, newest: u16, last_ring: u16, size_log2: u8) -> Vec<u8> {
    let numbers = [oldest, newest, 255, last_ring, last_ring].map(u16::to_ne_bytes).concat();
    message(2, &[&[0; 32], &numbers, &[size_log2]])
}

pub(crate) fn init(version: u16, id: u32, mode: u8) -> Vec<u8> {
    message(3, &[&version.to_ne_bytes(), &id.to_ne_bytes(), &[mode]])
}

pub(crate) fn add_region(index: u16, size: u64) -> Vec<u8> {
    message(4, &[&index.to_ne_bytes(), &size.to_ne_bytes()])
}

pub(crate) fn add_ring(
    flags: u16,
    index: u16,
    region: u16,
    offset: u32,
    size_log2: u8,
    private: u16,
) -> Vec<u8> {
    let numbers = [flags, index, region].map(u16::to_ne_bytes).concat();
    message(5, &[&numbers, &offset.to_ne_bytes(), &[size_log2], &private.to_ne_bytes()])
}

pub(crate) fn acknowledge() -> Vec<u8> {
    message(1, &[])
}

pub(crate) fn connect_message() -> Vec<u8> {
    message(6, &[b"raw"])
}

pub(crate) fn connected() -> Vec<u8> {
    message(7, &[b"raw"])
}

/// What came over the socket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Acknowledge,
    Hello,
    Connected,
    Disconnect(String),
    Other(u16),
    /// The other end is closed.
    End,
}

/// An end of a control channel.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    fn new(socket: OwnedFd) -> Self {
        setsockopt(&socket, ReceiveTimeout, &TimeVal::new(10, 0)).unwrap();
        Self(socket)
    }

    /// A socket that is not connected yet.
    pub(crate) fn unconnected() -> Self {
        Self::new(socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap())
    }

    pub(crate) fn connect(&self, path: &Path) {
        connect(self.0.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
    }

    /// A connection to a server.
    pub(crate) fn to(path: &Path) -> Self {
        let channel = Self::unconnected();
        channel.connect(path);
        channel
    }

    /// Sends, and does not mind a peer that has closed.
    pub(crate) fn send(&self, octets: &[u8], files: &[BorrowedFd<'_>]) {
        let files: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&files)];
        let control = if files.is_empty() { &[][..] } else { &rights[..] };
        let _ =
            sendmsg::<()>(self.0.as_raw_fd(), &[IoSlice::new(octets)], control, MsgFlags::MSG_NOSIGNAL, None);
    }

    /// The next message and the file with it; fails if none comes within ten seconds.
    pub(crate) fn receive_raw(&self) -> (Vec<u8>, Option<OwnedFd>) {
        let mut octets = [0; 256];
        let mut control = nix::cmsg_space!([RawFd; 4]);
        let mut buffers = [IoSliceMut::new(&mut octets)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let received = match recvmsg::<()>(self.0.as_raw_fd(), &mut buffers, Some(&mut control), flags) {
            Ok(received) => received,
            // The other end was closed before it had heard all; what it said before comes now.
            Err(Errno::ECONNRESET) => return self.receive_raw(),
            Err(errno) => panic!("nothing was said in time: {errno}"),
        };
        let mut file = None;
        for message in received.cmsgs().unwrap() {
            if let ControlMessageOwned::ScmRights(rights) = message {
                // SAFETY: the kernel has just made these descriptors for us.
                file = rights.into_iter().map(|raw| unsafe { OwnedFd::from_raw_fd(raw) }).next();
            }
        }
        let length = received.bytes;
        (octets[..length].to_vec(), file)
    }

    pub(crate) fn hear(&self) -> Heard {
        let (octets, _) = self.receive_raw();
        if octets.is_empty() {
            return Heard::End;
        }
        assert_eq!(octets.len(), 128);
        match u16::from_ne_bytes([octets[0], octets[1]]) {
            1 => Heard::Acknowledge,
            2 => Heard::Hello,
            7 => Heard::Connected,
            8 => {
                let text = octets[6..102].split(|octet| *octet == 0).next().unwrap();
                Heard::Disconnect(String::from_utf8(text.to_vec()).unwrap())
            }
            kind => Heard::Other(kind),
        }
    }

    /// Everything until the other end closes; the reason that it gave.
    pub(crate) fn hear_reason(&self) -> Option<String> {
        let mut reason = None;
        loop {
            match self.hear() {
                Heard::Disconnect(text) => reason = Some(text),
                Heard::End => return reason,
                _ => {}
            }
        }
    }
}

/// A server's socket.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl Listener {
    pub(crate) fn at(path: &Path) -> Self {
        let _ = fs::remove_file(path);
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(socket.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
        listen(&socket, Backlog::new(8).unwrap()).unwrap();
        setsockopt(&socket, ReceiveTimeout, &TimeVal::new(10, 0)).unwrap();
        Self(socket)
    }

    /// The next client.
    pub(crate) fn accept(&self) -> Channel {
        // SAFETY: the kernel has just made the descriptor for us.
        Channel::new(unsafe { OwnedFd::from_raw_fd(accept(self.0.as_raw_fd()).unwrap()) })
    }
}

/// Shared memory.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) file: OwnedFd,
    base: NonNull<u8>,
    length: usize,
}

impl Memory {
    /// New memory that can be sealed.
    pub(crate) fn new(length: usize) -> Self {
        let file = memfd_create(c"raw", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
        ftruncate(&file, length as i64).unwrap();
        Self::of(file)
    }

    /// All of a file.
    pub(crate) fn of(file: OwnedFd) -> Self {
        let length = fstat(&file).unwrap().st_size as usize;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses where; unmapped in `drop`.
        let base =
            unsafe { mmap(None, NonZeroUsize::new(length).unwrap(), access, MapFlags::MAP_SHARED, &file, 0) };
        Self { file, base: base.unwrap().cast(), length }
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    fn at(&self, offset: usize, length: usize) -> *mut u8 {
        assert!(offset + length <= self.length);
        // SAFETY: inside the mapping, as was just checked.
        unsafe { self.base.as_ptr().add(offset) }
    }

    pub(crate) fn write(&self, offset: usize, octets: &[u8]) {
        // SAFETY: `at` checks the range; nobody has a reference into the mapping.
        unsafe { self.at(offset, octets.len()).copy_from_nonoverlapping(octets.as_ptr(), octets.len()) };
    }

    pub(crate) fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        let mut octets = vec![0; length];
        // SAFETY: as in `write`.
        unsafe { octets.as_mut_ptr().copy_from_nonoverlapping(self.at(offset, length), length) };
        octets
    }

    fn counter(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: inside the mapping and aligned to 2; both sides use these octets as atomics.
        unsafe { AtomicU16::from_ptr(self.at(offset, 2).cast()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and no pointer into it is left.
        unsafe { munmap(self.base.cast(), self.length).unwrap() };
    }
}

// SAFETY: a range of addresses, used through copies and atomics.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// A descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) flags: u16,
    pub(crate) region: u16,
    pub(crate) length: u32,
    pub(crate) offset: u32,
}

/// Where a ring lies in a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RingAt {
    pub(crate) offset: usize,
    pub(crate) size_log2: u8,
}

impl RingAt {
    pub(crate) fn octets(self) -> usize {
        RING_HEADER + (16 << self.size_log2)
    }

    pub(crate) fn slots(self) -> u16 {
        1 << self.size_log2
    }

    pub(crate) fn make(self, memory: &Memory) {
        memory.write(self.offset, &COOKIE.to_ne_bytes());
    }

    pub(crate) fn set_head(self, memory: &Memory, head: u16) {
        memory.counter(self.offset + HEAD).store(head, Ordering::Release);
    }

    pub(crate) fn head(self, memory: &Memory) -> u16 {
        memory.counter(self.offset + HEAD).load(Ordering::Acquire)
    }

    pub(crate) fn set_tail(self, memory: &Memory, tail: u16) {
        memory.counter(self.offset + TAIL).store(tail, Ordering::Release);
    }

    pub(crate) fn tail(self, memory: &Memory) -> u16 {
        memory.counter(self.offset + TAIL).load(Ordering::Acquire)
    }

    fn slot(self, slot: u16) -> usize {
        self.offset + RING_HEADER + 16 * usize::from(slot & (self.slots() - 1))
    }

    pub(crate) fn write(self, memory: &Memory, slot: u16, descriptor: Descriptor) {
        let Descriptor { flags, region, length, offset } = descriptor;
        let octets = [
            &[flags, region].map(u16::to_ne_bytes).concat()[..],
            &[length, offset].map(u32::to_ne_bytes).concat(),
        ];
        memory.write(self.slot(slot), &octets.concat());
    }

    pub(crate) fn read(self, memory: &Memory, slot: u16) -> Descriptor {
        let octets = memory.read(self.slot(slot), 12);
        let u16_at = |at: usize| u16::from_ne_bytes([octets[at], octets[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        Descriptor { flags: u16_at(0), region: u16_at(2), length: u32_at(4), offset: u32_at(8) }
    }
}

/// Events of a ring.
pub(crate) fn events() -> OwnedFd {
    EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).unwrap().into()
}

/// Room for buffers behind the rings of a [`Client`].
const BUFFERS: usize = 256 * 1024;

/// A client with one region and a ring each way, which a server has taken.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) channel: Channel,
    pub(crate) memory: Memory,
    pub(crate) to_server: RingAt,
    pub(crate) to_client: RingAt,
    /// Where buffers may be.
    pub(crate) buffers: usize,
}

impl Client {
    /// Connects; `size_log2` is that of both rings.
    pub(crate) fn connect(path: &Path, id: u32, size_log2: u8) -> Self {
        let client = Self::prepare(path, size_log2);
        client.say(&init(VERSION, id, 0), None);
        let Self { memory, to_server, to_client, .. } = &client;
        client.say(&add_region(0, memory.length() as u64), Some(memory.file.as_fd()));
        for (flags, ring) in [(FROM_CLIENT, to_server), (0, to_client)] {
            let ring = add_ring(flags, 0, 0, ring.offset as u32, size_log2, 0);
            client.say(&ring, Some(events().as_fd()));
        }
        client.channel.send(&connect_message(), &[]);
        assert_eq!(client.channel.hear(), Heard::Connected);
        client
    }

    /// As [`Self::connect`], with nothing said yet.
    pub(crate) fn prepare(path: &Path, size_log2: u8) -> Self {
        let channel = Channel::to(path);
        assert_eq!(channel.hear(), Heard::Hello);
        let to_server = RingAt { offset: 0, size_log2 };
        let to_client = RingAt { offset: to_server.octets(), size_log2 };
        let buffers = 2 * to_server.octets();
        let memory = Memory::new((buffers + BUFFERS).next_multiple_of(4096));
        to_server.make(&memory);
        to_client.make(&memory);
        Self { channel, memory, to_server, to_client, buffers }
    }

    /// Says something that is to be acknowledged.
    pub(crate) fn say(&self, octets: &[u8], file: Option<BorrowedFd<'_>>) {
        self.channel.send(octets, &file.into_iter().collect::<Vec<_>>());
        assert_eq!(self.channel.hear(), Heard::Acknowledge);
    }

    /// Writes a packet to the end of the region and offers it in the next slot.
    pub(crate) fn send(&self, packet: &[u8]) {
        let offset = self.memory.length() - packet.len();
        self.memory.write(offset, packet);
        let head = self.to_server.head(&self.memory);
        let descriptor =
            Descriptor { flags: 0, region: 0, length: packet.len() as u32, offset: offset as u32 };
        self.to_server.write(&self.memory, head, descriptor);
        self.to_server.set_head(&self.memory, head.wrapping_add(1));
    }
}

/// A server, with what a client has offered it: one region and a ring each way.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) channel: Channel,
    pub(crate) regions: Vec<Memory>,
    pub(crate) to_server: RingAt,
    pub(crate) to_client: RingAt,
}

impl Server {
    /// Takes what the next client offers.
    pub(crate) fn accept(listener: &Listener, size_log2: u8) -> Self {
        let channel = listener.accept();
        channel.send(&hello(VERSION, VERSION, 255, size_log2), &[]);
        let (mut regions, mut rings) = (Vec::new(), [None; 2]);
        loop {
            let (octets, file) = channel.receive_raw();
            let u16_at = |at: usize| u16::from_ne_bytes([octets[at], octets[at + 1]]);
            match u16_at(0) {
                4 => regions.push(Memory::of(file.unwrap())),
                5 => {
                    let offset = usize::from(u16_at(8)) | usize::from(u16_at(10)) << 16;
                    rings[usize::from(u16_at(2) & FROM_CLIENT)] =
                        Some(RingAt { offset, size_log2: octets[12] });
                }
                6 => break,
                _ => {}
            }
            channel.send(&acknowledge(), &[]);
        }
        channel.send(&connected(), &[]);
        let [to_client, to_server] = rings.map(Option::unwrap);
        Self { channel, regions, to_server, to_client }
    }

    /// Fills the next slot to the client.
    pub(crate) fn send(&self, packet: &[u8]) {
        let memory = &self.regions[0];
        let tail = self.to_client.tail(memory);
        let descriptor = self.to_client.read(memory, tail);
        assert!(descriptor.length as usize >= packet.len());
        self.regions[usize::from(descriptor.region)].write(descriptor.offset as usize, packet);
        let descriptor = Descriptor { flags: 0, length: packet.len() as u32, ..descriptor };
        self.to_client.write(memory, tail, descriptor);
        self.to_client.set_tail(memory, tail.wrapping_add(1));
    }
}
