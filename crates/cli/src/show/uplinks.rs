//! LAGs and the host switch.

use sluice_control::{HostSwitch, Lag};

use super::or_none;
use crate::output::{Block, Column, Kind, Table, thousands};

pub(super) fn lags(lags: &[Lag]) -> Vec<Block> {
    const COLUMNS: [Column; 10] = [
        Column("Port", Kind::Whole),
        Column("Link", Kind::State),
        Column("Carries", Kind::Whole),
        Column("Receive", Kind::Whole),
        Column("Mux", Kind::Whole),
        Column("Partner", Kind::Whole),
        Column("Sent", Kind::Number),
        Column("Received", Kind::Number),
        Column("Foreign", Kind::Number),
        Column("Reason", Kind::Words),
    ];
    const REFUSED: [Column; 2] = [Column("Refused", Kind::Number), Column("Reason", Kind::Words)];
    if lags.is_empty() {
        return vec![Block::Text("The node has no LAGs.".to_owned())];
    }
    let mut blocks = Vec::new();
    for lag in lags {
        let partner = lag.partner.as_ref();
        blocks.push(Block::Heading(lag.name.clone()));
        blocks.push(Block::fields([
            ("State", lag.state.clone()),
            ("Mode", format!("LACP {}, timeout {}", lag.mode, lag.timeout)),
            ("Load balancing", lag.load_balancing.clone()),
            ("Min links", lag.min_links.to_string()),
            ("MAC", lag.mac.clone()),
            ("System", format!("{} key {}", lag.system, lag.key)),
            (
                "Partner",
                partner.map_or_else(|| "none".to_owned(), |one| format!("{} key {}", one.system, one.key)),
            ),
        ]));
        let rows = lag.links.iter().map(|link| {
            let heard = link.last_received_s.is_some();
            let partner = format!("{} port {}", link.partner_system, link.partner_port);
            [
                link.port.clone(),
                link.link.clone(),
                if link.active { "yes" } else { "no" }.to_owned(),
                link.receive.clone(),
                link.mux.clone(),
                if heard { partner } else { String::new() },
                thousands(link.sent),
                thousands(link.received),
                thousands(link.other_partner + link.loopbacks),
                link.reason.clone(),
            ]
        });
        blocks.push(Block::Table(Table::new(&COLUMNS, rows, "")));
        if !lag.refused.is_empty() {
            let rows = lag.refused.iter().map(|refusal| [thousands(refusal.frames), refusal.reason.clone()]);
            blocks.push(Block::Table(Table::new(&REFUSED, rows, "")));
        }
    }
    blocks
}

pub(super) fn host_switch(switch: &HostSwitch) -> Vec<Block> {
    const UPLINKS: [Column; 5] = [
        Column("Uplink", Kind::Whole),
        Column("Port", Kind::Whole),
        Column("Links", Kind::Words),
        Column("MTU", Kind::Number),
        Column("State", Kind::State),
    ];
    const TEAMINGS: [Column; 5] = [
        Column("Teaming", Kind::Whole),
        Column("Policy", Kind::Whole),
        Column("Active", Kind::Words),
        Column("Standby", Kind::Words),
        Column("On", Kind::Whole),
    ];
    const TEPS: [Column; 7] = [
        Column("TEP", Kind::Whole),
        Column("Address", Kind::Whole),
        Column("Uplink", Kind::Whole),
        Column("Teaming", Kind::Whole),
        Column("VLAN", Kind::Number),
        Column("MTU", Kind::Number),
        Column("State", Kind::State),
    ];
    let uplinks = switch.uplinks.iter().map(|uplink| {
        let link = |name: &String| {
            if uplink.active_links.contains(name) { name.clone() } else { format!("({name})") }
        };
        let links: Vec<String> = uplink.links.iter().map(link).collect();
        [
            uplink.name.clone(),
            uplink.port.clone(),
            links.join(", "),
            thousands(uplink.mtu.into()),
            uplink.state.clone(),
        ]
    });
    let teamings = switch.teamings.iter().map(|teaming| {
        [
            teaming.name.clone(),
            teaming.policy.clone(),
            teaming.active.join(", "),
            teaming.standby.join(", "),
            teaming.uplink.clone(),
        ]
    });
    let teps = switch.teps.iter().map(|tep| {
        [
            tep.name.clone(),
            tep.address.clone(),
            tep.uplink.clone(),
            tep.teaming.clone(),
            or_none(tep.vlan),
            thousands(tep.mtu.into()),
            tep.state.clone(),
        ]
    });
    vec![
        Block::fields([
            ("Host switch", switch.node.clone()),
            ("Encap", switch.encap.clone()),
            (
                "Transport VLAN",
                switch.transport_vlan.map_or_else(|| "untagged".to_owned(), |vlan| vlan.to_string()),
            ),
            ("MTU", switch.mtu.map_or_else(|| "that of the port".to_owned(), |mtu| thousands(mtu.into()))),
        ]),
        Block::Table(Table::new(&UPLINKS, uplinks, "The node has no uplinks.")),
        Block::Table(Table::new(&TEAMINGS, teamings, "The node has no uplink profile.")),
        Block::Table(Table::new(&TEPS, teps, "The node has no TEPs.")),
    ]
}
