//! From the raw document to a checked [`Topology`]. Problems are collected, never returned one at a time; each names its field.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sluice_intent::plan::{Plan, PortKind as PlanKind};
use sluice_wire::MacAddr;

use super::document::{
    BridgeDocument, Document, InterfaceDocument, LinkDocument, NodeDocument, RouteDocument, VxlanDocument,
};
use super::{
    Bridge, Demonstration, Interface, Link, MAX_XDP_MTU, Node, Route, Topology, Vxlan, with_port_kind,
};
use crate::state::{PortKind, valid_name};

/// MTU of a link whose document names none.
const DEFAULT_MTU: u16 = 1500;
/// Queue pairs that a veth interface may have here; the kernel allows more, no node has as many workers.
const MAX_QUEUES: u16 = 64;

/// Problems found so far.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, path: &str, problem: impl Display) {
        self.0.push(if path.is_empty() { problem.to_string() } else { format!("{path}: {problem}") });
    }

    /// Reads a value of the document; unknown fields and a wrong type become problems.
    fn read<T: DeserializeOwned>(&mut self, path: &str, value: &Value) -> Option<T> {
        let mut unknown = Vec::new();
        let mut track = serde_path_to_error::Track::new();
        let deserializer = serde_path_to_error::Deserializer::new(value, &mut track);
        let result = serde_ignored::deserialize(deserializer, |field| unknown.push(field.to_string()));
        for field in unknown {
            self.add(path, format!("unknown field '{}'", field.replace(".?", "")));
        }
        result
            .map_err(|error: serde_json::Error| {
                let inner = track.path().to_string();
                let at = if inner == "." { path.to_string() } else { join(path, &inner) };
                self.add(&at, error);
            })
            .ok()
    }

    /// Parses one text of the document.
    fn parse<T: FromStr>(&mut self, path: &str, text: &str, expected: &str) -> Option<T> {
        let value = text.parse().ok();
        if value.is_none() {
            self.add(path, format!("'{text}' is not {expected}"));
        }
        value
    }

    fn addresses(&mut self, path: &str, texts: &[String]) -> Vec<IpNet> {
        let mut seen = HashSet::new();
        let mut addresses = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            let path = format!("{path}.addresses[{i}]");
            let Some(net) =
                self.parse::<IpNet>(&path, text, "an address with a prefix length, as 192.0.2.10/24")
            else {
                continue;
            };
            if !seen.insert(net.addr()) {
                self.add(&path, format!("{} is there twice", net.addr()));
            }
            addresses.push(net);
        }
        addresses
    }

    fn mac(&mut self, path: &str, text: Option<&str>) -> Option<MacAddr> {
        let mac =
            self.parse::<MacAddr>(&format!("{path}.mac"), text?, "a MAC address, as 02:00:00:00:00:01")?;
        if !mac.is_unicast() {
            self.add(&format!("{path}.mac"), format!("{mac} is not a unicast address"));
        }
        Some(mac)
    }

    fn interface_name(&mut self, path: &str, name: &str) {
        let fits = !name.is_empty()
            && name.len() <= 15
            && name != "lo"
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !fits {
            self.add(
                path,
                format!("'{name}' cannot name an interface: use 1 to 15 of a-z, A-Z, 0-9, '-' and '_'"),
            );
        }
    }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.into() } else { format!("{path}.{field}") }
}

/// Reads and checks a document.
pub(super) fn topology(source: &str) -> Result<Topology, Vec<String>> {
    let mut problems = Problems::default();
    let value: Value = serde_saphyr::from_str(source).map_err(|error| vec![error.to_string()])?;
    let Some(document) = problems.read::<Document>("", &value) else { return Err(problems.0) };
    if document.version != 1 {
        problems.add("version", format!("{} is not known; this program reads version 1", document.version));
    }
    if !valid_name(&document.name) {
        problems
            .add("name", format!("'{}' cannot name a lab: use 1 to 32 of a-z, 0-9 and '-'", document.name));
    }
    let (mut nodes, plans) = nodes(&document, &mut problems);
    let links = links(&document, &mut nodes, &mut problems);
    workload_addresses(&nodes, &plans, &mut problems);
    let demonstration =
        document.demonstration.as_ref().and_then(|value| demonstration(value, &nodes, &mut problems));
    if !problems.0.is_empty() {
        return Err(problems.0);
    }
    let (name, description) = (document.name, document.description);
    Ok(Topology { name, description, nodes, links, demonstration, source: source.into() })
}

