//! A topology: nodes, links and what the demonstration does with them, read from one YAML document and checked as a whole.
//!
//! The raw document lives in `document`, the checks in `check`; what they produce is [`Topology`], which everything else reads
//! without checking again. Unknown fields are refused, and every problem of a document is reported at once.

mod check;
mod document;
#[cfg(test)]
mod tests;

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::{Map, Value};
use sluice_wire::MacAddr;

use crate::error::{LabError, Result, While};
use crate::state::PortKind;

/// Largest MTU of a link on which a data path may have an AF_XDP port: packet, headroom and metadata share one page.
pub const MAX_XDP_MTU: u16 = 3498;

/// The topologies that are part of the program: name and document.
const BUILT_IN: [(&str, &str); 4] = [
    ("demo", include_str!("../topologies/demo.yaml")),
    ("linux", include_str!("../topologies/linux.yaml")),
    ("edges", include_str!("../topologies/edges.yaml")),
    ("tep", include_str!("../topologies/tep.yaml")),
];

/// Names of the built-in topologies.
pub fn built_in() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// A checked topology. Names are unique, every link has both its ends, and every address parses.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Its name, and that of the lab unless another is given.
    pub name: String,
    /// What it is for, one or two sentences.
    pub description: String,
    /// The nodes in the order of the document.
    pub nodes: Vec<Node>,
    /// The veth pairs between them.
    pub links: Vec<Link>,
    /// What `sluice lab demo` does; none: the topology has no demonstration.
    pub demonstration: Option<Demonstration>,
    /// The document that it was read from.
    pub source: String,
}

/// One network namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Ends of links, in the order of the document.
    pub interfaces: Vec<Interface>,
    /// Linux bridges.
    pub bridges: Vec<Bridge>,
    /// VXLAN devices of the kernel.
    pub vxlans: Vec<Vxlan>,
    /// Static routes.
    pub routes: Vec<Route>,
    /// Kernel parameters below `net.`, as name and value.
    pub sysctls: Vec<(String, String)>,
    /// The node document of a node that runs sluiced; none: a plain Linux node.
    pub document: Option<Map<String, Value>>,
}

impl Node {
    /// Addresses of the node on its links and bridges.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let links = self.interfaces.iter().flat_map(|interface| &interface.addresses);
        links.chain(self.bridges.iter().flat_map(|bridge| &bridge.addresses)).map(IpNet::addr)
    }

    /// Its first address of a family.
    pub fn address(&self, v6: bool) -> Option<IpAddr> {
        self.addresses().find(|address| address.is_ipv6() == v6)
    }
}

/// One end of a veth pair.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// Kernel name, at most 15 characters.
    pub name: String,
    /// MAC address; none: the kernel chooses.
    pub mac: Option<MacAddr>,
    /// Addresses and subnets; none on a port of a data path.
    pub addresses: Vec<IpNet>,
    /// Queue pairs, one for each worker that the data path has on it.
    pub queues: u16,
    /// Whether a port of the node's data path is attached to it.
    pub data_path: bool,
}

/// A Linux bridge.
#[derive(Clone, Debug, PartialEq)]
pub struct Bridge {
    /// Kernel name.
    pub name: String,
    /// Interfaces and VXLAN devices of the same node.
    pub members: Vec<String>,
    /// MAC address; none: the kernel chooses.
    pub mac: Option<MacAddr>,
    /// Largest layer-3 packet in bytes; none: that of its members.
    pub mtu: Option<u16>,
    /// Addresses and subnets of the node on it.
    pub addresses: Vec<IpNet>,
}

/// A VXLAN device of the kernel (RFC 7348) with fixed remote endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct Vxlan {
    /// Kernel name.
    pub name: String,
    /// The virtual network identifier, 24 bits.
    pub vni: u32,
    /// Address of the node that tunnels end at.
    pub local: IpAddr,
    /// Endpoints that broadcast, unknown unicast and multicast are copied to.
    pub remotes: Vec<IpAddr>,
    /// Largest layer-3 packet in bytes; none: the kernel's choice.
    pub mtu: Option<u16>,
}

/// A static route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    /// Destination.
    pub prefix: IpNet,
    /// Next hop, in a subnet of the node.
    pub via: IpAddr,
}

/// A veth pair.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Node and interface of each end, as positions in [`Topology::nodes`] and [`Node::interfaces`].
    pub ends: [(usize, usize); 2],
    /// Largest layer-3 packet in bytes.
    pub mtu: u16,
    /// Rate in bits a second of what the kernel sends on either end; none: not limited.
    pub rate: Option<u64>,
    /// Whether checksum, segmentation and receive offloads stay on.
    pub offloads: bool,
}

