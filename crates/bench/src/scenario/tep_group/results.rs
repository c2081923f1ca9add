//! The report of the TEP group scenario.

use super::network::{Placing, Run, WORKLOADS};
use crate::report::{Axis, Chart, Column, Report, Row, Section, Series, Table, median};

/// What the document measured, Mb/s: its four workloads without groups and with them.
const DOCUMENT: [[f64; 4]; 2] = [[554.0, 807.0, 465.0, 529.0], [1140.0, 1080.0, 1100.0, 1110.0]];
/// Its totals, as it gives them.
const DOCUMENT_TOTALS: [f64; 2] = [2355.0, 4430.0];
/// What load-aware placement is to carry at least in every run, in proportion to one TEP.
const TARGET: f64 = 1.95;

/// The measurements, round by round, each in the order of [`Placing::ALL`].
#[derive(Debug, Default)]
pub(super) struct Results {
    rounds: Vec<Vec<Run>>,
}

impl Results {
    /// Adds a round.
    pub(super) fn push(&mut self, round: Vec<Run>) {
        self.rounds.push(round);
    }

    /// What a number of each round's measurement with a placing is.
    fn of(&self, placing: usize, number: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.rounds.iter().map(|round| number(&round[placing])).collect()
    }

    /// In proportion to one TEP in the same round.
    fn factors(&self, placing: usize) -> Vec<f64> {
        self.rounds.iter().map(|round| round[placing].carried / round[0].carried).collect()
    }

    /// Sections, the result in a sentence, and what was missed.
    pub(super) fn tell(&self, report: &mut Report) {
        report.section(self.rates());
        report.section(self.shares());
        report.section(self.runs());
        let factors = self.factors(2);
        let (Some(middle), Some(least)) =
            (median(factors.iter().copied()), factors.iter().copied().reduce(f64::min))
        else {
            return;
        };
        report.result(format!(
            "Two TEPs carry {middle:.2} times what one does where flows are placed by load ({least:.2} in the worst of {} runs), {:.2} times by hash; \
             1.88 times in the document.",
            factors.len(),
            median(self.factors(1)).unwrap_or_default(),
        ));
        let missed = factors.iter().filter(|factor| **factor < TARGET).count();
        match missed {
            0 => report.note(format!("Load-aware placement carried {TARGET} times one TEP or more in every run, as it is to.")),
            missed => report.warn(format!(
                "MISSED: load-aware placement is to carry {TARGET} times one TEP in every run, and did not in {missed} of {}.",
                factors.len()
            )),
        }
    }

    /// The document's table beside ours.
    fn rates(&self) -> Section {
        let mut table = Table::new([
            Column::label("workload", "workload"),
            Column::measured("single", Placing::Single.name(), "Mb/s").digits(1),
            Column::measured("hash", Placing::Hash.name(), "Mb/s").digits(1),
            Column::measured("load-aware", Placing::LoadAware.name(), "Mb/s").digits(1).higher_is_better(),
            Column::document("document-single", "no group", "Mb/s"),
            Column::document("document-group", "group", "Mb/s"),
        ]);
        for (at, workload) in WORKLOADS.iter().enumerate() {
            table.push(
                self.rates_row(workload, |run| run.streams[at].rate / 1e6)
                    .document("document-single", DOCUMENT[0][at])
                    .document("document-group", DOCUMENT[1][at]),
            );
        }
        table.push(
            self.rates_row("total", |run| total(run) / 1e6)
                .document("document-single", DOCUMENT_TOTALS[0])
                .document("document-group", DOCUMENT_TOTALS[1]),
        );
        Section::new("rates", "What arrived")
            .text("What iperf3 received of each stream; all four run at once. The median of the rounds.")
            .table(table)
            .chart(self.chart())
    }

    fn rates_row(&self, label: &str, number: impl Fn(&Run) -> f64) -> Row {
        let keys = ["single", "hash", "load-aware"];
        let row = Row::new().label("workload", label);
        keys.iter().enumerate().fold(row, |row, (at, key)| row.measured(key, self.of(at, &number)))
    }

    fn chart(&self) -> Chart {
        let totals: Vec<Vec<f64>> =
            (0..Placing::ALL.len()).map(|placing| self.of(placing, |run| total(run) / 1e6)).collect();
        let names = Placing::ALL.map(Placing::name);
        Chart::bars("All four streams together", names, Axis::new("received", "Mb/s"))
            .series(Series::trials("measured", totals.iter().map(Vec::as_slice)))
    }