fn nodes(document: &Document, problems: &mut Problems) -> (Vec<Node>, Vec<Plan>) {
    if document.nodes.is_empty() {
        problems.add("nodes", "there is none");
    }
    let mut names = HashSet::new();
    let (mut nodes, mut plans) = (Vec::new(), Vec::new());
    for (i, value) in document.nodes.iter().enumerate() {
        // The name reads better than the position, where there is one.
        let path = match value.get("name").and_then(Value::as_str) {
            Some(name) => format!("nodes[{name}]"),
            None => format!("nodes[{i}]"),
        };
        let Some(raw) = problems.read::<NodeDocument>(&path, value) else { continue };
        if !valid_name(&raw.name) {
            problems
                .add(&path, format!("'{}' cannot name a node: use 1 to 32 of a-z, 0-9 and '-'", raw.name));
        }
        if !names.insert(raw.name.clone()) {
            problems.add(&path, "there is another node of this name");
        }
        let (node, plan) = node(&path, raw, problems);
        nodes.push(node);
        plans.extend(plan);
    }
    (nodes, plans)
}

fn node(path: &str, raw: NodeDocument, problems: &mut Problems) -> (Node, Option<Plan>) {
    let mut names = HashSet::new();
    let devices = raw.interfaces.iter().map(|i| &i.name);
    for name in devices.chain(raw.bridges.iter().map(|b| &b.name)).chain(raw.vxlans.iter().map(|v| &v.name)) {
        problems.interface_name(path, name);
        if !names.insert(name.clone()) {
            problems.add(path, format!("there are two interfaces named '{name}'"));
        }
    }
    let mut interfaces: Vec<_> = raw.interfaces.iter().map(|raw| interface(path, raw, problems)).collect();
    let bridges: Vec<_> = raw.bridges.iter().map(|raw| bridge(path, raw, &names, problems)).collect();
    let vxlans = raw.vxlans.iter().filter_map(|raw| vxlan(path, raw, problems)).collect();
    let (document, plan) = match &raw.sluiced {
        Some(value) => sluiced(path, &raw.name, value, &mut interfaces, problems),
        None => (None, None),
    };
    let mut node = Node {
        name: raw.name,
        interfaces,
        bridges,
        vxlans,
        routes: Vec::new(),
        sysctls: sysctls(path, &raw.sysctls, problems),
        document,
    };
    node.routes =
        raw.routes.iter().enumerate().filter_map(|(i, raw)| route(path, i, raw, &node, problems)).collect();
    (node, plan)
}

fn interface(path: &str, raw: &InterfaceDocument, problems: &mut Problems) -> Interface {
    let path = format!("{path}.interfaces[{}]", raw.name);
    Interface {
        name: raw.name.clone(),
        mac: problems.mac(&path, raw.mac.as_deref()),
        addresses: problems.addresses(&path, &raw.addresses),
        queues: 1,
        data_path: false,
    }
}

fn bridge(path: &str, raw: &BridgeDocument, names: &HashSet<String>, problems: &mut Problems) -> Bridge {
    let path = format!("{path}.bridges[{}]", raw.name);
    for member in raw.members.iter().filter(|member| !names.contains(*member)) {
        problems.add(&format!("{path}.members"), format!("the node has no interface '{member}'"));
    }
    mtu(&path, raw.mtu, problems);
    Bridge {
        name: raw.name.clone(),
        members: raw.members.clone(),
        mac: problems.mac(&path, raw.mac.as_deref()),
        mtu: raw.mtu,
        addresses: problems.addresses(&path, &raw.addresses),
    }
}

