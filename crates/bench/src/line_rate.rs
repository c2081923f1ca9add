//! What Ethernet carries: the only place with line-rate arithmetic.
//!
//! ```text
//!   layer 1   preamble, start of frame 8 │ frame │ inter-frame gap 12
//!   layer 2                              │ frame │
//!             frame: addresses and type 14 │ 46 bytes or more │ frame check sequence 4
//! ```
//!
//! Frame sizes are those of RFC 2544: with the frame check sequence, without preamble and gap. They may be averages of a mix, and are
//! no whole numbers then. Rates are in bits a second or frames a second, 1 Gb/s is 10⁹ bits a second.
//!
//! # Which layer the bare-metal document counts
//!
//! Its Gb/s are of layer 1. The last row of its Table 2, the largest packets (1,500 bytes), has 95.7 Gb/s on one link of 100 Gb/s, on
//! which each frame leaves again with Geneve. Counted at layer 2 these would be 7.98 million frames a second, which with Geneve fill
//! 100.2 Gb/s (without options) or 100.7 Gb/s (with one of 8 bytes) of the link: more than it has. At layer 1 they are 7.87 million, and
//! 98.9 or 99.4 Gb/s. The same reading gives 196.8 Gb/s of Geneve for the last row of Table 3 (189.6 Gb/s on two links), if it carries an
//! option of 8 bytes; its conclusion says about 197. The Geneve column of Table 2 cannot be had from its throughput with one
//! encapsulation for all rows: it is 12.0 % more in the first row and 2.6 % more in the last, which no size of header explains.

use sluice_trial::topology::Topology;
use sluice_trial::traffic;

/// Preamble and start of frame delimiter, bytes (IEEE 802.3).
pub const PREAMBLE: u32 = 8;
/// Inter-frame gap, bytes (IEEE 802.3).
pub const INTER_FRAME_GAP: u32 = 12;
/// Frame check sequence, bytes.
pub const FRAME_CHECK_SEQUENCE: u32 = 4;
/// Ethernet header: two addresses and a type, bytes.
pub const ETHERNET_HEADER: u32 = 14;
/// VLAN tag (IEEE 802.1Q), bytes.
pub const VLAN_TAG: u32 = 4;
/// Shortest frame, with its frame check sequence, bytes.
pub const SHORTEST_FRAME: u32 = 64;
/// Longest frame that is reckoned with: the longest IP packet in a tagged frame.
pub const LONGEST_FRAME: u32 = 65_535 + ETHERNET_HEADER + VLAN_TAG + FRAME_CHECK_SEQUENCE;

/// UDP header, bytes.
const UDP_HEADER: u32 = 8;
/// Geneve (RFC 8926 section 3.4) and VXLAN (RFC 7348 section 5) headers, bytes; options come on top.
const TUNNEL_HEADER: u32 = 8;
/// Longest Geneve options: 63 words of 4 bytes.
const LONGEST_OPTIONS: u32 = 252;

/// What cannot be reckoned with.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum LineRateError {
    /// No size of a frame.
    #[error(
        "a frame of {bytes} bytes: with its frame check sequence it has {SHORTEST_FRAME} to {LONGEST_FRAME}"
    )]
    FrameBytes {
        /// The size.
        bytes: f64,
    },
    /// No speed of a link.
    #[error("a link of {bits_per_second} bits a second: it has to be more than 0, and finite")]
    LinkSpeed {
        /// The speed.
        bits_per_second: f64,
    },
    /// No Geneve options.
    #[error("Geneve options of {bytes} bytes: they are a multiple of 4, to {LONGEST_OPTIONS}")]
    GeneveOptions {
        /// Their length.
        bytes: u32,
    },
    /// A number that is negative, infinite or none.
    #[error("{what} of {value}: it has to be {range}, and finite")]
    Number {
        /// What it is.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What is possible.
        range: &'static str,
    },
}

/// Size of a frame with its frame check sequence, or the average of several, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct FrameBytes(f64);

