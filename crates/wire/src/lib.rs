//! Packet formats: what stands between octets and meaning.
//!
//! Every format has up to three forms, as far as it needs them:
//!
//! | form | for | example |
//! |---|---|---|
//! | header: the octets, through a typed reference | reading and changing fields in place | [`ipv4::Ipv4Header`] |
//! | view: a header that was checked, its options, what follows | every parser's first step | [`ipv4::Ipv4View`] |
//! | owned: the fields as values, small and `Copy` | making headers | [`ipv4::Ipv4`] |
//!
//! `View::parse` checks every length once, so that no accessor can fail afterwards. `From<View>` gives the
//! owned form, and its `emit` writes the same octets again (reserved bits excepted, which no format lets us
//! send on). [`WireError`] names the format and what is wrong.
//!
//! ```
//! use sluice_wire::ethernet::EthernetView;
//! use sluice_wire::ipv4::{Ipv4, Ipv4View};
//! use sluice_wire::{EtherType, IpProtocol, WireError};
//!
//! fn ttl_of(frame: &[u8]) -> Result<Option<u8>, WireError> {
//!     let ethernet = EthernetView::parse(frame)?;
//!     if ethernet.ether_type() != EtherType::IPV4 {
//!         return Ok(None);
//!     }
//!     Ok(Some(Ipv4View::parse(ethernet.payload())?.ttl()))
//! }
//!
//! let mut frame = vec![0; 34];
//! frame[12..14].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
//! Ipv4::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), IpProtocol::UDP).emit(&mut frame[14..])?;
//! assert_eq!(ttl_of(&frame), Ok(Some(64)));
//! assert_eq!(ttl_of(&frame[..20]).unwrap_err().to_string(), "IPv4: truncated: 20 octets needed, 6 present");
//! # Ok::<(), WireError>(())
//! ```
//!
//! The crate knows nothing of other crates and everyone may use it. It allocates nothing and cannot panic on
//! any input, but for [`frame`] (feature `builder`), which makes whole frames for tests and probes.
//! [`dissect`] puts a frame into one line for people.
//!
//! Features: `serde` and `schema` let the number types stand in documents; `builder` adds [`frame`].
//!
//! Limits: no jumbograms, two VLAN tags, link-layer addresses of Ethernet only. What a module does not read
//! is said at its top.

#![forbid(unsafe_code)]
// A slice index could panic on some input; only `frame`, which reads no input, may use one.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

#[cfg(test)]
mod arbitrary;
pub mod arp;
pub mod bfd;
pub mod checksum;
mod dissect;
mod error;
pub mod ethernet;
#[cfg(any(test, feature = "builder"))]
#[allow(clippy::indexing_slicing)]
pub mod frame;
pub mod geneve;
mod icmp;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
mod ipv6_extension;
pub mod lacp;
mod mac;
pub mod marker;
pub mod neighbor;
mod neighbor_option;
mod numbers;
pub mod options;
pub mod slow_protocols;
pub mod tcp;
mod traffic_class;
pub mod udp;
mod vlan_id;
mod vni;
pub mod vxlan;

pub use dissect::dissect;
pub use error::{Layer, Problem, WireError};
pub use mac::{MacAddr, MacAddrError};
pub use numbers::{EtherType, IpProtocol};
pub use traffic_class::{Dscp, DscpError, Ecn};
pub use vlan_id::{VlanId, VlanIdError};
pub use vni::{Vni, VniError};