fn vxlan(path: &str, raw: &VxlanDocument, problems: &mut Problems) -> Option<Vxlan> {
    let path = format!("{path}.vxlans[{}]", raw.name);
    if raw.vni >= 1 << 24 {
        problems.add(&format!("{path}.vni"), format!("{} does not fit 24 bits", raw.vni));
    }
    mtu(&path, raw.mtu, problems);
    let local = problems.parse(&format!("{path}.local"), &raw.local, "an IP address");
    let remotes =
        raw.remotes.iter().map(|remote| problems.parse(&format!("{path}.remotes"), remote, "an IP address"));
    let remotes: Option<Vec<IpAddr>> = remotes.collect();
    let vxlan =
        Vxlan { name: raw.name.clone(), vni: raw.vni, local: local?, remotes: remotes?, mtu: raw.mtu };
    if vxlan.remotes.iter().any(|remote| remote.is_ipv6() != vxlan.local.is_ipv6()) {
        problems.add(&format!("{path}.remotes"), "must be of the address family of 'local'");
    }
    Some(vxlan)
}

fn mtu(path: &str, mtu: Option<u16>, problems: &mut Problems) {
    if mtu.is_some_and(|mtu| mtu < 68) {
        problems.add(&format!("{path}.mtu"), "must be at least 68 bytes (RFC 791)");
    }
}

fn route(path: &str, i: usize, raw: &RouteDocument, node: &Node, problems: &mut Problems) -> Option<Route> {
    let path = format!("{path}.routes[{i}]");
    let prefix = problems.parse::<IpNet>(&format!("{path}.prefix"), &raw.prefix, "a prefix, as 10.0.0.0/8");
    let via = problems.parse::<IpAddr>(&format!("{path}.via"), &raw.via, "an IP address");
    let route = Route { prefix: prefix?, via: via? };
    if route.prefix != route.prefix.trunc() {
        problems.add(&format!("{path}.prefix"), format!("has host bits; write {}", route.prefix.trunc()));
    }
    let mut subnets = node
        .interfaces
        .iter()
        .flat_map(|i| &i.addresses)
        .chain(node.bridges.iter().flat_map(|b| &b.addresses));
    if route.prefix.addr().is_ipv6() != route.via.is_ipv6() {
        problems.add(&path, "prefix and next hop are of different address families");
    } else if !subnets.any(|subnet| subnet.contains(&route.via)) {
        problems.add(&format!("{path}.via"), format!("{} is in no subnet of the node", route.via));
    }
    Some(route)
}

fn sysctls(path: &str, raw: &BTreeMap<String, Value>, problems: &mut Problems) -> Vec<(String, String)> {
    let mut sysctls = Vec::new();
    for (name, value) in raw {
        let path = format!("{path}.sysctls[{name}]");
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if !name.starts_with("net.") || name.contains("..") || !name.chars().all(plain) {
            problems.add(&path, "only kernel parameters below 'net.' belong to a network namespace");
        }
        match value {
            Value::Number(number) => sysctls.push((name.clone(), number.to_string())),
            Value::String(text) => sysctls.push((name.clone(), text.clone())),
            _ => problems.add(&path, "must be a number or a text"),
        }
    }
    sysctls
}

