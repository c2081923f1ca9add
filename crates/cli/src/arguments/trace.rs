//! `trace`: the packet to follow.

use std::net::IpAddr;

use clap::{Args, Subcommand, ValueEnum};
use sluice_control::{TracePacket, TracePayload, TraceProtocol};

use crate::error::CliError;

/// Source port of a traced packet: the first of the dynamic ports (RFC 6335 section 6).
const SOURCE_PORT: u16 = 49152;
/// Destination port of a traced packet.
const DESTINATION_PORT: u16 = 443;
/// Bytes of an Ethernet header, the least that a frame has.
const MIN_FRAME: usize = 14;

/// A packet to follow.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Trace {
    /// A packet that a workload of this node would send
    #[command(
        override_usage = "sluice trace from <WORKLOAD> to <ADDRESS> [OPTIONS]",
        after_help = "Examples:
  sluice trace from vm-1 to 10.10.30.10
  sluice trace from vm-1 to 2001:db8::10 --protocol icmp
  sluice trace from vm-1 to 192.0.2.10 --protocol udp --port 53 --ttl 1"
    )]
    From {
        /// The workload
        workload: String,
        /// The word 'to'
        #[arg(value_name = "to", value_parser = ["to"], hide_possible_values = true)]
        to: String,
        /// Destination address
        #[arg(value_name = "ADDRESS")]
        destination: IpAddr,
        #[command(flatten)]
        payload: PayloadArguments,
    },
    /// A packet that would come in on an uplink, addressed to the gateway's interface there
    #[command(after_help = "Examples:
  sluice trace uplink fp-eth1 --source 192.0.2.10 --destination 10.10.20.10
  sluice trace uplink fp-eth1 --vlan 200 --source 192.0.2.10 --destination 10.10.20.10 --protocol icmp")]
    Uplink {
        /// The port
        port: String,
        /// VLAN, if the packet is tagged
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4094))]
        vlan: Option<u16>,
        /// Source address
        #[arg(long, value_name = "ADDRESS")]
        source: IpAddr,
        /// Destination address
        #[arg(long, value_name = "ADDRESS")]
        destination: IpAddr,
        #[command(flatten)]
        payload: PayloadArguments,
    },
    /// Bytes as they would come in on a port
    #[command(after_help = "Examples:
  sluice trace frame fp-eth1 'ff:ff:ff:ff:ff:ff 02:00:00:00:00:01 08:06 00:01 ...'")]
    Frame {
        /// The port
        port: String,
        /// The frame, two hexadecimal digits a byte; spaces and colons are passed over
        #[arg(value_name = "HEX", required = true)]
        frame: Vec<String>,
    },
}

/// What the packet carries.
#[derive(Args, Clone, Debug)]
pub(crate) struct PayloadArguments {
    /// Transport protocol
    #[arg(long, value_enum, default_value_t = Protocol::Udp)]
    protocol: Protocol,
    /// Destination port of UDP and TCP [default: 443]
    #[arg(id = "destination-port", long = "port", value_name = "PORT")]
    port: Option<u16>,
    /// Source port of UDP and TCP [default: 49152]
    #[arg(long, value_name = "PORT")]
    source_port: Option<u16>,
    /// Time to live, or hop limit
    #[arg(long, default_value_t = 64)]
    ttl: u8,
    /// Bytes of the IP packet
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    length: u16,
}

/// Transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    // An echo request.
    Icmp,
    Udp,
    Tcp,
}

impl Trace {
    /// The packet as the node is asked to follow it.
    pub(crate) fn packet(self) -> Result<TracePacket, CliError> {
        Ok(match self {
            Self::From { workload, destination, payload, .. } => {
                TracePacket::FromWorkload { workload, destination, payload: payload.payload()? }
            }
            Self::Uplink { port, vlan, source, destination, payload } => {
                if source.is_ipv4() != destination.is_ipv4() {
                    return Err(CliError::usage(format!(
                        "{source} and {destination} are of different IP versions; give two of the same"
                    )));
                }
                TracePacket::FromUplink { port, vlan, source, destination, payload: payload.payload()? }
            }
            Self::Frame { port, frame } => TracePacket::Frame { port, frame: hexadecimal(&frame.concat())? },
        })
    }
}

