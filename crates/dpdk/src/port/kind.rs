//! What a port is, and what its poll-mode driver is told.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use crate::PortError;

/// Longest text that a driver takes for a path: that of a Unix socket address, without its zero byte.
const LONGEST_VALUE: usize = 107;

/// What a port is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortKind {
    /// A NIC, virtual function or virtio device on PCI.
    Pci {
        /// Its address, `0000:3b:00.0`, which was allowed when the EAL started.
        address: String,
    },
    /// Shared memory with another process on this machine.
    Memif(MemifSettings),
    /// A Linux interface through AF_XDP sockets. Needs root. The port makes a pool of its own for the kernel to fill, with buffers
    /// as large as those of the one it is configured with: 8,192 and the receive descriptors a queue.
    AfXdp {
        /// The interface.
        interface: String,
        /// Its queues, from 0; as many as the interface has, each both ways.
        queues: u16,
    },
    /// A Linux interface through AF_PACKET sockets with rings.
    AfPacket {
        /// The interface.
        interface: String,
        /// Queue pairs, spread by the kernel's flow hash.
        queues: u16,
        /// Bytes of a slot of the ring, a power of two from 2,048 to 65,536: the longest frame and about 80 bytes.
        slot_bytes: u32,
        /// Slots of each ring, an even number from 64 to 65,536.
        slots: u32,
    },
    /// A TAP interface that is created in this network namespace.
    Tap {
        /// Its name, up to 15 characters.
        interface: String,
    },
    /// A virtual machine's virtio interface; the virtual machine connects to the socket.
    Vhost {
        /// The socket, which is created.
        socket: PathBuf,
        /// Queue pairs.
        queues: u16,
    },
    /// Capture files: receives the packets of one and writes what is sent to the other.
    Pcap {
        /// Packets to receive, none with `None`.
        receive: Option<PathBuf>,
        /// File to write, which is replaced.
        transmit: PathBuf,
    },
}

/// Settings of a shared-memory (memif) port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemifSettings {
    /// Unix socket over which the two sides meet. The server creates it.
    pub socket: PathBuf,
    /// Number of this interface on the socket; both sides use the same.
    pub id: u32,
    /// Which side this is.
    pub role: MemifRole,
    /// Let the other process read and write our packet memory in place of copying; for the client only, with huge pages. The server then
    /// copies for both. Packets are to be in one segment, and their pool is to be there before a peer connects; others are dropped and
    /// counted.
    pub zero_copy: bool,
    /// log₂ of the slots of each ring, 1 to 14.
    pub ring_size_log2: u8,
    /// Bytes of each buffer in shared memory. A longer frame takes several slots, which is slower.
    pub buffer_bytes: u16,
}

impl MemifSettings {
    /// Rings of 1,024 and buffers of 2,048 bytes, copied.
    pub fn new(socket: impl Into<PathBuf>, id: u32, role: MemifRole) -> Self {
        Self { socket: socket.into(), id, role, zero_copy: false, ring_size_log2: 10, buffer_bytes: 2048 }
    }
}

/// The two sides of a shared-memory port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemifRole {
    /// Creates the socket, in place of one that nobody listens on any more, and waits for its client.
    Server,
    /// Connects, and owns the shared memory. It tries until there is a server, twenty times a second, and again when it is gone.
    Client,
}

/// What drives a port.
pub(super) enum Driver<'a> {
    /// A driver of DPDK's.
    Device(Device),
    /// [`crate::memif`].
    Memif(&'a MemifSettings),
}

/// How EAL finds a port's device.
pub(super) struct Device {
    pub(super) bus: &'static str,
    pub(super) name: String,
    pub(super) arguments: String,
}

impl PortKind {
    /// The kernel's interface that it is made on, by its index; none where there is none, or where the driver makes its own.
    pub(super) fn interface_index(&self) -> Option<u32> {
        match self {
            Self::AfXdp { interface, .. } | Self::AfPacket { interface, .. } => {
                nix::net::if_::if_nametoindex(interface.as_str()).ok()
            }
            _ => None,
        }
    }

    /// What drives a port of this name, after everything that can be checked of a device was: drivers explain themselves badly.
    pub(super) fn driver(&self, port: &str) -> Result<Driver<'_>, PortError> {
        let (driver, arguments) = match self {
            Self::Pci { address } => {
                check_pci(port, address)?;
                let (name, arguments) = (address.to_lowercase(), String::new());
                return Ok(Driver::Device(Device { bus: "pci", name, arguments }));
            }
            Self::Memif(settings) => return Ok(Driver::Memif(settings)),
            Self::AfXdp { interface, queues } => {
                check_interface(port, interface)?;
                check_range(port, "the number of queues", u64::from(*queues), 1, 64)?;
                ("net_af_xdp", format!("iface={interface},start_queue=0,queue_count={queues}"))
            }
            Self::AfPacket { interface, queues, slot_bytes, slots } => {
                ("net_af_packet", af_packet(port, interface, *queues, *slot_bytes, *slots)?)
            }
            Self::Tap { interface } => {
                check_value(port, "the interface", interface)?;
                check_range(port, "the length of the interface's name", interface.len() as u64, 1, 15)?;
                ("net_tap", format!("iface={interface}"))
            }
            Self::Vhost { socket, queues } => {
                check_range(port, "the number of queues", u64::from(*queues), 1, 128)?;
                let text = new_file(port, "the socket", socket)?;
                remove_stale(socket);
                ("net_vhost", format!("iface={text},queues={queues}"))
            }
            Self::Pcap { receive, transmit } => ("net_pcap", pcap(port, receive.as_deref(), transmit)?),
        };
        Ok(Driver::Device(Device { bus: "vdev", name: format!("{driver}_{port}"), arguments }))
    }
}

