//! The report of the latency scenario.

use super::cases::{CASES, Case, FEATURES, Feature, OVERLAY, ROUTING};
use super::ends::{Kind, Trial};
use super::merge::{Breakdown, Leg};
use crate::report::median;
use crate::report::{Axis, Chart, ChartKind, Column, Latency, Report, Row, Section, Series, Table};

/// The trials of every case, round by round.
#[derive(Debug, Default)]
pub(super) struct Results {
    rounds: Vec<(&'static str, Kind, Trial)>,
}

impl Results {
    /// Adds a trial; those of a case come in the order of the rounds.
    pub(super) fn push(&mut self, case: &Case, kind: Kind, trial: Trial) {
        self.rounds.push((case.name, kind, trial));
    }

    /// The trials of a case.
    fn of(&self, case: &Case, kind: Kind) -> Vec<Trial> {
        let own = self.rounds.iter().filter(|(name, of, _)| *name == case.name && *of == kind);
        own.map(|(_, _, trial)| *trial).collect()
    }

    /// The difference of the medians of each round, µs.
    fn added(&self, feature: &Feature, kind: Kind) -> Vec<f64> {
        let (with, without) = (self.of(feature.with, kind), self.of(feature.without, kind));
        with.iter().zip(&without).map(|(with, without)| with.latency.p50 - without.latency.p50).collect()
    }

    /// Sections and the result in a sentence.
    pub(super) fn tell(&self, report: &mut Report) {
        report.section(self.features());
        for kind in Kind::ALL {
            report.section(self.transactions(kind));
        }
        if let (Some(routing), Some(overlay)) = (self.sentence(&ROUTING), self.sentence(&OVERLAY)) {
            report.result(format!(
                "To a round trip of 1,024 bytes each way, distributed routing adds {routing}, and the overlay {overlay}."
            ));
        }
    }

    /// What a feature adds to RR, in words.
    fn sentence(&self, feature: &Feature) -> Option<String> {
        let added = self.added(feature, Kind::RequestResponse);
        let (least, most) = (extreme(&added, f64::min)?, extreme(&added, f64::max)?);
        let document = feature
            .document
            .map_or(String::new(), |[from, to]| format!("; {from:.0} to {to:.0} µs in the document"));
        Some(format!("{:.1} µs (rounds from {least:.1} to {most:.1}{document})", median(added)?))
    }

    fn features(&self) -> Section {
        let mut table = Table::new([
            Column::label("feature", "what is added"),
            Column::label("kind", "transaction"),
            Column::measured("added", "added", "µs").digits(2).lower_is_better(),
            Column::measured("least", "least", "µs").digits(2),
            Column::measured("most", "most", "µs").digits(2),
            Column::document("from", "from", "µs"),
            Column::document("to", "to", "µs"),
        ]);
        for kind in Kind::ALL {
            for feature in FEATURES {
                let added = self.added(feature, kind);
                let mut row = Row::new()
                    .label("feature", feature.name)
                    .label("kind", kind.name())
                    .value_or("least", extreme(&added, f64::min), "no round")
                    .value_or("most", extreme(&added, f64::max), "no round");
                // The document ran RR.
                if let Some([from, to]) = feature.document.filter(|_| kind == Kind::RequestResponse) {
                    row = row.document("from", from).document("to", to);
                }
                table.push(row.measured("added", added));
            }
        }
        let features = FEATURES.map(|feature| {
            format!("{} is \"{}\" less \"{}\"", feature.name, feature.with.name, feature.without.name)
        });
        let ways = CASES.map(|case| format!("\"{}\" passes {}", case.name, case.about));
        Section::new("added", "Added to the round trip")
            .text(format!(
                "The difference of two cases' medians in the same round; the median of the rounds, with the least and the most of them. {}. Of the \
                 cases, {}.",
                capitalized(&features.join("; ")),
                ways.join("; ")
            ))
            .table(table)
            .chart(self.features_chart())
    }

