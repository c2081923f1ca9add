//! The faults.
//!
//! Each has two probes where both directions say something: `hosts → edge`, from a workload to the target, and `edge → hosts`. The first event
//! of a flight is the fault, the last one its end.

use std::thread::sleep;
use std::time::Duration;

use super::network::Network;
use super::outage::Outage;
use super::report::Row;
use crate::error::Result;

/// A fault that can be asked for by name.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The built-in topology that it happens in.
    pub(super) topology: &'static str,
    pub(super) run: fn(&mut Network<'_>) -> Result<Vec<Row>>,
}

/// Every one; those of a topology follow each other.
pub(super) const ALL: &[Scenario] = &[
    Scenario {
        name: "cut-link",
        about: "an uplink of the edge loses its link",
        topology: "tep",
        run: cut_link,
    },
    Scenario {
        name: "black-hole",
        about: "one direction of the path to a TEP swallows everything while all links are up",
        topology: "tep",
        run: black_hole,
    },
    Scenario {
        name: "loss",
        about: "one direction of that path loses 30 % of its packets",
        topology: "tep",
        run: loss,
    },
    Scenario {
        name: "flap",
        about: "an uplink of the edge goes down and up every second",
        topology: "tep",
        run: flap,
    },
    Scenario {
        name: "kill-node",
        about: "the sluiced of an edge is killed, and another edge is there",
        topology: "edges",
        run: kill_node,
    },
];

/// What sees a link go down: the node itself, at its next look.
const BY_LINK_MS: u64 = 10;
/// What BFD sees: three packets at 100 ms, and what an end of that takes.
const BY_BFD_MS: u64 = 350;
/// Before the fault.
const BEFORE: Duration = Duration::from_millis(500);
/// How long a fault lasts.
const HOLD: Duration = Duration::from_secs(2);
/// After everything is whole again.
const AFTER: Duration = Duration::from_secs(1);
/// How long packets are lost at random.
const LOSSY: Duration = Duration::from_secs(10);
/// Share of the packets that are, percent.
const LOSS: u8 = 30;
/// Times that a link goes down and up again, half a second each.
const FLAPS: usize = 5;
const HALF: Duration = Duration::from_millis(500);

