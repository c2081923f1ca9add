//! Reports as a whole: one that has everything, in every form. Its numbers are made up for the tests.

mod compare;
mod page;
mod shown;

use std::path::Path;

use super::*;
use crate::environment::{Cache, Core, Environment, HugePagePool, Port};
use crate::line_rate::{FrameBytes, LinkSpeed};

/// A machine that is the same wherever the tests run.
fn environment() -> Environment {
    Environment {
        sluice: Some("0.1.0".into()),
        commit: Some("0123abcd".into()),
        dpdk: Some("22.11.7".into()),
        kernel: Some("6.1.0-30-amd64".into()),
        processor: Some("A Processor of Tests @ 2.00GHz".into()),
        virtual_machine: Some(false),
        processors: Some(56),
        threads_per_core: Some(1),
        cores: vec![Core { core: 0, role: "generator".into() }, Core { core: 1, role: "node".into() }],
        cycles_per_second: Some(2_000_000_000),
        governor: Some("performance".into()),
        caches: vec![
            Cache { level: 1, kind: "Data".into(), kib: 48 },
            Cache { level: 2, kind: "Unified".into(), kib: 2048 },
        ],
        numa_nodes: Some(2),
        memory_bytes: Some(256 << 30),
        huge_pages: vec![HugePagePool { kib: 2048, total: 512, free: 512 }],
        packet_memory: Some("huge pages of 2 MiB".into()),
        scheduler: None,
        load_before: Some(0.1),
        load_after: Some(1.05),
        ports: vec![Port { name: "uplink".into(), kind: "memif".into(), mbps: Some(100_000) }],
        command: Some("sluice bench bme-1 --html page.html".into()),
    }
}

const SIZES: [u32; 4] = [256, 512, 1024, 1500];

/// A report with everything in it.
pub(super) fn sample() -> Report {
    let traffic = Traffic {
        frame_bytes: SIZES.to_vec(),
        imix: vec![ImixPart { frame_bytes: 64, weight: 7 }, ImixPart { frame_bytes: 576, weight: 4 }],
        flows: Some(1_280),
        trial_s: Some(90.0),
        trials: Some(3),
        searches: None,
        loss_tolerance: Some(0.0001),
        description: Some("UDP in both directions".into()),
    };
    let mut report = Report::start("bme-1", "Throughput through one uplink and one downlink")
        .reproduces("VMware NSX Bare Metal Edge Performance", "Test Case Scenario 1")
        .in_environment(environment())
        .with_traffic(traffic)
        .with_document("edge", "name: edge\nports:\n  - name: uplink\n");
    report.started = "2026-11-21T10:00:00Z".parse().unwrap();
    report.generator.ceiling_mpps = vec![("256 B".into(), 31.2), ("1500 B".into(), 8.1)];
    let own = Latency { min: 2.1, p50: 2.4, p90: 3.0, p99: 4.4, p999: 9.0, max: 31.0 };
    report.generator.own_latency = Some(own);
    report.section(throughput());
    report.section(latency(own));
    report.section(loss());
    report.section(stages());
    report.result("Frames of 1500 bytes pass at 6.93 Mpps (83.2 Gb/s) with at most 0.01 % lost.");
    report.note("The node's flow cache was warm in every trial.");
    report.warn("The load average rose above 1 during the run.");
    report.check_frames("256 B", &FrameFaults { compared: 58_000, wrong: 2, ..FrameFaults::default() });
    report.finish();
    report.duration_s = 3_720.0;
    report.environment.load_after = Some(1.05);
    report
}

