//! TEP groups, BFD sessions and alarms.

use sluice_control::{Alarm, BfdSessions, TnTepGroup};

use super::{duration, or_none};
use crate::output::{Block, Column, Kind, Table, thousands};

pub(super) fn groups(groups: &[TnTepGroup]) -> Vec<Block> {
    const COLUMNS: [Column; 8] = [
        Column("Node", Kind::Words),
        Column("TEP_GROUP", Kind::Whole),
        Column("Placement", Kind::Whole),
        Column("TEP", Kind::Words),
        Column("Address", Kind::Whole),
        Column("State", Kind::State),
        Column("Pairs in use", Kind::Whole),
        Column("Reason", Kind::Words),
    ];
    let rows = groups.iter().flat_map(|group| {
        group.teps.iter().map(|tep| {
            let again = tep.retry_s.map(|retry| format!("; tried again in {}", duration(retry)));
            [
                group.node.clone(),
                or_none(group.id),
                or_none(group.placement.as_ref()),
                tep.name.clone(),
                tep.address.to_string(),
                tep.state.clone(),
                format!("{} of {}", thousands(tep.pairs_usable.into()), thousands(tep.pairs.into())),
                format!("{}{}", tep.reason, or_none(again)),
            ]
        })
    });
    vec![Block::Table(Table::new(&COLUMNS, rows, "The node has no TEPs."))]
}

pub(super) fn bfd_sessions(bfd: &BfdSessions) -> Vec<Block> {
    const COLUMNS: [Column; 11] = [
        Column("TEP or interface", Kind::Words),
        Column("Local", Kind::Whole),
        Column("Remote", Kind::Whole),
        Column("Encap", Kind::Whole),
        Column("State", Kind::State),
        Column("For", Kind::Whole),
        Column("Interval ms", Kind::Number),
        Column("Detection ms", Kind::Number),
        Column("Sent", Kind::Number),
        Column("Received", Kind::Number),
        Column("Diagnostic", Kind::Words),
    ];
    const REFUSED: [Column; 2] = [Column("Refused", Kind::Number), Column("Reason", Kind::Words)];
    let rows = bfd.sessions.iter().map(|session| {
        [
            session.tep.clone(),
            session.local.to_string(),
            session.remote.to_string(),
            session.encap.clone(),
            session.state.clone(),
            duration(session.since_s),
            session.transmit_interval_ms.map_or_else(String::new, thousands),
            session.detection_time_ms.map_or_else(String::new, thousands),
            thousands(session.sent),
            thousands(session.received),
            session.diagnostic.clone(),
        ]
    });
    let nothing = "The node has no BFD sessions: its document has no 'bfd', or there are no tunnels.";
    let mut blocks = vec![Block::Table(Table::new(&COLUMNS, rows, nothing))];
    if !bfd.refused.is_empty() {
        let rows = bfd.refused.iter().map(|refusal| [thousands(refusal.packets), refusal.reason.clone()]);
        blocks.push(Block::Table(Table::new(&REFUSED, rows, "")));
    }
    blocks
}

pub(super) fn alarms(alarms: &[Alarm]) -> Vec<Block> {
    const COLUMNS: [Column; 4] = [
        Column("Alarm", Kind::Whole),
        Column("Object", Kind::Words),
        Column("For", Kind::Whole),
        Column("Description", Kind::Words),
    ];
    let rows = alarms.iter().map(|alarm| {
        [alarm.kind.clone(), alarm.object.clone(), duration(alarm.since_s), alarm.description.clone()]
    });
    vec![Block::Table(Table::new(&COLUMNS, rows, "Nothing is wrong."))]
}
