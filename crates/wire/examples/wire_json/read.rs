//! The layers of a frame as JSON.

use serde_json::{Value, json};
use sluice_wire::arp::ArpPacket;
use sluice_wire::bfd::BfdPacket;
use sluice_wire::checksum::PseudoHeader;
use sluice_wire::ethernet::{EthernetView, VlanTag};
use sluice_wire::geneve::GeneveView;
use sluice_wire::icmpv4::{Icmpv4, Icmpv4View};
use sluice_wire::icmpv6::Icmpv6View;
use sluice_wire::ipv4::{Ipv4, Ipv4View};
use sluice_wire::ipv6::Ipv6View;
use sluice_wire::lacp::PortInfo;
use sluice_wire::marker::MarkerKind;
use sluice_wire::neighbor::{NeighborMessage, NeighborOption, NeighborView};
use sluice_wire::options::RawOptions;
use sluice_wire::slow_protocols::SlowProtocol;
use sluice_wire::tcp::{TcpOption, TcpView};
use sluice_wire::udp::{UdpView, port};
use sluice_wire::vxlan::VxlanView;
use sluice_wire::{EtherType, IpProtocol, Vni, WireError, dissect};

use crate::hex;

/// `layers` from the outermost to the innermost, `summary`, and `error` where a layer could not be read.
pub(crate) fn layers(frame: &[u8]) -> Value {
    let mut layers = Vec::new();
    let result = ethernet(frame, &mut layers);
    let mut answer = json!({ "layers": layers, "summary": dissect(frame).to_string() });
    if let Err(WireError { layer, problem }) = result {
        answer["error"] = json!({ "layer": layer.to_string(), "problem": problem.to_string() });
    }
    answer
}

fn ethernet(bytes: &[u8], layers: &mut Vec<Value>) -> Result<(), WireError> {
    let view = EthernetView::parse(bytes)?;
    let tags: Vec<Value> = [view.outer_tag(), view.inner_tag()].iter().flatten().map(vlan_tag).collect();
    layers.push(json!({
        "layer": "ethernet",
        "source": view.source(),
        "destination": view.destination(),
        "tags": tags,
        "ether_type": view.ether_type(),
    }));
    network(view.ether_type(), view.payload(), layers)
}

fn vlan_tag(tag: &VlanTag) -> Value {
    json!({
        "ether_type": tag.ether_type,
        "priority": tag.priority,
        "drop_eligible": tag.drop_eligible,
        "id": tag.id,
    })
}

fn network(ether_type: EtherType, bytes: &[u8], layers: &mut Vec<Value>) -> Result<(), WireError> {
    match ether_type {
        EtherType::TRANSPARENT_ETHERNET => ethernet(bytes, layers),
        EtherType::ARP => arp(bytes, layers),
        EtherType::IPV4 => ipv4(Ipv4View::parse(bytes)?, layers),
        EtherType::SLOW_PROTOCOLS => slow_protocol(bytes, layers),
        EtherType::IPV6 => ipv6(Ipv6View::parse(bytes)?, layers),
        _ => payload(bytes, layers),
    }
}

fn payload(bytes: &[u8], layers: &mut Vec<Value>) -> Result<(), WireError> {
    if !bytes.is_empty() {
        layers.push(json!({ "layer": "payload", "data": hex::encode(bytes) }));
    }
    Ok(())
}

fn arp(bytes: &[u8], layers: &mut Vec<Value>) -> Result<(), WireError> {
    let packet = ArpPacket::parse(bytes)?;
    layers.push(json!({
        "layer": "arp",
        "operation": packet.operation().0,
        "sender_mac": packet.sender_mac(),
        "sender_address": packet.sender_address(),
        "target_mac": packet.target_mac(),
        "target_address": packet.target_address(),
    }));
    Ok(())
}

