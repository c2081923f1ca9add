//! A frame of the layers in a JSON object.

use std::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Deserializer};
use sluice_wire::arp::{Arp, ArpOperation};
use sluice_wire::bfd::{Bfd, BfdDiagnostic, BfdState};
use sluice_wire::ethernet::VlanTag;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::geneve::{Geneve, GeneveOption};
use sluice_wire::icmpv4::Icmpv4;
use sluice_wire::icmpv6::Icmpv6;
use sluice_wire::ipv4::Ipv4;
use sluice_wire::ipv6::Ipv6;
use sluice_wire::lacp::{Lacp, LacpState, PortInfo};
use sluice_wire::marker::{Marker, MarkerKind};
use sluice_wire::neighbor::{
    NeighborAdvertisement, NeighborMessage, NeighborOption, PrefixInformation, RouterAdvertisement,
};
use sluice_wire::options::OptionBytes;
use sluice_wire::tcp::{Tcp, TcpFlags};
use sluice_wire::vxlan::Vxlan;
use sluice_wire::{Dscp, Ecn, EtherType, IpProtocol, MacAddr, VlanId, Vni};

use crate::hex;

/// The frame of the layers in `text`.
pub(crate) fn frame(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let request: Request = serde_json::from_str(text)?;
    let mut builder = FrameBuilder::new();
    for layer in request.layers {
        builder = layer.add_to(builder)?;
    }
    Ok(builder.build()?)
}

#[derive(Deserialize)]
struct Request {
    layers: Vec<Layer>,
}

/// Octets written as hexadecimal digits.
#[derive(Default)]
struct Octets(Vec<u8>);

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        hex::decode(&text).map(Self).ok_or_else(|| serde::de::Error::custom("not hexadecimal digits"))
    }
}

#[derive(Deserialize)]
#[serde(tag = "layer", rename_all = "snake_case")]
enum Layer {
    Ethernet(EthernetLayer),
    Arp(ArpLayer),
    Ipv4(Ipv4Layer),
    Ipv6(Ipv6Layer),
    Udp(UdpLayer),
    Tcp(TcpLayer),
    Icmpv4(IcmpLayer),
    Icmpv6(IcmpLayer),
    Neighbor(NeighborLayer),
    Geneve(GeneveLayer),
    Vxlan { vni: u32 },
    Bfd(BfdLayer),
    Lacp(LacpLayer),
    Marker(MarkerLayer),
    Payload { data: Octets },
}

#[derive(Deserialize)]
struct EthernetLayer {
    source: MacAddr,
    destination: MacAddr,
    #[serde(default)]
    tags: Vec<Tag>,
    ether_type: Option<EtherType>,
}

#[derive(Deserialize)]
struct Tag {
    ether_type: EtherType,
    priority: u8,
    drop_eligible: bool,
    id: VlanId,
}

#[derive(Deserialize)]
struct ArpLayer {
    operation: u16,
    sender_mac: MacAddr,
    sender_address: Ipv4Addr,
    target_mac: MacAddr,
    target_address: Ipv4Addr,
}

#[derive(Deserialize)]
struct Ipv4Layer {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: IpProtocol,
    ttl: u8,
    dscp: Dscp,
    ecn: u8,
    identification: u16,
    reserved_flag: bool,
    dont_fragment: bool,
    more_fragments: bool,
    fragment_offset: u16,
    options: Octets,
}

#[derive(Deserialize)]
struct Ipv6Layer {
    source: Ipv6Addr,
    destination: Ipv6Addr,
    next_header: IpProtocol,
    hop_limit: u8,
    dscp: Dscp,
    ecn: u8,
    flow_label: u32,
    #[serde(default)]
    extension_headers: Vec<Extension>,
}

#[derive(Deserialize)]
struct Extension {
    protocol: IpProtocol,
    body: Octets,
}

#[derive(Deserialize)]
struct UdpLayer {
    source_port: u16,
    destination_port: u16,
    #[serde(default)]
    without_checksum: bool,
}

#[derive(Deserialize)]
struct TcpLayer {
    source_port: u16,
    destination_port: u16,
    sequence: u32,
    acknowledgment: u32,
    flags: u16,
    window: u16,
    urgent_pointer: u16,
    options: Octets,
}

#[derive(Deserialize)]
struct IcmpLayer {
    kind: u8,
    code: u8,
    rest: Octets,
}

#[derive(Deserialize)]
struct NeighborLayer {
    #[serde(flatten)]
    message: Message,
    #[serde(default)]
    options: Vec<MessageOption>,
}

#[derive(Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
enum Message {
    RouterSolicitation,
    RouterAdvertisement {
        hop_limit: u8,
        managed: bool,
        other_configuration: bool,
        router_lifetime: u16,
        reachable_time: u32,
        retransmit_timer: u32,
    },
    NeighborSolicitation {
        target: Ipv6Addr,
    },
    NeighborAdvertisement {
        router: bool,
        solicited: bool,
        override_cache: bool,
        target: Ipv6Addr,
    },
}