impl FrameBytes {
    /// A size.
    ///
    /// # Errors
    ///
    /// Outside [`SHORTEST_FRAME`] to [`LONGEST_FRAME`].
    pub fn new(bytes: f64) -> Result<Self, LineRateError> {
        if (f64::from(SHORTEST_FRAME)..=f64::from(LONGEST_FRAME)).contains(&bytes) {
            Ok(Self(bytes))
        } else {
            Err(LineRateError::FrameBytes { bytes })
        }
    }

    /// The size at layer 2, bytes.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The size at layer 1, with preamble and gap, bytes.
    pub fn on_the_wire(self) -> f64 {
        self.0 + f64::from(PREAMBLE + INTER_FRAME_GAP)
    }

    /// Bits a second at layer 1 of so many frames a second.
    pub fn layer_1_bits_per_second(self, frames_per_second: f64) -> f64 {
        self.on_the_wire() * 8.0 * frames_per_second
    }

    /// Bits a second at layer 2 of so many frames a second.
    pub fn layer_2_bits_per_second(self, frames_per_second: f64) -> f64 {
        self.0 * 8.0 * frames_per_second
    }
}

/// Speed of a link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct LinkSpeed(f64);

impl LinkSpeed {
    /// 10 Gb/s.
    pub const GIGABITS_10: Self = Self(10e9);
    /// 25 Gb/s.
    pub const GIGABITS_25: Self = Self(25e9);
    /// 100 Gb/s.
    pub const GIGABITS_100: Self = Self(100e9);
    /// 200 Gb/s, or two links of 100 Gb/s.
    pub const GIGABITS_200: Self = Self(200e9);

    /// A speed in bits a second.
    ///
    /// # Errors
    ///
    /// Where it is not more than 0, or not finite.
    pub fn new(bits_per_second: f64) -> Result<Self, LineRateError> {
        if bits_per_second.is_finite() && bits_per_second > 0.0 {
            Ok(Self(bits_per_second))
        } else {
            Err(LineRateError::LinkSpeed { bits_per_second })
        }
    }

    /// Bits a second.
    pub fn bits_per_second(self) -> f64 {
        self.0
    }

    /// The highest frame rate, frames a second.
    pub fn frames_per_second(self, frame: FrameBytes) -> f64 {
        self.0 / (frame.on_the_wire() * 8.0)
    }

    /// The share of the link that so many frames a second take, 0 to 1, or above 1 where they do not fit.
    pub fn utilization(self, frame: FrameBytes, frames_per_second: f64) -> f64 {
        frame.layer_1_bits_per_second(frames_per_second) / self.0
    }
}

/// A tunnel protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunnel {
    /// Geneve (RFC 8926).
    Geneve {
        /// Length of its options, a multiple of 4 to 252 bytes.
        option_bytes: u32,
    },
    /// VXLAN (RFC 7348).
    Vxlan,
    /// No tunnel: frames stay as long as they are.
    None,
}

/// Version of the outer IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outer {
    /// IPv4, without options.
    Ipv4,
    /// IPv6, without extension headers.
    Ipv6,
}

/// What a tunnel puts around a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    tunnel: Tunnel,
    outer: Outer,
    vlan: bool,
}

impl Encapsulation {
    /// A tunnel over an IP version, in frames with or without a VLAN tag.
    ///
    /// # Errors
    ///
    /// For a length of options that Geneve cannot have.
    pub fn new(tunnel: Tunnel, outer: Outer, vlan: bool) -> Result<Self, LineRateError> {
        match tunnel {
            Tunnel::Geneve { option_bytes: bytes } if bytes % 4 != 0 || bytes > LONGEST_OPTIONS => {
                Err(LineRateError::GeneveOptions { bytes })
            }
            _ => Ok(Self { tunnel, outer, vlan }),
        }
    }