/// Something that is broken or mended.
type Event = fn(&Network<'_>) -> Result<()>;

/// Both probes of a fault: what each part of their flights lost.
struct Flights {
    to_edge: Vec<Outage>,
    to_hosts: Vec<Outage>,
}

/// Breaks something and mends it under both probes, each with an event before.
fn under_probes(network: &mut Network<'_>, events: &[Event], hold: Duration) -> Result<Flights> {
    let mut probes = [network.probe("vm-1", "target")?, network.probe("target", "vm-1")?];
    sleep(BEFORE);
    for (number, event) in events.iter().enumerate() {
        probes.iter_mut().try_for_each(super::flight::Probe::mark)?;
        event(network)?;
        if number + 1 < events.len() {
            sleep(hold);
        }
    }
    network.wait_until_whole()?;
    sleep(AFTER);
    let [to_edge, to_hosts] = probes.map(super::flight::Probe::end);
    Ok(Flights { to_edge: Outage::after_each(&to_edge?), to_hosts: Outage::after_each(&to_hosts?) })
}

/// The first uplink of the edge, which sees its link go down. Nobody else does.
const CUT: Event = |network| network.lab.set_link("leaf-1", "edge-1", false);
const JOIN: Event = |network| network.lab.set_link("leaf-1", "edge-1", true);
/// The path to the edge's first TEP, in that direction: no link shows it.
const SWALLOW: Event = |network| network.lab.set_loss("leaf-1", "tor", 100);
const LOSE: Event = |network| network.lab.set_loss("leaf-1", "tor", LOSS);
const DELIVER: Event = |network| network.lab.set_loss("leaf-1", "tor", 0);

fn cut_link(network: &mut Network<'_>) -> Result<Vec<Row>> {
    let Flights { to_edge, to_hosts } = under_probes(network, &[CUT, JOIN], HOLD)?;
    Ok(vec![
        Row::within("edge → hosts, cut", to_hosts[0], BY_LINK_MS, "the edge sees its link"),
        Row::within("hosts → edge, cut", to_edge[0], BY_BFD_MS, "the hosts see no link: BFD, 3 × 100 ms"),
        Row::within("edge → hosts, mended", to_hosts[1], BY_LINK_MS, "flows come back when the path is open"),
        Row::within("hosts → edge, mended", to_edge[1], BY_LINK_MS, "flows come back when the path is open"),
    ])
}

fn black_hole(network: &mut Network<'_>) -> Result<Vec<Row>> {
    let Flights { to_edge, to_hosts } = under_probes(network, &[SWALLOW, DELIVER], HOLD)?;
    Ok(vec![
        Row::within(
            "hosts → edge, swallowed",
            to_edge[0],
            BY_BFD_MS,
            "BFD, 3 × 100 ms; the edge tells the hosts",
        ),
        Row::within(
            "edge → hosts, not swallowed",
            to_hosts[0],
            BY_LINK_MS,
            "moves, and loses nothing on the way",
        ),
        Row::within("hosts → edge, mended", to_edge[1], BY_LINK_MS, "flows come back when the path is open"),
        Row::within("edge → hosts, mended", to_hosts[1], BY_LINK_MS, "flows come back when the path is open"),
    ])
}

fn loss(network: &mut Network<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for multiplier in [3, 10] {
        network.set_multiplier(multiplier)?;
        network.wait_until_whole()?;
        let before = network.downs()?;
        let flights = under_probes(network, &[LOSE, DELIVER], LOSSY)?;
        let downs = network.downs()? - before;
        let lost = flights.to_edge[0];
        let share = 100.0 * lost.lost as f64 / lost.sent as f64;
        let found = format!("{share:.0} % lost; sessions went down {downs} times in {} s", LOSSY.as_secs());
        let what = format!("hosts → edge, multiplier {multiplier}");
        rows.push(match multiplier {
            3 => Row::told(
                &what,
                lost,
                found,
                "3 packets in a row are lost every 5 s: each session goes down that often",
            ),
            _ => Row::judged(
                &what,
                lost,
                found,
                downs == 0,
                "10 packets in a row are lost once in 7 hours: no session goes down",
            ),
        });
    }
    network.set_multiplier(3)?;
    Ok(rows)
}

fn flap(network: &mut Network<'_>) -> Result<Vec<Row>> {
    let flights = under_probes(network, &[CUT, JOIN].repeat(FLAPS), HALF)?;
    let row = |what: &str, parts: &[Outage], limit: u64| {
        // A flap is what goes from one cut to the next.
        let flaps: Vec<u64> = parts.chunks(2).map(|flap| flap.iter().map(|part| part.lost).sum()).collect();
        let whole = parts.iter().fold(Outage::default(), |whole, part| whole.and(part));
        let lost = flaps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let found = format!("lost in each flap: {lost}");
        Row::within(
            what,
            whole,
            limit,
            "no flap costs more than the first; a path is used again when BFD has it up",
        )
        .telling(found)
    };
    Ok(vec![
        row("edge → hosts", &flights.to_hosts, BY_LINK_MS),
        row("hosts → edge", &flights.to_edge, BY_BFD_MS),
    ])
}

fn kill_node(network: &mut Network<'_>) -> Result<Vec<Row>> {
    let mut probe = network.probe("vm-1", "target")?;
    let edges = ["edge-1", "edge-2"];
    let count = |network: &Network<'_>| -> Result<Vec<u64>> {
        edges.iter().map(|edge| network.received(edge, "fp-eth0")).collect()
    };
    let before = count(network)?;
    sleep(BEFORE);
    let carried: Vec<u64> =
        count(network)?.iter().zip(before).map(|(after, before)| after - before).collect();
    // The one that more of the flows go by, as their hashes have it.
    let edge = edges[usize::from(carried[1] > carried[0])];
    probe.mark()?;
    network.kill(edge)?;
    sleep(HOLD);
    probe.mark()?;
    network.restart(edge)?;
    network.wait_until_whole()?;
    sleep(AFTER);
    let parts = Outage::after_each(&probe.end()?);
    Ok(vec![
        Row::within(
            "hosts → edges, killed",
            parts[0],
            BY_BFD_MS,
            "BFD, 3 × 100 ms; the hosts leave its service router",
        ),
        Row::within("hosts → edges, started again", parts[1], BY_LINK_MS, "flows come back when it forwards"),
    ])
}
