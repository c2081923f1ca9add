//! TCP between pairs of nodes in both directions, one stream at a time.

use super::Stage;
use super::report::Report;
use crate::error::Result;
use crate::iperf::{self, Measured, Span, Stream};

/// What retransmissions are in a lab, said below the table where there were some.
const ABOUT_RETRANSMISSIONS: &str = "retransmissions: frames that found the ring of a port full while its node waited for one of the cores that \
     everything here shares";

pub(super) fn check(stage: &Stage<'_>, report: &mut Report, progress: &mut impl FnMut(&str)) {
    let has_ports = stage.lab.port_kind().is_some();
    for [from, to] in &stage.script.throughput {
        for (sender, receiver, reverse) in [(from, to, false), (to, from, true)] {
            progress(&format!("TCP from {sender} to {receiver}"));
            let measured = measure(stage, Stream { from, to, reverse });
            if has_ports && measured.as_ref().is_ok_and(|measured| measured.retransmissions > Some(0)) {
                report.note(ABOUT_RETRANSMISSIONS);
            }
            report.add(format!("TCP {sender} → {receiver}"), measured.map(|measured| measured.to_string()));
        }
    }
}

fn measure(stage: &Stage<'_>, stream: Stream<'_>) -> Result<Measured> {
    let span = Span { seconds: stage.settings.seconds, omitted: 0, window: None };
    Ok(iperf::measure(stage.lab, &[stream], span)?[0])
}
