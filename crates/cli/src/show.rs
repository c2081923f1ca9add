//! Answers of a node as fields and tables; their JSON is what the node sent.

mod dataplane;
mod overlay;
mod packet;
mod ports;
mod routing;
mod teps;
mod uplinks;

use serde_json::{Value, json};
use sluice_control::{Answer, Applied, Captured, Drop, Status};

use crate::error::CliError;
use crate::output::{Block, Column, Kind, Output, Table, thousands};

/// What people and programs see of an answer.
pub(crate) fn show(answer: &Answer) -> Result<Output, CliError> {
    let blocks = match answer {
        Answer::Status(answer) => status(answer),
        Answer::Dataplane(answer) => dataplane::dataplane(answer),
        Answer::CpuStats(answer) => dataplane::cpu_stats(answer),
        Answer::FlowCacheConfig(answer) => dataplane::flow_cache_config(answer),
        Answer::FlowCacheStats(answer) => dataplane::flow_cache_stats(answer),
        Answer::Stages(answer) => dataplane::stages(answer),
        Answer::LogicalSwitches(answer) => overlay::logical_switches(answer),
        Answer::Workloads(answer) => overlay::workloads(answer),
        Answer::LogicalRouters(answer) => routing::logical_routers(answer),
        Answer::Routes(answer) => routing::routes(answer),
        Answer::Forwarding(answer) => routing::forwarding(answer),
        Answer::PhysicalPorts(answer) => ports::ports(answer),
        Answer::PhysicalPortStats(answer) => ports::stats(answer),
        Answer::HostSwitches(answer) => answer.iter().flat_map(uplinks::host_switch).collect(),
        Answer::Lags(answer) => uplinks::lags(answer),
        Answer::Vteps(answer) => overlay::vteps(answer),
        Answer::TunnelPorts(answer) => overlay::tunnel_ports(answer),
        Answer::TnTepGroups(answer) => teps::groups(answer),
        Answer::BfdSessions(answer) => teps::bfd_sessions(answer),
        Answer::Alarms(answer) => teps::alarms(answer),
        Answer::Neighbors(answer) => routing::neighbors(answer),
        Answer::Drops(answer) => drops(answer),
        Answer::Done(answer) => vec![Block::Text(answer.clone())],
        Answer::Applied(answer) => applied(answer),
        Answer::Captured(answer) => captured(answer),
        Answer::Trace(answer) => packet::trace(answer),
    };
    Ok(Output { blocks, json: contents(answer)? })
}

/// The answer as JSON, without the name of its kind; a bare sentence becomes a field, so that there is always a mapping or a list.
fn contents(answer: &Answer) -> Result<Value, CliError> {
    let value = serde_json::to_value(answer).map_err(sluice_control::ClientError::Answer)?;
    Ok(match value {
        Value::Object(kinds) => match kinds.into_iter().next() {
            Some((_, Value::String(sentence))) => json!({ "done": sentence }),
            Some((_, contents)) => contents,
            None => Value::Null,
        },
        other => other,
    })
}

fn status(status: &Status) -> Vec<Block> {
    vec![Block::fields([
        ("Name", status.name.clone()),
        ("Role", status.role.clone()),
        ("Version", status.version.clone()),
        ("Pid", status.pid.to_string()),
        ("Uptime", duration(status.uptime_s)),
        ("Generation", status.generation.to_string()),
        ("Data plane", status.dataplane.to_string()),
    ])]
}

fn drops(drops: &[Drop]) -> Vec<Block> {
    const COLUMNS: [Column; 3] =
        [Column("Reason", Kind::Whole), Column("Packets", Kind::Number), Column("Meaning", Kind::Words)];
    let rows =
        drops.iter().map(|drop| [drop.reason.clone(), thousands(drop.packets), drop.description.clone()]);
    vec![Block::Table(Table::new(&COLUMNS, rows, "No packet was dropped."))]
}

fn applied(applied: &Applied) -> Vec<Block> {
    let mut lines = vec![format!("Configuration {} is in force.", applied.generation)];
    if applied.changes.is_empty() {
        lines.push("Nothing changed.".to_owned());
    }
    lines.extend(applied.changes.iter().map(|change| format!("  {change}")));
    vec![Block::Text(lines.join("\n"))]
}

fn captured(captured: &Captured) -> Vec<Block> {
    let frames =
        |count| if count == 1 { "1 frame".to_owned() } else { format!("{} frames", thousands(count)) };
    let mut text = format!("{} in {}", frames(captured.frames), captured.file);
    if captured.missed > 0 {
        text.push_str(&format!("; {} came faster than they could be written", frames(captured.missed)));
    }
    vec![Block::Text(text)]
}

/// Seconds as `2 d 03:04:05`.
fn duration(seconds: u64) -> String {
    let (days, hours, minutes, seconds) =
        (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let clock = format!("{hours:02}:{minutes:02}:{seconds:02}");
    if days == 0 { clock } else { format!("{days} d {clock}") }
}

/// A value that may be missing.
fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_times_are_days_and_a_clock() {
        assert_eq!(duration(59), "00:00:59");
        assert_eq!(duration(3600 * 23 + 61), "23:01:01");
        assert_eq!(duration(86_400 * 12 + 3), "12 d 00:00:03");
    }

    #[test]
    fn json_is_the_contents_of_the_answer() {
        let drop = Drop { reason: "no-route".into(), packets: u64::MAX, description: "x".into() };
        assert_eq!(
            contents(&Answer::Drops(vec![drop])).unwrap(),
            json!([{"reason": "no-route", "packets": u64::MAX, "description": "x"}])
        );
        assert_eq!(contents(&Answer::Done("Set.".into())).unwrap(), json!({"done": "Set."}));
    }
}