#[derive(Deserialize)]
#[serde(tag = "option", rename_all = "snake_case")]
enum MessageOption {
    SourceLinkLayer {
        mac: MacAddr,
    },
    TargetLinkLayer {
        mac: MacAddr,
    },
    Mtu {
        mtu: u32,
    },
    PrefixInformation {
        prefix: Ipv6Addr,
        prefix_len: u8,
        on_link: bool,
        autonomous: bool,
        valid_lifetime: u32,
        preferred_lifetime: u32,
    },
    Other {
        kind: u8,
        data: Octets,
    },
}

#[derive(Deserialize)]
struct GeneveLayer {
    vni: u32,
    protocol: EtherType,
    control: bool,
    #[serde(default)]
    options: Vec<TunnelOption>,
}

#[derive(Deserialize)]
struct TunnelOption {
    class: u16,
    kind: u8,
    data: Octets,
}

#[derive(Deserialize)]
struct BfdLayer {
    state: u8,
    diagnostic: u8,
    poll: bool,
    r#final: bool,
    control_plane_independent: bool,
    demand: bool,
    detect_multiplier: u8,
    my_discriminator: u32,
    your_discriminator: u32,
    desired_min_tx: u32,
    required_min_rx: u32,
    required_min_echo_rx: u32,
}

#[derive(Deserialize)]
struct LacpLayer {
    actor: PortFields,
    partner: PortFields,
    collector_max_delay: u16,
}

#[derive(Deserialize)]
struct PortFields {
    system_priority: u16,
    system: MacAddr,
    key: u16,
    port_priority: u16,
    port: u16,
    state: u8,
}

#[derive(Deserialize)]
struct MarkerLayer {
    response: bool,
    requester_port: u16,
    requester_system: MacAddr,
    requester_transaction: u32,
}

impl Layer {
    fn add_to(self, builder: FrameBuilder) -> Result<FrameBuilder, Box<dyn Error>> {
        Ok(match self {
            Self::Ethernet(layer) => layer.add_to(builder),
            Self::Arp(layer) => builder.arp(layer.into()),
            Self::Ipv4(layer) => builder.ipv4_header(layer.header()?),
            Self::Ipv6(layer) => layer.add_to(builder),
            Self::Udp(UdpLayer { source_port, destination_port, without_checksum: true }) => {
                builder.udp_without_checksum(source_port, destination_port)
            }
            Self::Udp(layer) => builder.udp(layer.source_port, layer.destination_port),
            Self::Tcp(layer) => builder.tcp_header(layer.header()?),
            Self::Icmpv4(IcmpLayer { kind, code, rest }) => {
                builder.icmpv4(Icmpv4::Other { kind, code, rest: rest.four()? })
            }
            Self::Icmpv6(IcmpLayer { kind, code, rest }) => {
                builder.icmpv6(Icmpv6::Other { kind, code, rest: rest.four()? })
            }
            Self::Neighbor(NeighborLayer { message, options }) => {
                let options: Vec<_> = options.iter().map(MessageOption::option).collect();
                builder.neighbor(message.into(), &options)
            }
            Self::Geneve(layer) => builder.geneve_header(layer.header()?),
            Self::Vxlan { vni } => builder.vxlan_header(Vxlan { vni: Vni::new(vni).ok() }),
            Self::Bfd(layer) => builder.bfd(layer.packet()?),
            Self::Lacp(layer) => builder.lacp(layer.into()),
            Self::Marker(layer) => builder.marker(layer.into()),
            Self::Payload { data } => builder.payload(&data.0),
        })
    }
}

impl Octets {
    fn four(&self) -> Result<[u8; 4], Box<dyn Error>> {
        Ok(self.0.as_slice().try_into()?)
    }
}

impl EthernetLayer {
    fn add_to(self, builder: FrameBuilder) -> FrameBuilder {
        let mut builder = builder.ethernet(self.source, self.destination);
        for Tag { ether_type, priority, drop_eligible, id } in self.tags {
            builder = builder.tag(VlanTag { ether_type, priority, drop_eligible, id });
        }
        match self.ether_type {
            Some(ether_type) => builder.ether_type(ether_type),
            None => builder,
        }
    }
}

impl From<ArpLayer> for Arp {
    fn from(layer: ArpLayer) -> Self {
        Self {
            operation: ArpOperation(layer.operation),
            sender_mac: layer.sender_mac,
            sender_address: layer.sender_address,
            target_mac: layer.target_mac,
            target_address: layer.target_address,
        }
    }
}

impl Ipv4Layer {
    fn header(self) -> Result<Ipv4, Box<dyn Error>> {
        Ok(Ipv4 {
            ttl: self.ttl,
            dscp: self.dscp,
            ecn: Ecn::from_traffic_class(self.ecn),
            identification: self.identification,
            reserved_flag: self.reserved_flag,
            dont_fragment: self.dont_fragment,
            more_fragments: self.more_fragments,
            fragment_offset: self.fragment_offset,
            options: OptionBytes::new(&self.options.0)?,
            ..Ipv4::new(self.source, self.destination, self.protocol)
        })
    }
}

