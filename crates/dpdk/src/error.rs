//! What can go wrong with packet I/O, each with one sentence that says what to do. No error carries a DPDK type.

use std::io;
use std::path::PathBuf;

use crate::CoreSet;

/// The EAL could not start.
#[derive(Debug, thiserror::Error)]
pub enum EalError {
    /// A process starts one EAL once; also after the first was dropped.
    #[error(
        "packet I/O (the DPDK EAL) was already started in this process: start it once and share the handle"
    )]
    AlreadyStarted,
    /// Huge pages are required and the kernel does not have enough free ones.
    #[error(
        "{mebibytes} MiB of huge pages are required and the kernel does not have that many free: reserve them as root \
         (for 2 MiB pages: `sysctl vm.nr_hugepages={pages}`) or set huge pages to automatic"
    )]
    NoHugePages {
        /// Memory that was asked for, MiB.
        mebibytes: u32,
        /// The same in pages of 2 MiB.
        pages: u32,
    },
    /// The main core cannot be used.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// An address does not look like `0000:3b:00.0`.
    #[error("`{0}` is not a PCI address: write domain, bus, device and function as in 0000:3b:00.0")]
    PciAddress(String),
    /// A text of the options cannot be handed to the EAL.
    #[error("`{0}` cannot be a file prefix: use letters, digits, `-` and `_`")]
    FilePrefix(String),
    /// Less memory than the EAL can start with.
    #[error("{0} MiB of packet memory is too little: give at least 32 MiB")]
    TooLittleMemory(u32),
    /// The EAL itself refused, with its last words.
    #[error("packet I/O (the DPDK EAL) did not start: {reason}; {remedy}")]
    Refused {
        /// EAL's own last log line, or the system error.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
}

/// A core or thread could not be used.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// No such core here.
    #[error("core {core} does not exist or is not allowed here: the cores of this process are {available}")]
    Unknown {
        /// The core that was asked for.
        core: usize,
        /// The cores that may be used.
        available: CoreSet,
    },
    /// The kernel did not let the thread move.
    #[error(
        "the thread could not be pinned to core {core} ({source}): name another core, or allow the process this one"
    )]
    Pin {
        /// The core that was asked for.
        core: usize,
        /// The system's reason.
        source: io::Error,
    },
    /// The EAL has no room for another thread, or knows this one already.
    #[error(
        "the thread could not be registered for packet I/O ({source}): register a thread once, and at most 127 threads"
    )]
    Register {
        /// The system's reason.
        source: io::Error,
    },
}

/// A memory pool could not be created.
#[derive(Debug, thiserror::Error)]
pub enum MempoolError {
    /// Names are 1 to 25 characters, without a zero byte.
    #[error("`{0}` cannot name a memory pool: use 1 to 25 letters, digits, `-` and `_`")]
    Name(String),
    /// A pool of this name is in use.
    #[error("a memory pool named `{0}` exists: give each pool its own name")]
    Exists(String),
    /// Sizes outside what DPDK takes.
    #[error(
        "memory pool `{name}` cannot have {count} mbufs, a cache of {cache} and a data room of {data_room} bytes: the cache is at \
         most 512 and two thirds of the mbufs, the data room at least 256 bytes"
    )]
    Sizes {
        /// The pool.
        name: String,
        /// Mbufs.
        count: u32,
        /// Mbufs cached a core.
        cache: u32,
        /// Bytes a mbuf.
        data_room: u16,
    },
    /// Packet memory is used up.
    #[error(
        "memory pool `{name}` needs about {mebibytes} MiB and packet memory is used up: start with more memory or fewer mbufs"
    )]
    OutOfMemory {
        /// The pool.
        name: String,
        /// About what the pool takes, MiB.
        mebibytes: u64,
    },
    /// Anything else.
    #[error("memory pool `{name}` could not be created: {source}")]
    Refused {
        /// The pool.
        name: String,
        /// The system's reason.
        source: io::Error,
    },
}

/// A packet could not be changed as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MbufError {
    /// The packet does not fit into its first segment.
    #[error(
        "a packet of {length} bytes in {segments} segments does not fit into one: use a memory pool with a larger data room"
    )]
    DoesNotFit {
        /// Bytes of the packet.
        length: usize,
        /// Segments it has.
        segments: u16,
    },
}

/// A port could not be created or changed.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Port names are short and plain, because drivers parse them.
    #[error("`{0}` cannot name a port: use 1 to 32 letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// The EAL has a device of this name already.
    #[error("a port named `{0}` exists: remove it first or give this one another name")]
    Exists(String),
    /// A setting contains what the driver would read as another setting.
    #[error(
        "port `{port}`: {setting} `{value}` cannot be given to the driver: it must be 1 to 107 characters without `,`, `=` or spaces"
    )]
    Setting {
        /// The port.
        port: String,
        /// Which setting.
        setting: &'static str,
        /// Its value.
        value: String,
    },
    /// A number of the port's settings is out of range.
    #[error("port `{port}`: {setting} is {value} and must be {range}")]
    Range {
        /// The port.
        port: String,
        /// Which setting.
        setting: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        range: String,
    },
    /// The network interface does not exist in this network namespace.
    #[error(
        "port `{port}`: interface {interface} does not exist in this network namespace: create it or correct the name (`ip link` lists them)"
    )]
    NoInterface {
        /// The port.
        port: String,
        /// The interface.
        interface: String,
    },
    /// The file to receive from does not exist or cannot be read.
    #[error("port `{port}`: {path} cannot be read ({source}): give a capture file that exists", path = path.display())]
    NoFile {
        /// The port.
        port: String,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The folder of a socket or file does not exist.
    #[error("port `{port}`: the folder of {path} does not exist: create it first", path = path.display())]
    NoFolder {
        /// The port.
        port: String,
        /// The file or socket.
        path: PathBuf,
    },
    /// No such PCI device.
    #[error("port `{port}`: there is no PCI device {address} in this machine (`lspci -D` lists them)")]
    NoPciDevice {
        /// The port.
        port: String,
        /// The address.
        address: String,
    },
    /// The device was not allowed when the EAL started.
    #[error(
        "port `{port}`: PCI device {address} was not allowed when packet I/O started: add it to the allowed devices and restart"
    )]
    PciNotAllowed {
        /// The port.
        port: String,
        /// The address.
        address: String,
    },
    /// The device has a kernel driver that DPDK cannot use.
    #[error(
        "port `{port}`: no DPDK driver took PCI device {address}, which has the kernel driver {kernel_driver}: bind it with `dpdk-devbind.py --bind=vfio-pci {address}`"
    )]
    PciDriver {
        /// The port.
        port: String,
        /// The address.
        address: String,
        /// Its kernel driver, or `none`.
        kernel_driver: String,
    },
    /// Queues are still held, so that the port cannot stop or change.
    #[error("port `{0}` has queues in use: let its workers give them back first")]
    QueuesInUse(String),
    /// The port is not in the state that the operation needs.
    #[error("port `{port}` is {state}: {remedy}")]
    State {
        /// The port.
        port: String,
        /// What it is.
        state: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// The port cannot share packet memory with its peer.
    #[error("port `{port}` cannot do without copying: {reason}")]
    ZeroCopy {
        /// The port.
        port: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// The driver refused.
    #[error("port `{port}`: the driver could not {action}: {reason}")]
    Driver {
        /// The port.
        port: String,
        /// What was tried.
        action: &'static str,
        /// The driver's own last log line, or the system error.
        reason: String,
    },
}