fn throughput() -> Section {
    let mut table = Table::new([
        Column::label("size", "frame").unit("B"),
        Column::measured("throughput", "throughput", "Mpps").digits(2).higher_is_better(),
        Column::measured("bits", "throughput", "Gb/s").digits(1).higher_is_better(),
        Column::document("published", "throughput", "Gb/s").digits(1),
        Column::calculated("line-rate", "line rate", "Mpps").digits(2),
        Column::measured("cycles", "cost", "cycles/packet").lower_is_better(),
    ]);
    let trials = [
        [14.02, 14.22, 14.18, 14.30, 14.11],
        [12.0, 12.1, 12.05, 11.9, 12.2],
        [8.9, 9.0, 8.95, 8.97, 8.99],
        [6.9, 6.95, 6.93, 6.91, 6.99],
    ];
    let published = [79.8, 89.4, 89.5, 95.1];
    for (at, size) in SIZES.into_iter().enumerate() {
        let bits = f64::from(size) * 8.0 / 1e3;
        let row = Row::new()
            .label("size", size)
            .measured("throughput", trials[at])
            .mark_if(at == 3, marks::LIMITED_BY_GENERATOR)
            .measured("bits", trials[at].map(|mpps| mpps * bits))
            .document("published", published[at])
            .calculated("line-rate", line_rate_mpps(100.0, size));
        table.push(match at {
            3 => row.not_measured("cycles", "the counters were not read"),
            _ => row.measured("cycles", [138.0, 141.0, 140.0, 139.0, 150.0].map(|cycles| cycles + at as f64)),
        });
    }
    let bits = |size: u32| f64::from(size) * 8.0 / 1e3;
    let node: Vec<Vec<f64>> = SIZES
        .iter()
        .zip(&trials)
        .map(|(size, trials)| trials.iter().map(|mpps| mpps * bits(*size)).collect())
        .collect();
    let line_rate = SIZES.map(|size| line_rate_mpps(100.0, size) * bits(size));
    let chart = Chart::throughput_by_size("Throughput by frame size", "Gb/s", SIZES)
        .series(Series::trials("Sluice, one core", node.iter().map(Vec::as_slice)))
        .series(Series::document("NSX bare metal edge, 28 cores", published.map(Some)))
        .series(Series::calculated("line rate of 100 Gb/s", line_rate))
        .caption("Frames of 1024 bytes and more pass at three quarters of the line rate or better; short ones cost the node the most.");
    Section::new("throughput", "Throughput")
        .text("The highest rate at which at most 0.01 % of the frames are lost, found by binary search (RFC 2544, section 26.1).")
        .table(table)
        .chart(chart)
}

fn latency(own: Latency) -> Section {
    let half = Latency { min: 4.4, p50: 5.2, p90: 6.9, p99: 11.0, p999: 41.5, max: 212.0 };
    let full = Latency { min: 6.0, p50: 14.8, p90: 33.0, p99: 78.0, p999: 240.0, max: 980.0 };
    let mut table = Table::new([Column::label("load", "load")]).columns(Latency::columns("latency"));
    table.push(Row::new().label("load", "50 %").latency("latency", &[half, half, half]));
    table.push(Row::new().label("load", "90 %").latency("latency", &[full]));
    let chart = Chart::latency_percentiles("Latency by percentile")
        .series(Series::latency("50 % of the throughput", &half))
        .series(Series::latency("90 % of the throughput", &full))
        .series(Series::latency("generator and links alone", &own))
        .caption(
            "At half load 99 of 100 frames take 11 µs or less, of which the generator itself takes about 4.",
        );
    Section::new("latency", "Latency")
        .text("Of frames sent at shares of the throughput, 512 bytes.")
        .table(table)
        .chart(chart)
}

fn loss() -> Section {
    let loads = [2.0, 4.0, 6.0, 8.0, 10.0, 11.0, 12.0, 13.0, 14.0];
    let lost = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.008, 4.1, 11.4];
    let chart = Chart::loss_by_load("Lost frames by offered load", "Mpps")
        .series(Series::points("512 B", loads.into_iter().zip(lost)))
        .caption("Nothing is lost up to 11 Mpps; beyond the throughput, what cannot be forwarded is.");
    Section::new("loss", "Loss").chart(chart)
}