    /// That of a bench's downlinks, whose tunnels have no options.
    ///
    /// # Errors
    ///
    /// None: there are no options that could be wrong.
    pub fn of(topology: &Topology) -> Result<Self, LineRateError> {
        let tunnel = match topology.encapsulation {
            traffic::Encapsulation::Geneve => Tunnel::Geneve { option_bytes: 0 },
            traffic::Encapsulation::Vxlan => Tunnel::Vxlan,
            traffic::Encapsulation::None => Tunnel::None,
        };
        let outer = if topology.outer == traffic::Family::Ipv4 { Outer::Ipv4 } else { Outer::Ipv6 };
        Self::new(tunnel, outer, false)
    }

    /// Bytes that it adds to a frame. The inner frame loses its frame check sequence, the outer one has its own: they cancel out.
    pub fn overhead(self) -> u32 {
        let options = match self.tunnel {
            Tunnel::Geneve { option_bytes } => option_bytes,
            Tunnel::Vxlan => 0,
            Tunnel::None => return 0,
        };
        let ip = match self.outer {
            Outer::Ipv4 => 20,
            Outer::Ipv6 => 40,
        };
        let tag = if self.vlan { VLAN_TAG } else { 0 };
        ETHERNET_HEADER + tag + ip + UDP_HEADER + TUNNEL_HEADER + options
    }

    /// The size of a frame in the tunnel.
    ///
    /// # Errors
    ///
    /// Where that is more than [`LONGEST_FRAME`].
    pub fn encapsulated(self, frame: FrameBytes) -> Result<FrameBytes, LineRateError> {
        FrameBytes::new(frame.get() + f64::from(self.overhead()))
    }
}

/// A row of the tables in the bare-metal document: a tester sends frames to an edge, which sends them on in a tunnel; hosts send them
/// back through the tunnel, and the edge returns them to the tester. Bits a second are of layer 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DocumentRow {
    /// Size of the frames that the tester sends.
    pub sent: FrameBytes,
    /// What the tester sends and gets back, bits a second.
    pub throughput: f64,
    /// The same in frames a second, over all uplinks.
    pub frames_per_second: f64,
    /// Size of the frames in the tunnel.
    pub encapsulated: FrameBytes,
    /// What the edge sends into the tunnel, bits a second.
    pub egress: f64,
    /// The share of the downlinks that this takes, 0 to 1.
    pub utilization: f64,
    /// What goes through all ports of the edge, in and out: twice what the tester sends and twice what goes into the tunnel, bits a second.
    pub total: f64,
}

impl DocumentRow {
    /// The row of a frame rate. `downlinks` is the speed of all downlinks together.
    ///
    /// # Errors
    ///
    /// For a frame rate that is negative or not finite, or frames that are too long in the tunnel.
    pub fn new(
        sent: FrameBytes,
        frames_per_second: f64,
        encapsulation: Encapsulation,
        downlinks: LinkSpeed,
    ) -> Result<Self, LineRateError> {
        not_negative("a frame rate", frames_per_second)?;
        let encapsulated = encapsulation.encapsulated(sent)?;
        let throughput = sent.layer_1_bits_per_second(frames_per_second);
        let egress = encapsulated.layer_1_bits_per_second(frames_per_second);
        Ok(Self {
            sent,
            throughput,
            frames_per_second,
            encapsulated,
            egress,
            utilization: downlinks.utilization(encapsulated, frames_per_second),
            total: 2.0 * (throughput + egress),
        })
    }
}

/// Cores that are busy all the time with so many frames a second: round up for whole cores. Measured cycles a packet hold for the size,
/// the number of flows and the services that they were measured with, and assume that the load spreads evenly.
///
/// # Errors
///
/// Where a number is negative or not finite, or the clock stands still.
pub fn cores(frames_per_second: f64, cycles_per_packet: f64, clock_hertz: f64) -> Result<f64, LineRateError> {
    not_negative("a frame rate", frames_per_second)?;
    not_negative("a cost in cycles a packet", cycles_per_packet)?;
    not_negative("a clock in hertz", clock_hertz)?;
    if clock_hertz == 0.0 {
        return Err(LineRateError::Number { what: "a clock in hertz", value: 0.0, range: "above 0" });
    }
    Ok(frames_per_second * cycles_per_packet / clock_hertz)
}