/// Checks the node document as the node itself will, and marks the interfaces that its ports are attached to.
fn sluiced(
    path: &str,
    name: &str,
    value: &Value,
    interfaces: &mut [Interface],
    problems: &mut Problems,
) -> (Option<Map<String, Value>>, Option<Plan>) {
    let path = format!("{path}.sluiced");
    let Value::Object(document) = value else {
        problems.add(&path, "must be a node document");
        return (None, None);
    };
    // Which kind the ports get is found out when the lab is built; to the checks they are alike.
    let complete = Value::Object(with_port_kind(document, PortKind::AfPacket)).to_string();
    let plan = match sluice_intent::parse(&complete, name) {
        Ok(plan) => plan,
        Err(found) => {
            for problem in found.problems() {
                problems.add(&join(&path, &problem.path.to_string()), &problem.message);
            }
            return (Some(document.clone()), None);
        }
    };
    if plan.name != name {
        problems.add(&join(&path, "name"), format!("must be '{name}', the name of the node"));
    }
    for port in &plan.ports {
        let (PlanKind::AfXdp { interface: wanted } | PlanKind::AfPacket { interface: wanted }) = &port.kind
        else {
            continue;
        };
        let path = format!("{path}.ports[{}]", port.name);
        let Some(interface) = interfaces.iter_mut().find(|interface| interface.name == *wanted) else {
            problems.add(&path, format!("the node has no interface '{wanted}'"));
            continue;
        };
        if !interface.addresses.is_empty() {
            problems.add(
                &path,
                format!("'{wanted}' belongs to the data path and cannot have addresses of the kernel"),
            );
        }
        let workers = u16::try_from(plan.dataplane.cores.len().max(1)).unwrap_or(u16::MAX);
        interface.queues = if port.queues == 0 { workers } else { port.queues };
        if interface.queues > MAX_QUEUES {
            let queues = interface.queues;
            problems.add(
                &path,
                format!("{queues} queues are more than the {MAX_QUEUES} that the lab gives an interface"),
            );
        }
        interface.data_path = true;
    }
    (Some(document.clone()), Some(plan))
}

fn links(document: &Document, nodes: &mut [Node], problems: &mut Problems) -> Vec<Link> {
    let mut used: HashMap<(usize, usize), usize> = HashMap::new();
    let mut links = Vec::new();
    for (i, value) in document.links.iter().enumerate() {
        let path = format!("links[{i}]");
        let Some(raw) = problems.read::<LinkDocument>(&path, value) else { continue };
        let Some(link) = link(&path, &raw, nodes, problems) else { continue };
        for end in link.ends {
            if let Some(other) = used.insert(end, i) {
                let (node, interface) = (&nodes[end.0], &nodes[end.0].interfaces[end.1]);
                let name = format!("{}:{}", node.name, interface.name);
                problems.add(&path, format!("'{name}' is an end of links[{other}] already"));
            }
        }
        links.push(link);
    }
    for (n, node) in nodes.iter().enumerate() {
        for (i, interface) in node.interfaces.iter().enumerate() {
            if !used.contains_key(&(n, i)) {
                problems.add(
                    &format!("nodes[{}].interfaces[{}]", node.name, interface.name),
                    "is not an end of any link",
                );
            }
        }
    }
    links
}

fn link(path: &str, raw: &LinkDocument, nodes: &mut [Node], problems: &mut Problems) -> Option<Link> {
    let [a, b] = raw.ends.as_slice() else {
        problems.add(&format!("{path}.ends"), "must be two, each as NODE:INTERFACE");
        return None;
    };
    let ends = [a, b]
        .map(|text| end(text, nodes).map_err(|problem| problems.add(&format!("{path}.ends"), problem)).ok());
    mtu(path, raw.mtu, problems);
    let rate = raw.rate.as_deref().and_then(|text| {
        let rate = parse_rate(text);
        if rate.is_none() {
            problems.add(&format!("{path}.rate"), format!("'{text}' is not a rate, as 100mbit or 1gbit"));
        }
        rate
    });
    let ends = [ends[0]?, ends[1]?];
    if ends[0] == ends[1] {
        problems.add(&format!("{path}.ends"), "both ends are the same");
        return None;
    }
    let data_path = ends.iter().any(|(node, interface)| nodes[*node].interfaces[*interface].data_path);
    let link_mtu = raw.mtu.unwrap_or(DEFAULT_MTU);
    if data_path && link_mtu > MAX_XDP_MTU {
        problems.add(
            &format!("{path}.mtu"),
            format!("a data path's port takes at most {MAX_XDP_MTU} bytes on a veth"),
        );
    }
    if data_path && raw.offloads == Some(true) {
        problems.add(
            &format!("{path}.offloads"),
            "must be off where a data path is attached, which reads frames as on a wire",
        );
    }
    // Both ends of a pair have the same queues: the kernel maps the sender's queue to the receiver's.
    let queues = ends.map(|(node, interface)| nodes[node].interfaces[interface].queues);
    for (node, interface) in ends {
        nodes[node].interfaces[interface].queues = queues[0].max(queues[1]);
    }
    Some(Link { ends, mtu: link_mtu, rate, offloads: raw.offloads.unwrap_or(!data_path) })
}