    /// Factors, shares of the uplinks, retransmissions.
    fn shares(&self) -> Section {
        let mut table = Table::new([
            Column::label("placing", "flows"),
            Column::measured("factor", "of one TEP", "").digits(3).higher_is_better(),
            Column::measured("least", "least", "").digits(3),
            Column::document("document", "document", "").digits(2),
            Column::measured("uplink-1", "uplink 1", "%").digits(1),
            Column::measured("uplink-2", "uplink 2", "%").digits(1),
            Column::measured("retransmits", "retransmits", "").digits(0),
        ]);
        for (at, placing) in Placing::ALL.iter().enumerate() {
            let factors = self.factors(at);
            let least = factors.iter().copied().reduce(f64::min);
            let row = Row::new().label("placing", placing.name()).measured("factor", factors);
            let row = row
                .value_or("least", least, "no round")
                .measured("uplink-1", self.of(at, |run| share(run, 0)))
                .measured("uplink-2", self.of(at, |run| share(run, 1)))
                .measured("retransmits", self.of(at, retransmissions));
            table.push(match placing {
                Placing::Single => row.document("document", 1.0),
                _ => row.document("document", 1.88),
            });
        }
        Section::new("factors", "In proportion to one TEP")
            .text(
                "What both uplinks of the edge carried while all four streams ran, in proportion to that without a group in the same round: the median and \
                 the least of the rounds. (iperf3 counts each stream in an interval of its own, so that their sum can exceed what a link carries.) Of what both uplinks of the edge carried in the direction of the streams, with all headers and from the first packet to the last, each \
                 had its share.",
            )
            .table(table)
    }

    /// Every run.
    fn runs(&self) -> Section {
        let mut table = Table::new([
            Column::label("run", "run"),
            Column::measured("single", Placing::Single.name(), "Mb/s").digits(1),
            Column::measured("hash", Placing::Hash.name(), "Mb/s").digits(1),
            Column::measured("load-aware", Placing::LoadAware.name(), "Mb/s").digits(1),
            Column::measured("factor-hash", "by hash", "").digits(3),
            Column::measured("factor-load-aware", "load-aware", "").digits(3),
            Column::measured("share-hash", "uplink 1 by hash", "%").digits(1),
            Column::measured("share-load-aware", "uplink 1 load-aware", "%").digits(1),
        ]);
        for (at, round) in self.rounds.iter().enumerate() {
            let rate = |placing: usize| round[placing].carried / 1e6;
            table.push(
                Row::new()
                    .label("run", at + 1)
                    .value("single", rate(0))
                    .value("hash", rate(1))
                    .value("load-aware", rate(2))
                    .value("factor-hash", rate(1) / rate(0))
                    .value("factor-load-aware", rate(2) / rate(0))
                    .value("share-hash", share(&round[1], 0))
                    .value("share-load-aware", share(&round[2], 0)),
            );
        }
        Section::new("runs", "Every run")
            .text("What both uplinks of the edge carried while all streams ran, with all headers.")
            .table(table)
    }
}

/// Bits a second of all streams.
fn total(run: &Run) -> f64 {
    run.streams.iter().map(|stream| stream.rate).sum()
}

/// What one of the uplinks carried of both, percent.
fn share(run: &Run, uplink: usize) -> f64 {
    100.0 * run.uplinks[uplink] as f64 / run.uplinks.iter().sum::<u64>() as f64
}

/// Segments sent again, of all streams.
fn retransmissions(run: &Run) -> f64 {
    run.streams.iter().filter_map(|stream| stream.retransmissions).sum::<u64>() as f64
}

#[cfg(test)]
mod tests {
    use sluice_lab::iperf::Measured;

    use super::*;

    fn run(rate: f64, uplinks: [u64; 2]) -> Run {
        let stream = Measured { rate: rate / 4.0, retransmissions: Some(3) };
        Run { streams: vec![stream; 4], uplinks, carried: rate }
    }

    fn results(load_aware: [f64; 3]) -> Report {
        let mut results = Results::default();
        for rate in load_aware {
            results.push(vec![run(70e6, [100, 0]), run(105e6, [75, 25]), run(rate, [50, 50])]);
        }
        let mut report = Report::start("tep-group", "TEP groups");
        results.tell(&mut report);
        report
    }

    #[test]
    fn factors_and_shares_are_those_of_each_round() {
        let report = results([140e6, 141.4e6, 138.6e6]);
        let table = report.sections[1].table.as_ref().unwrap();
        let row = &table.rows[2];
        let cell = |name: &str| row.cells[name].measured().unwrap();
        assert!((cell("factor") - 2.0).abs() < 1e-9 && (cell("least") - 1.98).abs() < 1e-9);
        assert_eq!((cell("uplink-1"), cell("retransmits")), (50.0, 12.0));
        assert_eq!(report.sections[2].table.as_ref().unwrap().rows.len(), 3);
        assert!(report.result.unwrap().contains("2.00 times"));
        assert!(report.notes.iter().all(|note| !note.text.contains("MISSED")));
    }

    #[test]
    fn one_run_below_the_target_is_a_miss() {
        let report = results([140e6, 136e6, 140e6]);
        assert!(
            report.notes.iter().any(|note| note.text.starts_with("MISSED") && note.text.contains("1 of 3"))
        );
    }
}
