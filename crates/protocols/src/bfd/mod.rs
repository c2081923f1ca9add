//! Bidirectional forwarding detection (BFD): whether a path still carries packets in both directions, told in less than
//! a second (RFC 5880, RFC 5881).
//!
//! A node watches its paths to the TEPs of other nodes, full mesh, and to its routing neighbours. The node hands in the
//! UDP payloads that come to port 3784, with the addresses that they came with, and wraps what comes out: in IP, and for
//! the path between two TEPs also in the tunnel. Its control thread is the only caller.
//!
//! | state | leaves it |
//! |---|---|
//! | Down | hears Down: Init; hears Init: Up |
//! | Init | hears Init or Up: Up; hears nothing in time, hears AdminDown, path down: Down |
//! | Up | hears nothing in time, hears Down or AdminDown, path down: Down |
//! | AdminDown | switched on: Down. From any state when it is switched off or removed; hears nothing |
//!
//! What is decided here where the RFC leaves it open:
//!
//! - **Asynchronous mode** without echo and without authentication. A packet with the bit A is refused. A neighbour that
//!   asks for demand mode gets it (§6.8.7); no session here asks for it.
//! - **Single hop** (RFC 5881): packets are sent with TTL or hop limit 255 and from a port of 49152 or above, and are
//!   accepted with 255 only, so that nobody further away than a hop can forge them. This holds in tunnels too, for the
//!   inner packet (RFC 8971 §4, RFC 9521 §4). The sender's port is not looked at: the RFC binds senders, not receivers.
//! - **Which session** a packet is for says Your Discriminator; while that is zero, its addresses and where it came in.
//!   Also with a discriminator a packet is refused that comes another way than its session's path, for then it says
//!   nothing about that path.
//! - **Discriminators** are random, nonzero and unique in the table, so that they do not follow from a count.
//! - **Slow start**: a session that is not Up sends once in a second, or less often (§6.8.3). The first packets of
//!   sessions that are made together are spread over that second.
//! - **Poll sequences** go with every change of an interval while the session is Up (§6.8.3). In other states every
//!   packet tells the intervals, and none is relied on, so there is none.
//! - **What changes is told at once**: a packet goes out with each change of state, between the periodic ones (§6.8.7).
//! - **A path that is known to be down** ([`Sessions::path_down`]) takes its sessions to Down at once with the diagnostic
//!   Path Down, and they hear nothing until [`Sessions::path_up`].
//! - **A session that is removed** goes on for a detection time in AdminDown (§6.8.16), so that the other side knows it
//!   from a failure. It says so once at the least: where the table is full, new sessions take the places of removed ones.
//!
//! Time is measured in ticks of 1 ms. Sending never comes later than the RFC allows for it, and detection never sooner.
//! Timers are in a hashed wheel and a packet that comes in sets none: the work of a session does not grow with their
//! number. 10,000 sessions at 300 ms are some 38,000 packets a second each way.
//!
//! Packets that wait to be received are to be handed in before [`Sessions::advance`], lest a session be declared down
//! for a thread that was busy.
//!
//! Limits: no echo, demand mode of our own, authentication, or paths of several hops (RFC 5883); no micro-BFD on the
//! members of a LAG (RFC 7130). Sessions are configured, never made because a packet came.

use std::net::IpAddr;
use std::time::Duration;

use sluice_wire::Vni;
use sluice_wire::bfd::{BfdDiagnostic, BfdState, PACKET_LEN};

use crate::Timestamp;
use crate::neighbor::Link;

mod config;
mod path_state;
mod refusal;
mod session;
mod sessions;
mod wheel;

pub use config::{SessionConfig, SessionError, SessionsConfig};
pub use path_state::{FIRST_CONTACT, PathFault, PathState};
pub use refusal::{Refusal, Refusals};
pub use sessions::Sessions;

/// The UDP port of control packets (RFC 5881 §4).
pub const PORT: u16 = sluice_wire::udp::port::BFD;