impl Ipv6Layer {
    fn add_to(self, builder: FrameBuilder) -> FrameBuilder {
        let header = Ipv6 {
            hop_limit: self.hop_limit,
            dscp: self.dscp,
            ecn: Ecn::from_traffic_class(self.ecn),
            flow_label: self.flow_label,
            ..Ipv6::new(self.source, self.destination, self.next_header)
        };
        let extensions = self.extension_headers.iter();
        extensions.fold(builder.ipv6_header(header), |builder, Extension { protocol, body }| {
            builder.extension(*protocol, &body.0)
        })
    }
}

impl TcpLayer {
    fn header(self) -> Result<Tcp, Box<dyn Error>> {
        Ok(Tcp {
            sequence: self.sequence,
            acknowledgment: self.acknowledgment,
            window: self.window,
            urgent_pointer: self.urgent_pointer,
            options: OptionBytes::new(&self.options.0)?,
            ..Tcp::new(self.source_port, self.destination_port, TcpFlags::from_bits(self.flags))
        })
    }
}

impl From<Message> for NeighborMessage {
    fn from(message: Message) -> Self {
        match message {
            Message::RouterSolicitation => Self::RouterSolicitation,
            Message::RouterAdvertisement {
                hop_limit,
                managed,
                other_configuration,
                router_lifetime,
                reachable_time,
                retransmit_timer,
            } => Self::RouterAdvertisement(RouterAdvertisement {
                hop_limit,
                managed,
                other_configuration,
                router_lifetime,
                reachable_time,
                retransmit_timer,
            }),
            Message::NeighborSolicitation { target } => Self::NeighborSolicitation { target },
            Message::NeighborAdvertisement { router, solicited, override_cache, target } => {
                Self::NeighborAdvertisement(NeighborAdvertisement {
                    router,
                    solicited,
                    override_cache,
                    target,
                })
            }
        }
    }
}

impl MessageOption {
    fn option(&self) -> NeighborOption<'_> {
        match self {
            Self::SourceLinkLayer { mac } => NeighborOption::SourceLinkLayer(*mac),
            Self::TargetLinkLayer { mac } => NeighborOption::TargetLinkLayer(*mac),
            Self::Mtu { mtu } => NeighborOption::Mtu(*mtu),
            Self::PrefixInformation {
                prefix,
                prefix_len,
                on_link,
                autonomous,
                valid_lifetime,
                preferred_lifetime,
            } => NeighborOption::PrefixInformation(PrefixInformation {
                prefix: *prefix,
                prefix_len: *prefix_len,
                on_link: *on_link,
                autonomous: *autonomous,
                valid_lifetime: *valid_lifetime,
                preferred_lifetime: *preferred_lifetime,
            }),
            Self::Other { kind, data } => NeighborOption::Other { kind: *kind, data: &data.0 },
        }
    }
}

impl GeneveLayer {
    fn header(self) -> Result<Geneve, Box<dyn Error>> {
        let mut header = Geneve {
            vni: Vni::new(self.vni).ok(),
            protocol: self.protocol,
            control: self.control,
            ..Geneve::new(Vni::MIN)
        };
        for TunnelOption { class, kind, data } in &self.options {
            header.push_option(GeneveOption { class: *class, kind: *kind, data: &data.0 })?;
        }
        Ok(header)
    }
}

impl BfdLayer {
    fn packet(self) -> Result<Bfd, Box<dyn Error>> {
        let states = [BfdState::AdminDown, BfdState::Down, BfdState::Init, BfdState::Up];
        let state = states.get(usize::from(self.state)).ok_or("a BFD state is below 4")?;
        Ok(Bfd {
            state: *state,
            diagnostic: BfdDiagnostic::from_bits(self.diagnostic),
            poll_flag: self.poll,
            final_flag: self.r#final,
            control_plane_independent: self.control_plane_independent,
            demand: self.demand,
            detect_multiplier: self.detect_multiplier,
            my_discriminator: self.my_discriminator,
            your_discriminator: self.your_discriminator,
            desired_min_tx: self.desired_min_tx,
            required_min_rx: self.required_min_rx,
            required_min_echo_rx: self.required_min_echo_rx,
        })
    }
}

impl From<LacpLayer> for Lacp {
    fn from(layer: LacpLayer) -> Self {
        Self {
            actor: layer.actor.into(),
            partner: layer.partner.into(),
            collector_max_delay: layer.collector_max_delay,
        }
    }
}

impl From<PortFields> for PortInfo {
    fn from(fields: PortFields) -> Self {
        Self {
            system_priority: fields.system_priority,
            system: fields.system,
            key: fields.key,
            port_priority: fields.port_priority,
            port: fields.port,
            state: LacpState::from_bits(fields.state),
        }
    }
}

impl From<MarkerLayer> for Marker {
    fn from(layer: MarkerLayer) -> Self {
        Self {
            kind: if layer.response { MarkerKind::Response } else { MarkerKind::Marker },
            requester_port: layer.requester_port,
            requester_system: layer.requester_system,
            requester_transaction: layer.requester_transaction,
        }
    }
}
