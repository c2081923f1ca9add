//! Ports as they are named on a command line: `memif:/run/x.sock:0`, `pci:0000:3b:00.0`, `af_packet:eth1`.
//!
//! The bench passes them to the generator and writes them into the node's document; only the generator opens them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// One port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortName {
    /// A NIC, virtual function or virtio device, by its PCI address.
    Pci(String),
    /// Interface `id` on a shared-memory socket.
    Memif {
        /// The Unix socket.
        socket: PathBuf,
        /// Number of the interface on it.
        id: u32,
    },
    /// A Linux interface through AF_XDP sockets.
    AfXdp(String),
    /// A Linux interface through AF_PACKET sockets.
    AfPacket(String),
    /// A TAP interface, which is created.
    Tap(String),
    /// The socket of a virtual machine's virtio interface, which is created.
    Vhost(PathBuf),
}

/// A text that names no port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no port: write pci:ADDRESS, memif:SOCKET:ID, af_xdp:INTERFACE, af_packet:INTERFACE, tap:INTERFACE or vhost:SOCKET"
)]
pub struct PortNameError(String);

impl FromStr for PortName {
    type Err = PortNameError;

    fn from_str(text: &str) -> Result<Self, PortNameError> {
        let wrong = || PortNameError(text.to_owned());
        let (kind, value) = text.split_once(':').filter(|(_, value)| !value.is_empty()).ok_or_else(wrong)?;
        Ok(match kind {
            "pci" => Self::Pci(value.to_owned()),
            "memif" => {
                let (socket, id) = value.rsplit_once(':').ok_or_else(wrong)?;
                Self::Memif { socket: socket.into(), id: id.parse().map_err(|_| wrong())? }
            }
            "af_xdp" => Self::AfXdp(value.to_owned()),
            "af_packet" => Self::AfPacket(value.to_owned()),
            "tap" => Self::Tap(value.to_owned()),
            "vhost" => Self::Vhost(value.into()),
            _ => return Err(wrong()),
        })
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci(address) => write!(f, "pci:{address}"),
            Self::Memif { socket, id } => write!(f, "memif:{}:{id}", socket.display()),
            Self::AfXdp(interface) => write!(f, "af_xdp:{interface}"),
            Self::AfPacket(interface) => write!(f, "af_packet:{interface}"),
            Self::Tap(interface) => write!(f, "tap:{interface}"),
            Self::Vhost(socket) => write!(f, "vhost:{}", socket.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in [
            "pci:0000:3b:00.0",
            "memif:/run/a:b.sock:7",
            "af_xdp:eth0",
            "af_packet:veth-1",
            "tap:tap0",
            "vhost:/run/vm.sock",
        ] {
            assert_eq!(text.parse::<PortName>().unwrap().to_string(), text);
        }
        let socket = "/run/a:b.sock".into();
        assert_eq!("memif:/run/a:b.sock:7".parse(), Ok(PortName::Memif { socket, id: 7 }));
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_ones_there_are() {
        for text in ["", "eth0", "pci:", "memif:/run/x.sock", "memif:/run/x.sock:-1", "dpdk:0"] {
            let sentence = text.parse::<PortName>().unwrap_err().to_string();
            assert!(sentence.contains(text) && sentence.contains("af_packet:INTERFACE"), "{sentence}");
        }
    }
}