fn stages() -> Section {
    let chart = Chart::cycles_by_stage(
        "Cycles by stage",
        ["encapsulation", "decapsulation", "both directions at once"],
    )
    .series(Series::measured("receive", [Some(31.0), Some(35.0), Some(33.0)]))
    .series(Series::measured("parse", [Some(18.0), Some(24.0), Some(21.0)]))
    .series(Series::measured("look up", [Some(27.0), Some(28.0), Some(30.0)]))
    .series(Series::measured("rewrite", [Some(38.0), Some(22.0), Some(31.0)]))
    .series(Series::measured("transmit", [Some(30.0), Some(29.0), Some(31.0)]))
    .caption("No stage takes more than a third of the whole.");
    let bars =
        Chart::bars("Throughput of one core", ["64 B, IPv4", "64 B, IPv6"], Axis::new("throughput", "Mpps"))
            .series(Series::measured("Sluice", [Some(14.2), Some(12.9)]))
            .series(Series::measured("Open vSwitch with DPDK", [Some(6.1), None]));
    Section::new("stages", "Where the cycles go").chart(chart).chart(bars)
}

#[test]
fn a_report_survives_its_json_and_its_page() {
    let report = sample();
    assert_eq!(read(&report.to_json(), Path::new("a.json")).unwrap(), report);
    assert_eq!(read(&html::page(&report), Path::new("a.html")).unwrap(), report);
    assert_eq!(report.to_json(), sample().to_json(), "the order is stable");
}

#[test]
fn what_later_versions_add_is_no_obstacle() {
    let mut json: serde_json::Value = serde_json::from_str(&sample().to_json()).unwrap();
    json["new"] = serde_json::json!({"a": 1});
    json["environment"]["new"] = 1.into();
    json["sections"][0]["table"]["rows"][0]["cells"]["cycles"] =
        serde_json::json!({"kind": "new", "text": "x"});
    json["sections"][0]["charts"][0]["kind"] = "new".into();
    json.as_object_mut().unwrap().remove("generator");
    let report = read(&json.to_string(), Path::new("later.json")).unwrap();
    let table = report.sections[0].table.as_ref().unwrap();
    assert_eq!(table.rows[0].cells["cycles"], Cell::Unknown);
    assert_eq!(report.sections[0].charts[0].kind, ChartKind::Unknown);
    assert!(terminal::render(&report, terminal::Screen::default()).contains("of a kind that this version"));
    assert!(html::page(&report).contains("There is nothing to be drawn."));
}

#[test]
fn what_is_no_number_is_not_measured() {
    let row = Row::new()
        .measured("none", [])
        .measured("nan", [1.0, f64::NAN])
        .value("infinite", f64::INFINITY)
        .value_or("absent", None, "the device does not tell")
        .mark("a mark without a number");
    for (key, reason) in [
        ("none", "no trial"),
        ("nan", "a trial gave no number"),
        ("infinite", "the result is no number"),
        ("absent", "the device does not tell"),
    ] {
        assert_eq!(row.cells[key], Cell::NotMeasured { reason: Some(reason.into()) });
    }
}

#[test]
fn a_report_is_incomplete_until_it_is_finished() {
    let mut report = Report::start("s", "t");
    assert!(!report.complete && report.incomplete_because.is_some());
    report.interrupt("interrupted after 2 of 4 sizes");
    assert_eq!(
        (report.complete, report.incomplete_because.as_deref()),
        (false, Some("interrupted after 2 of 4 sizes"))
    );
    assert!(report.duration_s > 0.0 && report.environment.load_after.is_some());
    let mut report = Report::start("s", "t");
    report.finish();
    assert!(report.complete && report.incomplete_because.is_none() && !report.has_errors());
    assert!(sample().has_errors());
}

/// Millions of frames a second on a full link.
fn line_rate_mpps(gbps: f64, frame_bytes: u32) -> f64 {
    let link = LinkSpeed::new(gbps * 1e9).unwrap();
    link.frames_per_second(FrameBytes::new(f64::from(frame_bytes)).unwrap()) / 1e6
}

#[test]
fn line_rates_are_those_of_ethernet() {
    for (gbps, size, mpps) in [(10.0, 64, 14.881), (25.0, 512, 5.874), (100.0, 1518, 8.127)] {
        assert!((line_rate_mpps(gbps, size) - mpps).abs() < 5e-4, "{gbps} {size}");
    }
}

#[test]
#[should_panic(expected = "no such column")]
fn a_cell_without_a_column_is_a_mistake() {
    Table::new([Column::label("a", "a")]).push(Row::new().value("b", 1.0));
}