/// The TTL or hop limit of control packets (RFC 5881 §5).
pub const TTL: u8 = 255;

/// Where packets between the two ends of a path go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Via {
    /// Plain, over a link that both ends are on.
    Link(Link),
    /// Within a tunnel between the two addresses, which are TEPs.
    Tunnel {
        /// The VNI of the tunnel's packets; `None` for 0, which stands for the tunnel itself.
        vni: Option<Vni>,
    },
}

/// The path that a session watches. There is at most one session for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// Where its packets go.
    pub via: Via,
    /// The address of this end.
    pub local: IpAddr,
    /// The address of the other end, of the same family.
    pub remote: IpAddr,
}

/// A UDP datagram that was received, but for its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Where it came in.
    pub via: Via,
    /// The sender's address.
    pub source: IpAddr,
    /// The own address that it was sent to.
    pub destination: IpAddr,
    /// The receiver's port.
    pub destination_port: u16,
    /// Its TTL or hop limit; in a tunnel, that of the inner packet.
    pub ttl: u8,
}

/// What the caller of [`Sessions`] is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a UDP datagram with TTL or hop limit [`TTL`] to [`PORT`] at the other end of the path.
    Send {
        /// The path: addresses, link or tunnel.
        path: Path,
        /// The sender's port, the same for all packets of a session.
        source_port: u16,
        /// The payload.
        payload: [u8; PACKET_LEN],
    },
    /// A session is in another state.
    StateChanged {
        /// The session's path.
        path: Path,
        /// Its state until now.
        from: BfdState,
        /// Its state from now on. Packets are carried in both directions exactly in [`BfdState::Up`].
        to: BfdState,
        /// Why, as this end knows it.
        diagnostic: BfdDiagnostic,
        /// What the other end last gave as its reason.
        remote_diagnostic: BfdDiagnostic,
    },
}

/// A path that this one is continued by, and that failed (RFC 5880 §6.8.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Concatenated {
    /// It fails in the direction away from the other end of this path.
    Down,
    /// It fails in the direction towards the other end of this path.
    ReverseDown,
}

/// A session for people and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// What it watches.
    pub path: Path,
    /// Its state.
    pub state: BfdState,
    /// When it came to that state.
    pub since: Timestamp,
    /// The state that the other end last told; Down if that is nothing.
    pub remote_state: BfdState,
    /// The last packet of the other end said AdminDown: it left on purpose, and whatever became of it since is no failure of the path.
    pub remote_left: bool,
    /// This end's number of the session.
    pub local_discriminator: u32,
    /// The other end's number of the session; 0 while it is not known.
    pub remote_discriminator: u32,
    /// Why the session is not up, or what this end tells of a concatenated path.
    pub diagnostic: BfdDiagnostic,
    /// What the other end last gave as its reason.
    pub remote_diagnostic: BfdDiagnostic,
    /// How it is configured.
    pub config: SessionConfig,
    /// The longest time between two packets that this end sends now, without jitter; `None` while it sends none.
    pub transmit_interval: Option<Duration>,
    /// The time without a packet after which the session goes down; `None` while nothing is heard.
    pub detection_time: Option<Duration>,
    /// A poll sequence is under way.
    pub polling: bool,
    /// What it has done.
    pub counters: SessionCounters,
}

/// What a session has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Packets sent.
    pub sent: u64,
    /// Packets received and accepted.
    pub received: u64,
    /// Times that it came up.
    pub ups: u64,
    /// Times that it was up and went down.
    pub downs: u64,
    /// Why it last went down after it was up.
    pub last_down_diagnostic: BfdDiagnostic,
    /// When it last came up.
    pub last_up: Option<Timestamp>,
    /// When it last went down.
    pub last_down: Option<Timestamp>,
    /// When a packet was last accepted.
    pub last_received: Option<Timestamp>,
}