    fn features_chart(&self) -> Chart {
        let added: Vec<Vec<f64>> =
            FEATURES.iter().map(|feature| self.added(feature, Kind::RequestResponse)).collect();
        let document =
            |at: usize| FEATURES.map(|feature| feature.document.map(|document| document[at])).into_iter();
        Chart::bars(
            "Added to the round trip (RR)",
            FEATURES.map(|feature| feature.name),
            Axis::new("added", "µs"),
        )
        .series(Series::trials("measured", added.iter().map(Vec::as_slice)))
        .series(Series::document("document, least", document(0)))
        .series(Series::document("document, most", document(1)))
        .caption("The document's hosts had switches of their own in all cases, which here is the case of two nodes without overlay.")
    }

    fn transactions(&self, kind: Kind) -> Section {
        let mut table = Table::new([Column::label("case", "case")])
            .columns(Latency::columns("time"))
            .columns([Column::measured("by-rate", "1/rate", "µs").digits(1).lower_is_better()]);
        let mut chart = percentiles(kind);
        for case in CASES {
            let trials = self.of(case, kind);
            let latencies: Vec<Latency> = trials.iter().map(|trial| trial.latency).collect();
            table.push(
                Row::new()
                    .label("case", case.name)
                    .latency("time", &latencies)
                    .measured("by-rate", trials.iter().map(Trial::by_rate)),
            );
            if let Some(middle) = middle(&latencies) {
                chart = chart.series(Series::latency(case.name, &middle));
            }
        }
        let (key, heading, what) = match kind {
            Kind::RequestResponse => (
                "rr",
                "Request and response (RR)",
                "One connection, one transaction at a time: what the document ran (netperf TCP_RR).",
            ),
            Kind::ConnectRequestResponse => (
                "crr",
                "Connect, request, response (CRR)",
                "A connection for each transaction: what the document describes. Each is a new flow, which nodes have to decide.",
            ),
        };
        Section::new(key, heading)
            .text(format!(
                "{what} 1/rate is the time of a trial divided by its transactions, as the document reckons."
            ))
            .table(table)
            .chart(chart)
    }
}

/// The least or the most of some numbers.
fn extreme(numbers: &[f64], choose: fn(f64, f64) -> f64) -> Option<f64> {
    numbers.iter().copied().reduce(choose)
}

/// The same text as the beginning of a sentence.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Medians of the trials' percentiles.
fn middle(trials: &[Latency]) -> Option<Latency> {
    let of = |pick: fn(&Latency) -> f64| median(trials.iter().map(pick));
    Some(Latency {
        min: of(|latency| latency.min)?,
        p50: of(|latency| latency.p50)?,
        p90: of(|latency| latency.p90)?,
        p99: of(|latency| latency.p99)?,
        p999: of(|latency| latency.p999)?,
        max: of(|latency| latency.max)?,
    })
}

fn percentiles(kind: Kind) -> Chart {
    let chart = Chart::latency_percentiles(&format!("Time of a transaction ({})", kind.name()));
    Chart { x: Axis::new("share of the transactions that were as fast or faster", ""), ..chart }
}

/// The legs of one breakdown, each with its percentiles; `key` names the section for programs.
pub(super) fn legs(key: &str, heading: &str, breakdown: &Breakdown) -> Section {
    let mut table = Table::new([Column::label("leg", "leg")])
        .columns(Latency::columns("time"))
        .columns([Column::measured("mean", "mean", "µs").digits(1).lower_is_better()]);
    for leg in breakdown.legs.iter().chain([&breakdown.whole]) {
        let row = Row::new().label("leg", &leg.name).latency("time", &[leg.latency]);
        table.push(row.value("mean", leg.mean));
    }
    Section::new(key, heading).text(breakdown.counts.sentence()).table(table)
}

/// The means of all legs of several breakdowns, behind each other. Legs of the same place in the way have one colour.
pub(super) fn stacked<'a>(breakdowns: impl IntoIterator<Item = (&'a str, &'a Breakdown)>) -> Chart {
    let breakdowns: Vec<(&str, &Breakdown)> = breakdowns.into_iter().collect();
    let names = breakdowns.iter().map(|(name, _)| *name);
    let bars = Chart::bars("Where the time of a transaction goes", names, Axis::new("mean", "µs"));
    let mut chart = Chart { kind: ChartKind::StackedBars, ..bars };
    let most = breakdowns.iter().map(|(_, breakdown)| breakdown.legs.len()).max().unwrap_or(0);
    for at in 0..most {
        let mean = |(_, breakdown): &(&str, &Breakdown)| place(&breakdown.legs, at, most).map(|leg| leg.mean);
        let described =
            breakdowns.iter().find(|(_, breakdown)| breakdown.legs.len() == most).map(|(_, found)| *found);
        let name = match described.and_then(|breakdown| breakdown.legs.get(at)) {
            Some(leg) if breakdowns.len() == 1 => leg.name.clone(),
            _ => position(at, most),
        };
        chart = chart.series(Series::measured(&name, breakdowns.iter().map(mean)));
    }
    chart.caption("The client's own time, from a response to the next request, is not in it.")
}