impl PayloadArguments {
    fn payload(&self) -> Result<TracePayload, CliError> {
        if self.protocol == Protocol::Icmp && (self.port.is_some() || self.source_port.is_some()) {
            return Err(CliError::usage("an ICMP packet has no ports; leave --port and --source-port out"));
        }
        let protocol = match self.protocol {
            Protocol::Icmp => TraceProtocol::Icmp,
            Protocol::Udp => TraceProtocol::Udp,
            Protocol::Tcp => TraceProtocol::Tcp,
        };
        let port = |given: Option<u16>, default| match protocol {
            TraceProtocol::Icmp => 0,
            TraceProtocol::Udp | TraceProtocol::Tcp => given.unwrap_or(default),
        };
        Ok(TracePayload {
            protocol,
            source_port: port(self.source_port, SOURCE_PORT),
            destination_port: port(self.port, DESTINATION_PORT),
            ttl: self.ttl,
            length: self.length,
        })
    }
}

/// The digits of a frame without what people put between them.
fn hexadecimal(text: &str) -> Result<String, CliError> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    if let Some(wrong) = digits.chars().find(|c| !c.is_ascii_hexdigit()) {
        return Err(CliError::usage(format!(
            "'{wrong}' in the frame is no hexadecimal digit; give two a byte"
        )));
    }
    if !digits.len().is_multiple_of(2) {
        return Err(CliError::usage(format!(
            "the frame has {} hexadecimal digits, so its last byte is cut in half; give two a byte",
            digits.len()
        )));
    }
    if digits.len() < 2 * MIN_FRAME {
        return Err(CliError::usage(format!(
            "the frame has {} bytes; an Ethernet header alone has {MIN_FRAME}",
            digits.len() / 2
        )));
    }
    Ok(digits.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        trace: Trace,
    }

    fn packet(words: &str) -> Result<TracePacket, String> {
        let line = Line::try_parse_from(std::iter::once("trace").chain(words.split_whitespace()))
            .map_err(|error| error.to_string())?;
        line.trace.packet().map_err(|error| error.to_string())
    }

    #[test]
    fn packets_have_defaults_and_take_what_is_given() {
        let Ok(TracePacket::FromWorkload { payload, .. }) = packet("from vm-1 to 10.0.0.1") else {
            panic!("workload and destination are enough");
        };
        assert_eq!((payload.source_port, payload.destination_port), (SOURCE_PORT, DESTINATION_PORT));
        assert_eq!((payload.protocol, payload.ttl, payload.length), (TraceProtocol::Udp, 64, 100));

        let given = packet(
            "uplink fp-eth1 --vlan 7 --source 192.0.2.1 --destination 10.0.0.1 --protocol tcp --port 80 \
             --source-port 1024 --ttl 1 --length 1500",
        );
        let expected = TracePacket::FromUplink {
            port: "fp-eth1".into(),
            vlan: Some(7),
            source: "192.0.2.1".parse().unwrap(),
            destination: "10.0.0.1".parse().unwrap(),
            payload: TracePayload {
                protocol: TraceProtocol::Tcp,
                source_port: 1024,
                destination_port: 80,
                ttl: 1,
                length: 1500,
            },
        };
        assert_eq!(given, Ok(expected));
    }

    #[test]
    fn frames_may_be_written_as_dumps_write_them() {
        let frame = packet("frame fp-eth1 FF:ff:ff:ff:ff:ff 020000000001 08 06").unwrap();
        assert_eq!(
            frame,
            TracePacket::Frame { port: "fp-eth1".into(), frame: "ffffffffffff0200000000010806".into() }
        );
    }

    #[test]
    fn what_cannot_be_a_packet_is_told() {
        let cases = [
            ("from vm-1 on 10.0.0.1", "'on'"),
            ("from vm-1 to 10.0.0", "10.0.0"),
            ("from vm-1 to 10.0.0.1 --protocol icmp --port 1", "no ports"),
            ("uplink e --source 192.0.2.1 --destination 2001:db8::1", "different IP versions"),
            ("uplink e --vlan 4095 --source 192.0.2.1 --destination 192.0.2.2", "4094"),
            ("frame e 0g", "'g' in the frame"),
            ("frame e 000", "cut in half"),
            ("frame e 0000", "2 bytes"),
        ];
        for (words, message) in cases {
            let error = packet(words).unwrap_err();
            assert!(error.contains(message), "{words}: {error}");
        }
    }
}