fn end(text: &str, nodes: &[Node]) -> Result<(usize, usize), String> {
    let (node, interface) = text.split_once(':').ok_or(format!("'{text}' is not NODE:INTERFACE"))?;
    let n = nodes.iter().position(|n| n.name == node).ok_or(format!("there is no node '{node}'"))?;
    let i = nodes[n].interfaces.iter().position(|i| i.name == interface);
    Ok((n, i.ok_or(format!("node '{node}' has no interface '{interface}'"))?))
}

/// A rate in bits a second: a whole number and one of `bit`, `kbit`, `mbit`, `gbit`.
fn parse_rate(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let scale = match &text[digits..] {
        "bit" => 1,
        "kbit" => 1_000,
        "mbit" => 1_000_000,
        "gbit" => 1_000_000_000,
        _ => return None,
    };
    text[..digits]
        .parse::<u64>()
        .ok()?
        .checked_mul(scale)
        .filter(|rate| (8_000..=100_000_000_000).contains(rate))
}

/// A workload of a node document that is also a node here must have the MAC and IP addresses that the document says.
fn workload_addresses(nodes: &[Node], plans: &[Plan], problems: &mut Problems) {
    for plan in plans {
        for workload in &plan.workloads {
            let Some(real) = nodes.iter().find(|node| node.name == workload.name) else { continue };
            let path = format!("nodes[{}].sluiced.workloads[{}]", plan.name, workload.name);
            if real.interfaces.iter().all(|interface| interface.mac != Some(workload.mac)) {
                problems.add(
                    &path,
                    format!("{} is the MAC address of no interface of node '{}'", workload.mac, real.name),
                );
            }
            for address in
                workload.addresses.iter().filter(|address| real.addresses().all(|own| own != **address))
            {
                problems.add(&path, format!("node '{}' does not have the address {address}", real.name));
            }
        }
    }
}

fn demonstration(value: &Value, nodes: &[Node], problems: &mut Problems) -> Option<Demonstration> {
    let demonstration: Demonstration = problems.read("demonstration", value)?;
    let mut named = vec![("tester", &demonstration.tester)];
    named.extend(demonstration.workloads.iter().map(|name| ("workloads", name)));
    named.extend(demonstration.throughput.iter().flatten().map(|name| ("throughput", name)));
    named.extend(demonstration.capture.iter().map(|capture| ("capture.node", &capture.node)));
    named.extend(
        demonstration.logical_switches.iter().map(|switches| ("logical-switches.node", &switches.node)),
    );
    for (field, name) in named {
        let path = format!("demonstration.{field}");
        match nodes.iter().find(|node| node.name == *name) {
            None => problems.add(&path, format!("there is no node '{name}'")),
            Some(node) if field.contains('.') => {
                if field.starts_with("logical") && node.document.is_none() {
                    problems.add(&path, format!("node '{name}' does not run sluiced"));
                }
            }
            Some(node) if node.addresses().next().is_none() => {
                problems.add(&path, format!("node '{name}' has no address to reach it at"));
            }
            Some(_) => {}
        }
    }
    if demonstration.workloads.is_empty() {
        problems.add("demonstration.workloads", "there is none");
    }
    Some(demonstration)
}
