//! The result of `sluice bench reload` for people.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};

use super::{ReloadReport, Times};
use crate::machine::Conditions;
use crate::subject::list;

/// The table, and what its numbers depend on.
pub(crate) fn reload_table(report: &ReloadReport) -> String {
    let mut table = table(&[
        "rate",
        "swaps",
        "Mpps",
        "sent",
        "lost",
        "ring full",
        "wrong",
        "duplicated",
        "reordered",
        "of the rate without",
    ]);
    for rate in &report.rates {
        for (swaps, totals, ratio) in [(0, &rate.plain, None), (rate.swaps, &rate.swapping, rate.ratio)] {
            table.add_row(numbers([
                rate.name.to_owned(),
                swaps.to_string(),
                format!("{:.2}", totals.mpps),
                totals.sent.to_string(),
                totals.lost.to_string(),
                totals.ring_full.to_string(),
                totals.wrong.to_string(),
                totals.duplicates.to_string(),
                totals.reordered.to_string(),
                percent(ratio),
            ]));
        }
    }
    let Times { median, longest } = report.swap_ms;
    let mut text = format!(
        "{}\n{table}\na document was in force {median:.1} ms after the request (median of {}), {longest:.1} ms at the longest\n",
        report.case, report.swaps
    );
    text.push_str("lost: of those that the node took. Ring full: the generator did not read because another thread had its core.\n");
    for (reason, packets) in &report.drops {
        text.push_str(&format!("dropped by the node in the whole run: {reason} {packets}\n"));
    }
    text + &conditions(&report.conditions)
}

fn conditions(conditions: &Conditions) -> String {
    let Conditions { processor, cycles_per_second, load_average, memory, realtime, trial_ms, repeat, .. } =
        conditions;
    let scheduler = if *realtime {
        "real-time scheduler"
    } else {
        "ordinary scheduler: other work on these cores counts in the cycles"
    };
    format!(
        "{processor}, {:.2} GHz; generator on core {}, device on core {}; {memory}; {scheduler}; load average {:.1} to {:.1}; medians of {repeat} trials of {trial_ms} ms\n",
        *cycles_per_second as f64 / 1e9,
        list(&conditions.generator_cores),
        list(&conditions.device_cores),
        load_average[0],
        load_average[1],
    )
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header.to_vec());
    table
}

/// Numbers stand right, the case left.
fn numbers<const N: usize>(texts: [String; N]) -> Vec<Cell> {
    let align = |(at, text): (usize, String)| {
        Cell::new(text).set_alignment(if at == 0 { CellAlignment::Left } else { CellAlignment::Right })
    };
    texts.into_iter().enumerate().map(align).collect()
}

/// A share as a percentage, with enough digits that a small loss does not look like none.
fn percent(share: Option<f64>) -> String {
    match share {
        None => "-".into(),
        Some(0.0) => "0 %".into(),
        Some(share) if share < 0.0001 => format!("{:.1e} %", share * 100.0),
        Some(share) => format!("{:.2} %", share * 100.0),
    }
}