fn slow_protocol(bytes: &[u8], layers: &mut Vec<Value>) -> Result<(), WireError> {
    layers.push(match SlowProtocol::parse(bytes)? {
        SlowProtocol::Lacp(packet) => json!({
            "layer": "lacp",
            "version": packet.version(),
            "actor": port_info(packet.actor()),
            "partner": port_info(packet.partner()),
            "collector_max_delay": packet.collector_max_delay(),
        }),
        SlowProtocol::Marker(packet) => json!({
            "layer": "marker",
            "response": packet.kind() == MarkerKind::Response,
            "requester_port": packet.requester_port(),
            "requester_system": packet.requester_system(),
            "requester_transaction": packet.requester_transaction(),
        }),
        SlowProtocol::Other { .. } => return payload(bytes, layers),
    });
    Ok(())
}

fn port_info(info: PortInfo) -> Value {
    json!({
        "system_priority": info.system_priority,
        "system": info.system,
        "key": info.key,
        "port_priority": info.port_priority,
        "port": info.port,
        "state": info.state.bits(),
    })
}

fn ipv4(view: Ipv4View<'_>, layers: &mut Vec<Value>) -> Result<(), WireError> {
    layers.push(json!({
        "layer": "ipv4",
        "source": view.source(),
        "destination": view.destination(),
        "protocol": view.protocol(),
        "ttl": view.ttl(),
        "dscp": view.dscp(),
        "ecn": view.ecn() as u8,
        "identification": view.identification(),
        "reserved_flag": Ipv4::from(view).reserved_flag,
        "dont_fragment": view.dont_fragment(),
        "more_fragments": view.more_fragments(),
        "fragment_offset": view.fragment_offset(),
        "header_len": view.header_len(),
        "total_len": view.total_len(),
        "checksum": view.checksum(),
        "checksum_ok": view.verify_checksum().is_ok(),
        "options": hex::encode(view.option_bytes()),
        "option_list": raw_options(view.options()),
    }));
    // What a fragment carries is no whole segment, even where it begins with a transport header.
    if view.is_fragment() {
        return payload(view.payload(), layers);
    }
    upper_layer(view.protocol(), view.payload(), Some(view.pseudo_header()), layers)
}

fn raw_options(options: RawOptions<'_>) -> Vec<Value> {
    options
        .map(|option| match option {
            Ok(option) => json!({ "kind": option.kind, "data": hex::encode(option.data) }),
            Err(error) => json!({ "error": error.to_string() }),
        })
        .collect()
}

fn ipv6(view: Ipv6View<'_>, layers: &mut Vec<Value>) -> Result<(), WireError> {
    let mut extensions = Vec::new();
    let mut routed = false;
    for header in view.extension_headers() {
        let header = header?;
        routed |= header.protocol == IpProtocol::ROUTING;
        extensions.push(json!({
            "protocol": header.protocol,
            "next_header": header.next_header,
            "body": hex::encode(header.body),
        }));
    }
    let fragment = view.fragment().map(|fragment| {
        json!({
            "offset": fragment.offset,
            "more_fragments": fragment.more_fragments,
            "identification": fragment.identification,
        })
    });
    layers.push(json!({
        "layer": "ipv6",
        "source": view.source(),
        "destination": view.destination(),
        "next_header": view.upper_layer(),
        "first_header": view.next_header(),
        "hop_limit": view.hop_limit(),
        "dscp": view.dscp(),
        "ecn": view.ecn() as u8,
        "flow_label": view.flow_label(),
        "payload_len": view.payload_len(),
        "extension_headers": extensions,
        "fragment": fragment,
        "upper_layer_offset": view.upper_layer_offset(),
    }));
    if view.fragment().is_some_and(|fragment| !fragment.is_atomic()) {
        return payload(view.upper_payload(), layers);
    }
    let pseudo = (!routed).then(|| view.pseudo_header());
    upper_layer(view.upper_layer(), view.upper_payload(), pseudo, layers)
}

/// `pseudo` is absent behind a routing header, where it needs the final destination.
fn upper_layer(
    protocol: IpProtocol,
    bytes: &[u8],
    pseudo: Option<PseudoHeader>,
    layers: &mut Vec<Value>,
) -> Result<(), WireError> {
    match protocol {
        IpProtocol::UDP => udp(UdpView::parse(bytes)?, pseudo, layers),
        IpProtocol::TCP => tcp(TcpView::parse(bytes)?, pseudo, layers),
        IpProtocol::ICMP => icmpv4(Icmpv4View::parse(bytes)?, layers),
        IpProtocol::ICMPV6 => icmpv6(Icmpv6View::parse(bytes)?, bytes, pseudo, layers),
        IpProtocol::IPV4 => ipv4(Ipv4View::parse(bytes)?, layers),
        IpProtocol::IPV6 => ipv6(Ipv6View::parse(bytes)?, layers),
        _ => payload(bytes, layers),
    }
}

