//! The way of a traced packet.

use sluice_control::Trace;

use crate::output::{Block, Column, Kind, Table};

pub(super) fn trace(trace: &Trace) -> Vec<Block> {
    const COLUMNS: [Column; 3] = [
        Column("#", Kind::Number),
        Column("Stage", Kind::Whole),
        Column("What it does and why", Kind::Words),
    ];
    let rows = trace
        .steps
        .iter()
        .enumerate()
        .map(|(position, step)| [(position + 1).to_string(), step.stage.clone(), step.detail.clone()]);
    let output = if trace.output.is_empty() {
        "none".to_owned()
    } else {
        trace.output.join(&format!("\n{:width$}", "", width = "Verdict: ".len()))
    };
    vec![
        Block::Text(format!("Packet:  {}", trace.packet)),
        Block::Table(Table::new(&COLUMNS, rows, "No stage saw the packet.")),
        Block::Text(format!("Verdict: {}\nOutput:  {output}", trace.verdict)),
    ]
}