/// The leg that stands at a place of the longest way: a shorter one has the first leg of each direction, and the server.
fn place(legs: &[Leg], at: usize, most: usize) -> Option<&Leg> {
    let (own, longest) = (legs.len() / 2, most / 2);
    match at {
        at if at < longest => legs.get(at).filter(|_| at < own),
        at if at == longest => legs.get(own),
        at => legs.get(own + 1 + (at - longest - 1).checked_sub(longest - own)?),
    }
}

/// What a place of a way is, in words that fit every case.
fn position(at: usize, most: usize) -> String {
    let longest = most / 2;
    let part = |at: usize| match at {
        0 => "client's side",
        at if at + 1 == longest => "server's side",
        _ => "middle",
    };
    match at {
        at if at < longest => format!("request, {}", part(at)),
        at if at == longest => "server".to_owned(),
        at => format!("response, {}", part(most - 1 - at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::latency::cases::{OVERLAY_ROUTED, OVERLAY_SWITCHED};

    fn trial(p50: f64) -> Trial {
        let latency = Latency { min: p50, p50, p90: p50, p99: p50, p999: p50, max: p50 };
        Trial { transactions: 10, seconds: p50 * 1e-5, latency }
    }

    #[test]
    fn what_a_feature_adds_is_the_difference_within_a_round() {
        let mut results = Results::default();
        // The machine is slower in the second round; the difference is not.
        for (with, without) in [(30.0, 20.0), (130.0, 119.0), (29.0, 20.0)] {
            results.push(&OVERLAY_SWITCHED, Kind::RequestResponse, trial(without));
            results.push(&OVERLAY_ROUTED, Kind::RequestResponse, trial(with));
        }
        assert_eq!(results.added(&ROUTING, Kind::RequestResponse), [10.0, 11.0, 9.0]);
        let section = results.features();
        let table = section.table.unwrap();
        let row = table.rows.iter().find(|row| table.key(row) == format!("{} RR", ROUTING.name)).unwrap();
        let cell = |name: &str| row.cells[name].measured().unwrap();
        assert_eq!([cell("added"), cell("least"), cell("most")], [10.0, 9.0, 11.0]);
        assert!(!results.added(&OVERLAY, Kind::RequestResponse).iter().any(|added| added.is_finite()));
    }

    #[test]
    fn the_time_of_a_transaction_follows_from_the_rate() {
        assert!((trial(40.0).by_rate() - 40.0).abs() < 1e-9);
    }

    #[test]
    fn legs_of_a_short_way_stand_beside_those_of_a_long_one() {
        let leg = |name: &str| Leg { name: name.into(), latency: trial(1.0).latency, mean: 1.0 };
        let long = ["a", "b", "c", "server", "c", "b", "a"].map(leg);
        let short = ["a", "server", "a"].map(leg);
        let names = |legs: &[Leg]| -> Vec<String> {
            (0..7).map(|at| place(legs, at, 7).map_or(String::new(), |leg| leg.name.clone())).collect()
        };
        assert_eq!(names(&long), ["a", "b", "c", "server", "c", "b", "a"]);
        assert_eq!(names(&short), ["a", "", "", "server", "", "", "a"]);
        assert_eq!(position(2, 7), "request, server's side");
        assert_eq!(position(6, 7), "response, client's side");
    }
}
