//! Why a packet was dropped: one reason from one enum, the same in counters, CLI, API and metrics.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            /// Every reason, in the order of the counters.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name in counters, CLI and metrics, as `no-route`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// One sentence on what it means.
            pub const fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }
    };
}

reasons! {
    /// The frame ends before its headers do.
    Truncated = "truncated",
    /// A header contradicts itself: version or a length, or where in its packet a fragment belongs.
    Malformed = "malformed",
    /// The IPv4 header checksum is wrong (RFC 1812 section 5.2.2), or the UDP checksum of a tunnel packet (RFC 8926 section 3.3).
    BadChecksum = "bad-checksum",
    /// The frame carries more VLAN tags than the port's configuration has a use for.
    UnsupportedTags = "unsupported-tags",
    /// No workload, TEP or gateway interface uses this port and VLAN.
    UnknownVlan = "unknown-vlan",
    /// The destination MAC address is not this node's.
    NotForThisNode = "not-for-this-node",
    /// The source MAC address is a group address, which is no station's (IEEE 802.3 section 3.2.3).
    GroupSource = "group-source",
    /// To one of the reserved addresses 01-80-C2-00-00-00 to -0F, which no bridge forwards to (IEEE 802.1Q section 8.6.3).
    ReservedAddress = "reserved-address",
    /// A source address that no host may use: multicast, broadcast, loopback or unspecified (RFC 1812 section 5.3.7).
    MartianSource = "martian-source",
    /// A destination address that is not routed: loopback, unspecified, multicast or broadcast.
    MartianDestination = "martian-destination",
    /// An IPv4 packet with a source-route option (RFC 7126 section 4.3).
    SourceRouted = "source-routed",
    /// More IPv6 extension headers than are walked, or a chain that does not end.
    TooManyExtensionHeaders = "too-many-extension-headers",
    /// The outer packet of a tunnel is a fragment; tunnels set don't-fragment (RFC 7348 section 4.3).
    OuterFragment = "outer-fragment",
    /// A tunnel packet from an address that is no TEP of any segment here.
    UnknownTep = "unknown-tep",
    /// A tunnel packet whose VNI no segment here has, or has with another encapsulation.
    UnknownVni = "unknown-vni",
    /// A VXLAN header without the I flag (RFC 7348 section 5).
    VxlanFlags = "vxlan-flags",
    /// A Geneve version other than 0 (RFC 8926 section 3.4).
    GeneveVersion = "geneve-version",
    /// A Geneve option that must be understood and is not (RFC 8926 section 3.5).
    GeneveCriticalOption = "geneve-critical-option",
    /// A Geneve control packet (O bit) that is not BFD: never forwarded to a workload.
    GeneveControl = "geneve-control",
    /// A tunnel that carries something other than Ethernet.
    TunnelPayload = "tunnel-payload",
    /// The inner frame of a tunnel is tagged (RFC 7348 section 6.1).
    InnerTag = "inner-tag",
    /// Congestion was marked on the outer header of a packet that cannot carry the mark (RFC 6040 section 4.2).
    CongestionUnmarkable = "congestion-unmarkable",
    /// A frame from a tunnel would have to leave through a tunnel.
    SplitHorizon = "split-horizon",
    /// A frame would leave through the port that it came in on.
    Hairpin = "hairpin",
    /// A frame to many with nobody to receive it.
    NoReceiver = "no-receiver",
    /// The gateway has no route to the destination.
    NoRoute = "no-route",
    /// The route to the destination is a blackhole.
    Blackhole = "blackhole",
    /// The segment has no workload with the destination address.
    UnknownWorkload = "unknown-workload",
    /// The gateways send the packet to each other in a circle.
    RoutingLoop = "routing-loop",
    /// The time to live ran out in a gateway.
    TtlExpired = "ttl-expired",
    /// The packet is longer than the MTU of where it goes, and must not or cannot be fragmented.
    TooBig = "too-big",
    /// Addressed to this node, which offers no such service.
    NoService = "no-service",
    /// A BFD packet in the name of a neighbour, with a time to live that tells that a router forwarded it (RFC 5881 section 5).
    BfdForwarded = "bfd-forwarded",
    /// The rate limit of its kind of packet to the control thread was reached.
    PuntLimit = "punt-limit",
    /// The ring to the control thread was full.
    PuntRingFull = "punt-ring-full",
    /// The next hop did not answer in time.
    NeighborUnreachable = "neighbor-unreachable",
    /// Too many packets waited for their next hops, or for this one.
    NeighborQueueFull = "neighbor-queue-full",
    /// The table of next hops was full.
    NeighborTableFull = "neighbor-table-full",
    /// The ring from the control thread to the worker was full.
    CommandRingFull = "command-ring-full",
    /// The port cannot send the packet as it lies in memory: in several segments, or in memory that is not the port's.
    Unsendable = "unsendable",
    /// The transmit ring of the port was full.
    TransmitRingFull = "transmit-ring-full",
    /// It came in on a link of a LAG that carries no traffic, or on an uplink that stands by for another.
    InactiveLink = "inactive-link",
    /// The port that the packet would leave through is down.
    PortDown = "port-down",
    /// No packet memory was left.
    NoBuffer = "no-buffer",
    /// An ARP or neighbour discovery packet answered or rightly ignored: nothing is left to forward.
    Consumed = "consumed",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_in_counter_order() {
        for (position, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, position);
            assert!(DropReason::ALL[..position].iter().all(|other| other.name() != reason.name()));
            assert!(reason.description().ends_with('.') && !reason.description().starts_with(' '));
        }
    }
}