/// Whole cores for links of 10, 25, 100 and 200 Gb/s that are full of frames of one size, in one direction.
///
/// # Errors
///
/// As of [`cores`].
pub fn cores_for_links(
    frame: FrameBytes,
    cycles_per_packet: f64,
    clock_hertz: f64,
) -> Result<[(LinkSpeed, u64); 4], LineRateError> {
    let mut needed =
        [LinkSpeed::GIGABITS_10, LinkSpeed::GIGABITS_25, LinkSpeed::GIGABITS_100, LinkSpeed::GIGABITS_200]
            .map(|link| (link, 0));
    for (link, whole) in &mut needed {
        *whole = cores(link.frames_per_second(frame), cycles_per_packet, clock_hertz)?.ceil() as u64;
    }
    Ok(needed)
}

fn not_negative(what: &'static str, value: f64) -> Result<(), LineRateError> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(LineRateError::Number { what, value, range: "0 or more" })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(bytes: u32) -> FrameBytes {
        FrameBytes::new(f64::from(bytes)).unwrap()
    }

    fn geneve(option_bytes: u32) -> Encapsulation {
        Encapsulation::new(Tunnel::Geneve { option_bytes }, Outer::Ipv4, false).unwrap()
    }

    fn gigabits(bits: f64) -> f64 {
        (bits / 1e8).round() / 10.0
    }

    #[test]
    fn line_rates_are_the_known_ones() {
        assert_eq!(LinkSpeed::GIGABITS_10.frames_per_second(bytes(64)) as u64, 14_880_952);
        assert_eq!(LinkSpeed::new(1e9).unwrap().frames_per_second(bytes(1518)) as u64, 81_274);
        let known = [
            (LinkSpeed::GIGABITS_10, [14.881, 2.350, 0.813]),
            (LinkSpeed::GIGABITS_25, [37.202, 5.874, 2.032]),
            (LinkSpeed::GIGABITS_100, [148.810, 23.496, 8.127]),
        ];
        for (link, millions) in known {
            for (size, million) in [64, 512, 1518].into_iter().zip(millions) {
                let rate = link.frames_per_second(bytes(size)) / 1e6;
                assert!((rate - million).abs() < 0.000_51, "{link:?} {size}: {rate}");
            }
        }
    }

    #[test]
    fn encapsulation_adds_its_headers() {
        let overhead = |tunnel, outer, vlan| Encapsulation::new(tunnel, outer, vlan).unwrap().overhead();
        assert_eq!(overhead(Tunnel::None, Outer::Ipv6, true), 0);
        assert_eq!(overhead(Tunnel::Vxlan, Outer::Ipv4, false), 50);
        assert_eq!(overhead(Tunnel::Vxlan, Outer::Ipv6, true), 74);
        assert_eq!(overhead(Tunnel::Geneve { option_bytes: 8 }, Outer::Ipv6, false), 78);
        assert_eq!(geneve(8).encapsulated(bytes(1_500)), Ok(bytes(1_558)));
        // A workload's IP packet of 1,500 bytes needs an underlay MTU of 1,550, and 1,558 with an option.
        let packet = geneve(0).encapsulated(bytes(1_518)).unwrap().get() - 18.0;
        assert_eq!(packet, 1_550.0);
        for bytes in [2, 256] {
            let tunnel = Tunnel::Geneve { option_bytes: bytes };
            assert_eq!(
                Encapsulation::new(tunnel, Outer::Ipv4, false),
                Err(LineRateError::GeneveOptions { bytes })
            );
        }
        assert!(geneve(252).encapsulated(bytes(LONGEST_FRAME)).is_err());
    }

    #[test]
    fn the_largest_packets_of_table_2_fit_their_link_at_layer_1_alone() {
        let link = LinkSpeed::GIGABITS_100;
        let at_layer_2 = 95.7e9 / (1_500.0 * 8.0);
        let at_layer_1 = 95.7e9 / (1_520.0 * 8.0);
        for option_bytes in [0, 8] {
            let egress =
                |rate| DocumentRow::new(bytes(1_500), rate, geneve(option_bytes), link).unwrap().utilization;
            assert!(egress(at_layer_2) > 1.0 && egress(at_layer_1) < 1.0);
        }
        let row = DocumentRow::new(bytes(1_500), at_layer_1, geneve(8), link).unwrap();
        assert_eq!((gigabits(row.throughput), gigabits(row.egress)), (95.7, 99.4));
        assert_eq!((row.frames_per_second / 1e4).round() / 100.0, 7.87);
        assert_eq!(gigabits(row.total), 390.1);
    }

    #[test]
    fn the_largest_packets_of_table_3_are_the_197_gigabits_of_its_conclusion() {
        let rate = 189.6e9 / (1_520.0 * 8.0);
        let row = DocumentRow::new(bytes(1_500), rate, geneve(8), LinkSpeed::GIGABITS_200).unwrap();
        assert_eq!(row.encapsulated, bytes(1_558));
        assert_eq!((gigabits(row.throughput), gigabits(row.egress)), (189.6, 196.8));
        assert!((row.utilization - 0.984).abs() < 0.000_5, "{}", row.utilization);
        let without = DocumentRow::new(bytes(1_500), rate, geneve(0), LinkSpeed::GIGABITS_200).unwrap();
        assert_eq!(gigabits(without.egress), 195.8);
    }

    #[test]
    fn cores_follow_from_cycles() {
        // 14.88 million frames of 100 cycles at 2 GHz.
        assert!(
            (cores(LinkSpeed::GIGABITS_10.frames_per_second(bytes(64)), 100.0, 2e9).unwrap() - 0.744).abs()
                < 1e-3
        );
        let needed = cores_for_links(bytes(64), 200.0, 2e9).unwrap();
        assert_eq!(needed.map(|(_, cores)| cores), [2, 4, 15, 30]);
        assert_eq!(needed[3].0.bits_per_second(), 200e9);
        assert_eq!(cores(0.0, 100.0, 1e9), Ok(0.0));
        for (rate, cycles, clock) in
            [(-1.0, 1.0, 1.0), (1.0, f64::NAN, 1.0), (1.0, 1.0, 0.0), (1.0, 1.0, f64::INFINITY)]
        {
            assert!(matches!(cores(rate, cycles, clock), Err(LineRateError::Number { .. })));
        }
    }

    #[test]
    fn sizes_and_speeds_out_of_range_are_refused() {
        for bytes in [63.9, 0.0, -64.0, f64::NAN, f64::INFINITY, f64::from(LONGEST_FRAME) + 1.0] {
            assert!(FrameBytes::new(bytes).is_err(), "{bytes}");
        }
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(LinkSpeed::new(speed).is_err(), "{speed}");
        }
        assert_eq!(
            FrameBytes::new(60.0).unwrap_err().to_string(),
            "a frame of 60 bytes: with its frame check sequence it has 64 to 65557"
        );
        let link = LinkSpeed::GIGABITS_10;
        assert!(DocumentRow::new(bytes(64), f64::NAN, geneve(0), link).is_err());
    }

    proptest! {
        #[test]
        fn a_full_link_is_utilized_whole(size in 64..9_000u32, speed in 1e6..1e12f64) {
            let link = LinkSpeed::new(speed).unwrap();
            let rate = link.frames_per_second(bytes(size));
            prop_assert!((link.utilization(bytes(size), rate) - 1.0).abs() < 1e-9);
            let layers = bytes(size).layer_1_bits_per_second(rate) - bytes(size).layer_2_bits_per_second(rate);
            prop_assert!((layers - rate * 160.0).abs() < speed * 1e-9, "20 bytes a frame");
        }
    }
}
