use super::*;
use crate::message::{StreamCounts, TrialResult};
use crate::subject::Counters;
use crate::traffic::Direction;

fn case() -> Case {
    Case::at_least(Directions::Encap, Family::Ipv4, 64).unwrap()
}

fn sample(packets: u64, cycles: u64, busy: f64) -> Sample {
    let counts = StreamCounts {
        sent: packets,
        received: packets - 10,
        received_while_sending: packets - 10,
        compared: 5,
        ..StreamCounts::new(Direction::Encap)
    };
    Sample {
        result: TrialResult {
            sending_ns: 1_000_000,
            streams: vec![counts],
            foreign: 0,
            ..TrialResult::default()
        },
        counters: Counters {
            packets,
            busy_cycles: packets * cycles,
            heap_allocations: Some(0),
            cache: Some((packets - 1, 1)),
        },
        busy,
        cores: 1,
    }
}

fn conditions_of_a_test() -> Conditions {
    Conditions {
        processor: "a processor".into(),
        cycles_per_second: 2_000_000_000,
        generator_cores: vec![0],
        device_cores: vec![1],
        load_average: [0.5, 1.25],
        memory: "ordinary pages".into(),
        realtime: false,
        trial_ms: 250,
        repeat: 3,
    }
}

#[test]
fn a_row_shows_medians() {
    let row = Row::new(
        &case(),
        "sluice",
        &[sample(5_010, 200, 1.0), sample(4_010, 260, 1.0), sample(9_010, 190, 0.99)],
        Some(20.0),
    );
    assert_eq!((row.mpps, row.cycles_per_packet, row.cycles_range), (5.0, Some(200.0), Some([190.0, 260.0])));
    assert!((row.gbps - 5.0 * 64.0 * 8.0 / 1e3).abs() < 1e-9);
    assert_eq!((row.compared, row.wrong, row.limited_by_generator), (15, 0, false));
    let json = serde_json::to_value(PeerRow::from(&row)).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"case": "encap IPv4 64", "device": "sluice", "mpps": 5.0, "cycles_per_packet": 200.0})
    );
}

#[test]
fn a_core_that_waits_or_a_near_ceiling_means_the_generator_is_the_limit() {
    assert!(Row::new(&case(), "sluice", &[sample(5_010, 200, 0.7)], Some(20.0)).limited_by_generator);
    assert!(Row::new(&case(), "sluice", &[sample(5_010, 200, 1.0)], Some(5.4)).limited_by_generator);
    assert!(!Row::new(&case(), "sluice", &[sample(5_010, 200, 1.0)], Some(5.6)).limited_by_generator);
}

#[test]
fn a_comparison_shows_devices_side_by_side() {
    let ours = Row::new(&case(), "sluice", &[sample(5_010, 200, 1.0)], None).with_ratio(Some(0.5));
    let theirs = Row::new(&case(), "ovs-dpdk", &[sample(2_510, 400, 1.0)], None);
    let text = peers_table(&conditions_of_a_test(), &[ours, theirs]);
    for part in
        ["sluice", "ovs-dpdk", "5.00", "2.50", "0.50", "ordinary scheduler", "load average 0.5 to 1.2"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn the_table_names_what_must_not_happen() {
    let mut row = Row::new(&case(), "sluice", &[sample(5_010, 200, 0.5)], Some(20.0))
        .with_check(4e6, &sample(1_000_000, 200, 0.8));
    row.wrong = 2;
    let report = ForwardReport {
        conditions: conditions_of_a_test(),
        rows: vec![row],
        drops: vec![("no-route".into(), 3)],
    };
    let text = forward_table(&report);
    for part in [
        "encap IPv4 64",
        "5.00 *",
        "0.000000",
        "limited by the generator",
        "1.0e-3 %",
        "sluice encap IPv4 64: 2 frames were wrong",
        "no-route 3",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["rows"][0]["check_mpps"], 4.0);
    assert_eq!(json["conditions"]["repeat"], 3);
}