/// What `sluice lab demo` does in a topology.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Demonstration {
    /// The node on the physical network.
    pub tester: String,
    /// The workloads: each exchanges echoes with the tester and with every other workload.
    pub workloads: Vec<String>,
    /// Hops from the first workload to the tester, in order, the tester last.
    #[serde(default)]
    pub hops: Vec<Hop>,
    /// Pairs between which TCP is measured in both directions.
    #[serde(default)]
    pub throughput: Vec<[String; 2]>,
    /// What is captured on the underlay.
    #[serde(default)]
    pub capture: Option<Capture>,
    /// Segments that the edge must list.
    #[serde(default)]
    pub logical_switches: Option<LogicalSwitches>,
}

/// One stage of a traced route.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Hop {
    /// What it is, as `tier-0`.
    pub name: String,
    /// Addresses that answer there; the stage may take several hops, all of them from this list.
    pub addresses: Vec<IpAddr>,
}

/// A capture on the underlay.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Capture {
    /// The node.
    pub node: String,
    /// A port of its data path, or an interface of a plain Linux node.
    pub interface: String,
    /// Encapsulation that every frame between the endpoints must have.
    pub encapsulation: Encapsulation,
    /// Virtual network identifiers that must be seen, and no other.
    pub vnis: Vec<u32>,
}

/// Encapsulation on the underlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encapsulation {
    /// RFC 8926.
    Geneve,
    /// RFC 7348.
    Vxlan,
}

/// Segments that a node must list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LogicalSwitches {
    /// The node, which runs sluiced.
    pub node: String,
    /// Names of segments.
    pub names: Vec<String>,
}

/// The document with the kind of every port that names an interface and no kind.
pub(crate) fn with_port_kind(document: &Map<String, Value>, kind: PortKind) -> Map<String, Value> {
    let mut document = document.clone();
    let ports =
        document.get_mut("ports").and_then(Value::as_array_mut).map_or(&mut [][..], Vec::as_mut_slice);
    for port in
        ports.iter_mut().filter_map(Value::as_object_mut).filter(|port| port.contains_key("interface"))
    {
        port.entry("kind").or_insert_with(|| kind.as_str().into());
    }
    document
}

impl Topology {
    /// Reads a built-in topology by its name, or a file by its path.
    ///
    /// # Errors
    /// [`LabError::UnknownTopology`], [`LabError::System`] when the file cannot be read, and [`LabError::Topology`] with every
    /// problem of the document.
    pub fn load(name_or_path: &str) -> Result<Self> {
        if let Some((name, source)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(name, source);
        }
        let path = Path::new(name_or_path);
        if !path.exists() {
            let names = built_in().collect::<Vec<_>>().join(", ");
            return Err(LabError::UnknownTopology(name_or_path.into(), names));
        }
        let source = fs::read_to_string(path).doing(|| format!("reading {name_or_path}"))?;
        Self::parse(name_or_path, &source)
    }

    /// Reads and checks a document; `origin` names it in errors.
    ///
    /// # Errors
    /// [`LabError::Topology`] with every problem of the document.
    pub fn parse(origin: &str, source: &str) -> Result<Self> {
        check::topology(source).map_err(|problems| LabError::Topology { origin: origin.into(), problems })
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// Whether the kernel receives what comes in on an interface of a node; also on one that the topology does not have.
    pub(crate) fn check_kernel_receives(&self, node: &Node, interface: &str) -> Result<()> {
        let is_here = |(at, place): &(usize, usize)| {
            self.nodes[*at].name == node.name && self.nodes[*at].interfaces[*place].name == interface
        };
        if !node.interfaces.iter().any(|own| own.name == interface && own.data_path) {
            return Ok(());
        }
        let other = self.links.iter().find_map(|link| match &link.ends {
            [here, there] if is_here(here) => Some(there),
            [there, here] if is_here(here) => Some(there),
            _ => None,
        });
        let other_end = other.map_or_else(String::new, |(at, place)| {
            format!("{} {}", self.nodes[*at].name, self.nodes[*at].interfaces[*place].name)
        });
        Err(LabError::DataPathInterface { node: node.name.clone(), interface: interface.into(), other_end })
    }

    /// The nodes that run sluiced.
    pub fn daemons(&self) -> impl Iterator<Item = (&Node, &Map<String, Value>)> {
        self.nodes.iter().filter_map(|node| Some((node, node.document.as_ref()?)))
    }
}