fn udp(view: UdpView<'_>, pseudo: Option<PseudoHeader>, layers: &mut Vec<Value>) -> Result<(), WireError> {
    layers.push(json!({
        "layer": "udp",
        "source_port": view.source_port(),
        "destination_port": view.destination_port(),
        "length": view.length(),
        "checksum": view.checksum(),
        "checksum_ok": pseudo.map(|pseudo| view.verify_checksum(pseudo).is_ok()),
        "without_checksum": view.checksum() == 0,
    }));
    match view.destination_port() {
        port::GENEVE => geneve(view.payload(), layers),
        port::VXLAN => vxlan(view.payload(), layers),
        port::BFD => bfd(view.payload(), layers),
        _ => payload(view.payload(), layers),
    }
}

fn tcp(view: TcpView<'_>, pseudo: Option<PseudoHeader>, layers: &mut Vec<Value>) -> Result<(), WireError> {
    let meanings: Vec<Value> = view.options().flatten().map(|option| tcp_option(option.into())).collect();
    layers.push(json!({
        "layer": "tcp",
        "source_port": view.source_port(),
        "destination_port": view.destination_port(),
        "sequence": view.sequence(),
        "acknowledgment": view.acknowledgment(),
        "flags": view.flags().bits(),
        "window": view.window(),
        "urgent_pointer": view.urgent_pointer(),
        "header_len": view.header_len(),
        "checksum": view.checksum(),
        "checksum_ok": pseudo.map(|pseudo| view.verify_checksum(pseudo).is_ok()),
        "options": hex::encode(view.option_bytes()),
        "option_list": raw_options(view.options()),
        "option_meanings": meanings,
    }));
    payload(view.payload(), layers)
}

fn tcp_option(option: TcpOption<'_>) -> Value {
    match option {
        TcpOption::NoOperation => json!({ "option": "no_operation" }),
        TcpOption::MaximumSegmentSize(size) => json!({ "option": "maximum_segment_size", "value": size }),
        TcpOption::WindowScale(shift) => json!({ "option": "window_scale", "value": shift }),
        TcpOption::SackPermitted => json!({ "option": "sack_permitted" }),
        TcpOption::Sack(blocks) => json!({ "option": "sack", "value": hex::encode(blocks) }),
        TcpOption::Timestamps { value, echo } => {
            json!({ "option": "timestamps", "value": value, "echo": echo })
        }
        TcpOption::Other(option) => json!({ "option": "other", "kind": option.kind }),
    }
}

fn icmpv4(view: Icmpv4View<'_>, layers: &mut Vec<Value>) -> Result<(), WireError> {
    let next_hop_mtu = match Icmpv4::from(view) {
        Icmpv4::DestinationUnreachable { next_hop_mtu, .. } => Some(next_hop_mtu),
        _ => None,
    };
    layers.push(json!({
        "layer": "icmpv4",
        "kind": view.kind(),
        "code": view.code(),
        "rest": hex::encode(&view.rest()),
        "checksum": view.checksum(),
        "checksum_ok": view.verify_checksum().is_ok(),
        "next_hop_mtu": next_hop_mtu,
        "is_error": view.is_error(),
    }));
    payload(view.payload(), layers)
}

fn icmpv6(
    view: Icmpv6View<'_>,
    message: &[u8],
    pseudo: Option<PseudoHeader>,
    layers: &mut Vec<Value>,
) -> Result<(), WireError> {
    let checksum_ok = pseudo.map(|pseudo| view.verify_checksum(pseudo).is_ok());
    if matches!(view.kind(), 133..=136) {
        let mut layer = neighbor(NeighborView::parse(message)?);
        layer["checksum_ok"] = json!(checksum_ok);
        layers.push(layer);
        return Ok(());
    }
    layers.push(json!({
        "layer": "icmpv6",
        "kind": view.kind(),
        "code": view.code(),
        "rest": hex::encode(&view.rest()),
        "checksum": view.checksum(),
        "checksum_ok": checksum_ok,
        "is_error": view.is_error(),
    }));
    payload(view.payload(), layers)
}

