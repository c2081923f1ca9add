//! A document part by part, between its text and the plan: what could be read is there, what could not leaves a gap.
//!
//! Positions are those of the document, so a gap keeps its place. The checks ask [`List::incomplete`] before they call something
//! absent.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sluice_wire::MacAddr;

use crate::document::{self, Dataplane, Name, TierNumber};
use crate::plan::{DEFAULT_ROUTER_MAC, Role};
use crate::problem::{Findings, Path};
use crate::shape::Repairs;

/// The parts of a document.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) name: Option<Name>,
    pub(crate) role: Option<Role>,
    pub(crate) router_mac: Option<MacAddr>,
    pub(crate) dataplane: Option<Dataplane>,
    pub(crate) ports: List<document::Port>,
    pub(crate) lags: List<document::Lag>,
    pub(crate) uplinks: List<document::Uplink>,
    pub(crate) uplink_profile: Slot<document::UplinkProfile>,
    pub(crate) teps: List<document::Tep>,
    pub(crate) tep_group: Slot<document::TepGroup>,
    pub(crate) remote_tep_groups: List<document::RemoteTepGroup>,
    pub(crate) bfd: Slot<document::Bfd>,
    pub(crate) tep_high_availability: Slot<document::TepHighAvailability>,
    pub(crate) segments: List<document::Segment>,
    pub(crate) workloads: List<document::Workload>,
    pub(crate) gateways: List<Gateway>,
}

/// The entries of a list, with gaps where one could not be read.
#[derive(Debug)]
pub(crate) struct List<T> {
    entries: Vec<Option<T>>,
    /// Names of the entries that could not be read, as far as they have one.
    pub(crate) broken_names: Vec<String>,
    unreadable: bool,
}

impl<T> List<T> {
    /// The entries that could be read, with their positions in the document.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| Some((index, entry.as_ref()?)))
    }

    /// The entry at a position, unless it could not be read.
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.entries.get(index)?.as_ref()
    }

    /// Entries, gaps among them.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Something that was written is not here.
    pub(crate) fn incomplete(&self) -> bool {
        self.unreadable || self.entries.iter().any(Option::is_none)
    }
}

/// A part that is there once at most.
#[derive(Debug)]
pub(crate) enum Slot<T> {
    /// It was not written.
    Absent,
    /// It was written but could not be read.
    Broken,
    /// It is here.
    Present(T),
}

/// A gateway with its parts.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) name: Name,
    pub(crate) tier: TierNumber,
    pub(crate) interfaces: List<document::Interface>,
    pub(crate) transit: Slot<document::Transit>,
    pub(crate) link: Slot<document::RouterLink>,
    pub(crate) static_routes: List<document::StaticRoute>,
    pub(crate) bfd_peers: List<document::BfdPeer>,
}

/// Takes a document apart. What the schema let pass but the types refuse is noted.
pub(crate) fn draft(mut root: Map<String, Value>, repairs: &Repairs, findings: &mut Findings) -> Draft {
    let mut take = Take { repairs, findings };
    let dataplane = match take.slot(&mut root, Path::root(), "dataplane") {
        Slot::Absent => Some(Dataplane::default()),
        Slot::Broken => None,
        Slot::Present(dataplane) => Some(dataplane),
    };
    let router_mac = match take.slot(&mut root, Path::root(), "router-mac") {
        Slot::Absent => Some(DEFAULT_ROUTER_MAC),
        Slot::Broken => None,
        Slot::Present(mac) => Some(mac),
    };
    Draft {
        name: take.present(&mut root, "name"),
        role: take.present(&mut root, "role"),
        router_mac,
        dataplane,
        ports: take.list(&mut root, Path::root(), "ports"),
        lags: take.list(&mut root, Path::root(), "lags"),
        uplinks: take.list(&mut root, Path::root(), "uplinks"),
        uplink_profile: take.slot(&mut root, Path::root(), "uplink-profile"),
        teps: take.list(&mut root, Path::root(), "teps"),
        tep_group: take.slot(&mut root, Path::root(), "tep-group"),
        remote_tep_groups: take.list(&mut root, Path::root(), "remote-tep-groups"),
        bfd: take.slot(&mut root, Path::root(), "bfd"),
        tep_high_availability: take.slot(&mut root, Path::root(), "tep-high-availability"),
        segments: take.list(&mut root, Path::root(), "segments"),
        workloads: take.list(&mut root, Path::root(), "workloads"),
        gateways: take.list_with(&mut root, Path::root(), "gateways", Take::gateway),
    }
}

/// Takes parts out of a JSON value.
struct Take<'a> {
    repairs: &'a Repairs,
    findings: &'a mut Findings,
}

impl Take<'_> {
    /// Reads one part, unless it is broken.
    fn part<T: DeserializeOwned>(&mut self, value: Value, path: &Path) -> Option<T> {
        if self.repairs.broken(path) {
            return None;
        }
        serde_json::from_value(value)
            .map_err(|error| self.findings.report(path.clone(), format!("cannot be read: {error}")))
            .ok()
    }

    fn slot<T: DeserializeOwned>(
        &mut self,
        parent: &mut Map<String, Value>,
        path: Path,
        field: &'static str,
    ) -> Slot<T> {
        let Some(value) = parent.shift_remove(field) else { return Slot::Absent };
        self.part(value, &path.field(field)).map_or(Slot::Broken, Slot::Present)
    }

    fn present<T: DeserializeOwned>(
        &mut self,
        root: &mut Map<String, Value>,
        field: &'static str,
    ) -> Option<T> {
        match self.slot(root, Path::root(), field) {
            Slot::Present(value) => Some(value),
            Slot::Absent | Slot::Broken => None,
        }
    }

    fn list<T: DeserializeOwned>(
        &mut self,
        parent: &mut Map<String, Value>,
        path: Path,
        field: &'static str,
    ) -> List<T> {
        self.list_with(parent, path, field, |take, value, path| take.part(value, path))
    }

    fn list_with<T>(
        &mut self,
        parent: &mut Map<String, Value>,
        path: Path,
        field: &'static str,
        mut read: impl FnMut(&mut Self, Value, &Path) -> Option<T>,
    ) -> List<T> {
        let mut list = List { entries: Vec::new(), broken_names: Vec::new(), unreadable: false };
        let path = path.field(field);
        let items = match parent.shift_remove(field) {
            None => return list,
            Some(Value::Array(items)) if !self.repairs.broken(&path) => items,
            Some(_) => {
                list.unreadable = true;
                return list;
            }
        };
        for (index, item) in items.into_iter().enumerate() {
            let name = item.get("name").and_then(Value::as_str).map(str::to_owned);
            let entry = read(self, item, &path.clone().index(index));
            if entry.is_none() {
                list.broken_names.extend(name);
            }
            list.entries.push(entry);
        }
        list
    }

    fn gateway(&mut self, value: Value, path: &Path) -> Option<Gateway> {
        /// What stands in the gateway itself.
        #[derive(serde::Deserialize)]
        struct Head {
            name: Name,
            tier: TierNumber,
        }
        let Value::Object(mut fields) = value else { return None };
        let interfaces = self.list(&mut fields, path.clone(), "interfaces");
        let transit = self.slot(&mut fields, path.clone(), "transit");
        let link = self.slot(&mut fields, path.clone(), "link");
        let static_routes = self.list(&mut fields, path.clone(), "static-routes");
        let bfd_peers = self.list(&mut fields, path.clone(), "bfd-peers");
        let Head { name, tier } = self.part(Value::Object(fields), path)?;
        Some(Gateway { name, tier, interfaces, transit, link, static_routes, bfd_peers })
    }
}