fn af_packet(
    port: &str,
    interface: &str,
    queues: u16,
    slot_bytes: u32,
    slots: u32,
) -> Result<String, PortError> {
    check_interface(port, interface)?;
    check_range(port, "the number of queues", u64::from(queues), 1, 16)?;
    check_range(port, "the slot size", u64::from(slot_bytes), 2048, 65_536)?;
    check_range(port, "the number of slots", u64::from(slots), 64, 65_536)?;
    if !slot_bytes.is_power_of_two() {
        let (port, range) = (port.to_owned(), "a power of two".to_owned());
        return Err(PortError::Range { port, setting: "the slot size", value: u64::from(slot_bytes), range });
    }
    let block = slot_bytes.max(4096);
    Ok(format!(
        "iface={interface},qpairs={queues},blocksz={block},framesz={slot_bytes},framecnt={slots},qdisc_bypass=1"
    ))
}

fn pcap(port: &str, receive: Option<&Path>, transmit: &Path) -> Result<String, PortError> {
    let transmit = new_file(port, "the file to write", transmit)?;
    let Some(path) = receive else {
        return Ok(format!("tx_pcap={transmit}"));
    };
    let receive = path_text(port, "the file to read", path)?;
    match fs::File::open(path) {
        Ok(_) => Ok(format!("rx_pcap={receive},tx_pcap={transmit}")),
        Err(source) => Err(PortError::NoFile { port: port.to_owned(), path: path.to_owned(), source }),
    }
}

fn check_pci(port: &str, address: &str) -> Result<(), PortError> {
    if !crate::eal::is_pci_address(address) || !pci_folder(address).exists() {
        return Err(PortError::NoPciDevice { port: port.to_owned(), address: address.to_owned() });
    }
    Ok(())
}

/// Where the kernel describes a PCI device.
pub(super) fn pci_folder(address: &str) -> PathBuf {
    Path::new("/sys/bus/pci/devices").join(address.to_lowercase())
}

fn check_interface(port: &str, interface: &str) -> Result<(), PortError> {
    check_value(port, "the interface", interface)?;
    match nix::net::if_::if_nametoindex(interface) {
        Ok(_) => Ok(()),
        Err(_) => Err(PortError::NoInterface { port: port.to_owned(), interface: interface.to_owned() }),
    }
}

/// The path of a file that the driver creates, in a folder that must exist.
fn new_file<'a>(port: &str, setting: &'static str, path: &'a Path) -> Result<&'a str, PortError> {
    let text = path_text(port, setting, path)?;
    match path.parent() {
        Some(folder) if folder == Path::new("") || folder.is_dir() => Ok(text),
        _ => Err(PortError::NoFolder { port: port.to_owned(), path: path.to_owned() }),
    }
}

/// Removes a socket that a process left behind which did not end in order: the driver does not take the place of a file. One that somebody
/// listens on stays, as does what is no socket.
///
/// It is asked with a type of socket that the driver does not use: the kernel then tells a listener (EPROTOTYPE) from nobody (ECONNREFUSED)
/// without connecting.
fn remove_stale(path: &Path) {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let (Ok(address), Ok(socket)) =
        (UnixAddr::new(path), socket(AddressFamily::Unix, SockType::SeqPacket, flags, None))
    else {
        return;
    };
    if is_socket && connect(socket.as_raw_fd(), &address) == Err(Errno::ECONNREFUSED) {
        // Should it fail, the driver says that the file is in its way.
        let _ = fs::remove_file(path);
    }
}

fn path_text<'a>(port: &str, setting: &'static str, path: &'a Path) -> Result<&'a str, PortError> {
    let text = path.to_str().ok_or_else(|| {
        let (port, value) = (port.to_owned(), path.display().to_string());
        PortError::Setting { port, setting, value }
    })?;
    check_value(port, setting, text)?;
    Ok(text)
}

fn check_value(port: &str, setting: &'static str, value: &str) -> Result<(), PortError> {
    let foreign = |character: char| {
        character.is_control() || character.is_whitespace() || ",=[]\"'".contains(character)
    };
    if value.is_empty() || value.len() > LONGEST_VALUE || value.contains(foreign) {
        return Err(PortError::Setting { port: port.to_owned(), setting, value: value.to_owned() });
    }
    Ok(())
}

/// Checks that a number of a port's settings is within `least` and `most`.
pub(crate) fn check_range(
    port: &str,
    setting: &'static str,
    value: u64,
    least: u64,
    most: u64,
) -> Result<(), PortError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(PortError::Range { port: port.to_owned(), setting, value, range: format!("from {least} to {most}") })
}