fn neighbor(view: NeighborView<'_>) -> Value {
    let options: Vec<Value> = view.options().map(neighbor_option).collect();
    let mut layer = match view.message() {
        NeighborMessage::RouterSolicitation => json!({ "message": "router_solicitation" }),
        NeighborMessage::RouterAdvertisement(router) => json!({
            "message": "router_advertisement",
            "hop_limit": router.hop_limit,
            "managed": router.managed,
            "other_configuration": router.other_configuration,
            "router_lifetime": router.router_lifetime,
            "reachable_time": router.reachable_time,
            "retransmit_timer": router.retransmit_timer,
        }),
        NeighborMessage::NeighborSolicitation { target } => {
            json!({ "message": "neighbor_solicitation", "target": target })
        }
        NeighborMessage::NeighborAdvertisement(neighbor) => json!({
            "message": "neighbor_advertisement",
            "router": neighbor.router,
            "solicited": neighbor.solicited,
            "override_cache": neighbor.override_cache,
            "target": neighbor.target,
        }),
    };
    layer["layer"] = json!("neighbor");
    layer["options"] = json!(options);
    layer
}

fn neighbor_option(option: NeighborOption<'_>) -> Value {
    match option {
        NeighborOption::SourceLinkLayer(mac) => json!({ "option": "source_link_layer", "mac": mac }),
        NeighborOption::TargetLinkLayer(mac) => json!({ "option": "target_link_layer", "mac": mac }),
        NeighborOption::Mtu(mtu) => json!({ "option": "mtu", "mtu": mtu }),
        NeighborOption::PrefixInformation(prefix) => json!({
            "option": "prefix_information",
            "prefix": prefix.prefix,
            "prefix_len": prefix.prefix_len,
            "on_link": prefix.on_link,
            "autonomous": prefix.autonomous,
            "valid_lifetime": prefix.valid_lifetime,
            "preferred_lifetime": prefix.preferred_lifetime,
        }),
        NeighborOption::Other { kind, data } => {
            json!({ "option": "other", "kind": kind, "data": hex::encode(data) })
        }
    }
}

fn geneve(bytes: &[u8], layers: &mut Vec<Value>) -> Result<(), WireError> {
    let view = GeneveView::parse(bytes)?;
    let options: Vec<Value> = view
        .options()
        .map(|option| {
            json!({
                "class": option.class,
                "kind": option.kind,
                "critical": option.is_critical(),
                "data": hex::encode(option.data),
            })
        })
        .collect();
    layers.push(json!({
        "layer": "geneve",
        "vni": view.vni().map_or(0, Vni::get),
        "protocol": view.protocol(),
        "control": view.is_control(),
        "critical": view.has_critical_options(),
        "options": options,
        "header_len": view.header_len(),
    }));
    network(view.protocol(), view.payload(), layers)
}

fn vxlan(bytes: &[u8], layers: &mut Vec<Value>) -> Result<(), WireError> {
    let view = VxlanView::parse(bytes)?;
    layers.push(json!({ "layer": "vxlan", "vni": view.vni().map_or(0, Vni::get) }));
    ethernet(view.payload(), layers)
}

fn bfd(bytes: &[u8], layers: &mut Vec<Value>) -> Result<(), WireError> {
    let packet = BfdPacket::parse(bytes)?;
    layers.push(json!({
        "layer": "bfd",
        "state": packet.state() as u8,
        "diagnostic": packet.diagnostic().bits(),
        "poll": packet.poll_flag(),
        "final": packet.final_flag(),
        "control_plane_independent": packet.control_plane_independent(),
        "demand": packet.demand(),
        "detect_multiplier": packet.detect_multiplier(),
        "my_discriminator": packet.my_discriminator(),
        "your_discriminator": packet.your_discriminator(),
        "desired_min_tx": packet.desired_min_tx(),
        "required_min_rx": packet.required_min_rx(),
        "required_min_echo_rx": packet.required_min_echo_rx(),
    }));
    Ok(())
}
