//! A trial made ready: every frame that will be sent or has to come back, before the first one is.
//!
//! Flows are dealt out to senders, one on each link for each core; each sender numbers its own packets, so that a receiver keeps a
//! window for each.

use std::sync::Arc;

use sluice_trial::message::{Load, MOST_ARRIVALS, MOST_SIZES, StreamCounts, TrialOrder};
use sluice_trial::topology::{FLOWS, Side, Topology};
use sluice_trial::traffic::{Direction, Stream};

use crate::clock::Clock;
use crate::latency::Latencies;
use crate::receiver::{Receiver, Returning};
use crate::reflector::Reflector;
use crate::sender::Sender;

/// A trial as all cores see it.
pub(crate) struct Plan {
    pub(crate) order: TrialOrder,
    topology: Topology,
    lanes: usize,
    /// By direction: a stream for each size.
    streams: Vec<Vec<Stream>>,
    /// Sizes of successive frames, by their place.
    pattern: Vec<u8>,
    returning: Vec<Arc<Returning>>,
    reflector: Option<Reflector>,
}

impl Plan {
    /// Makes the frames of a trial.
    pub(crate) fn new(
        order: &TrialOrder,
        topology: Topology,
        trial: u8,
        lanes: usize,
    ) -> anyhow::Result<Self> {
        check(order)?;
        let senders = usize::from(topology.uplinks.max(topology.downlinks)) * lanes * order.directions.len();
        anyhow::ensure!(
            !order.arrivals || senders == 1,
            "arrivals are told of one sender, not of {senders}: one direction, one link, one core"
        );
        let mut sizes = order.frame_bytes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        let place = |bytes: &usize| sizes.binary_search(bytes).unwrap_or_default() as u8;
        let pattern: Vec<u8> = order.frame_bytes.iter().map(place).collect();
        let mut plan = Self {
            topology,
            lanes,
            streams: Vec::new(),
            pattern: if sizes.len() == 1 { vec![0] } else { pattern },
            returning: Vec::new(),
            reflector: None,
            order: order.clone(),
        };
        for direction in &order.directions {
            let stream = |bytes: &usize| -> anyhow::Result<Stream> {
                Ok(Stream::new(topology, *direction, order.family, *bytes)?.in_trial(trial))
            };
            let streams = sizes.iter().map(stream).collect::<anyhow::Result<Vec<_>>>()?;
            let senders = (0..FLOWS).map(|flow| plan.sender_of(&streams[0], flow)).collect();
            let counts_paths = topology.paths > 1 && streams[0].received_on() == Side::Uplink;
            let returning = Returning::new(&streams, &plan.pattern, senders, order.expected, counts_paths)?;
            plan.returning.push(Arc::new(returning));
            if *direction == Direction::Loop {
                plan.reflector = Some(Reflector::new(&topology, &streams[0], order.expected));
            }
            plan.streams.push(streams);
        }
        Ok(plan)
    }

    /// Senders of a stream: one on each link for each core. The number of the one that sends a flow.
    fn sender_of(&self, stream: &Stream, flow: u16) -> u8 {
        let link = stream.link(flow);
        let on_side = link.checked_sub(self.topology.uplinks.into()).unwrap_or(link);
        (lane_of(flow, self.lanes) + on_side * self.lanes) as u8
    }

    fn senders(&self, side: Side) -> usize {
        let links = match side {
            Side::Uplink => self.topology.uplinks,
            Side::Downlink => self.topology.downlinks,
        };
        usize::from(links) * self.lanes
    }
}

/// The core that sends a flow. Hashed, so that no core has one link alone: links follow the flows' numbers.
const fn lane_of(flow: u16, lanes: usize) -> usize {
    ((flow as u32).wrapping_mul(0x9e37_79b1) >> 16) as usize % lanes
}

fn check(order: &TrialOrder) -> anyhow::Result<()> {
    let sizes = order.frame_bytes.len();
    anyhow::ensure!(
        (1..=MOST_SIZES).contains(&sizes),
        "a trial has a sequence of 1 to {MOST_SIZES} sizes of frames, not of {sizes}"
    );
    let alone = order.directions.len() == 1 || !order.directions.contains(&Direction::Loop);
    let twice = order.directions.iter().enumerate().any(|(at, one)| order.directions[..at].contains(one));
    anyhow::ensure!(
        alone && !twice && !order.directions.is_empty(),
        "a trial has each direction once, and `loop` alone"
    );
    if let Load::Rate { packets_per_second } = order.load {
        anyhow::ensure!(
            packets_per_second.is_finite() && packets_per_second > 0.0,
            "a rate is a positive number of packets a second, not {packets_per_second}"
        );
    }
    Ok(())
}

/// One core's part of a trial. The empty one sends nothing and counts nothing.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) senders: Vec<Sender>,
    /// What is received on the uplinks, and on the downlinks.
    pub(crate) receivers: [Option<Receiver>; 2],
    pub(crate) reflector: Option<Reflector>,
    /// By direction, in the order of the command.
    pub(crate) counts: Vec<StreamCounts>,
}

impl Part {
    /// Frames that the ports took.
    pub(crate) fn sent(&self) -> u64 {
        self.senders.iter().map(Sender::sent).sum()
    }

    /// Frames that came back to this core, each once.
    pub(crate) fn received(&self) -> u64 {
        self.counts.iter().map(|counts| counts.received).sum()
    }

    /// Nothing is sent any more.
    pub(crate) fn end_sending(&mut self) {
        for counts in &mut self.counts {
            counts.received_while_sending = counts.received;
        }
        self.receivers.iter_mut().flatten().for_each(Receiver::end_sending);
    }

    /// The part of core `lane`.
    pub(crate) fn new(plan: &Plan, lane: usize, clock: Clock) -> anyhow::Result<Self> {
        let mut part = Self {
            senders: Vec::new(),
            receivers: [None, None],
            reflector: plan.reflector,
            counts: plan.order.directions.iter().map(|direction| StreamCounts::new(*direction)).collect(),
        };
        for (at, streams) in plan.streams.iter().enumerate() {
            for link in 0..plan.topology.links() {
                let mine = |flow: &u16| lane_of(*flow, plan.lanes) == lane && streams[0].link(*flow) == link;
                let flows: Vec<u16> = (0..FLOWS).filter(mine).collect();
                if !flows.is_empty() {
                    let mut sender = sender(plan, at, link, &flows, lane, clock)?;
                    if plan.order.arrivals {
                        sender.drop_what_finds_no_room();
                    }
                    part.senders.push(sender);
                }
            }
            let side = streams[0].received_on();
            let latencies = plan.order.latency.then(Latencies::new).transpose()?;
            let returning = Arc::clone(&plan.returning[at]);
            let senders = plan.senders(streams[0].sent_on());
            let mut receiver = Receiver::new(returning, at, senders, latencies, plan.lanes == 1);
            if plan.order.arrivals {
                receiver.arrivals.reserve_exact(MOST_ARRIVALS as usize);
            }
            part.receivers[side as usize] = Some(receiver);
        }
        Ok(part)
    }
}

/// A sender of a stream's flows on one link, with their share of the load.
fn sender(
    plan: &Plan,
    stream: usize,
    link: usize,
    flows: &[u16],
    lane: usize,
    clock: Clock,
) -> anyhow::Result<Sender> {
    let share = flows.len() as f64 / f64::from(FLOWS);
    let load = match plan.order.load {
        // What the flows' shares are rounded by adds up to nothing over all senders.
        Load::Burst { frames } => {
            let (streams, stream) = (plan.streams.len() as u64, stream as u64);
            let frames = frames * (stream + 1) / streams - frames * stream / streams;
            let up_to = |flow: u16| frames * u64::from(flow) / u64::from(FLOWS);
            Load::Burst { frames: flows.iter().map(|flow| up_to(flow + 1) - up_to(*flow)).sum() }
        }
        load => load,
    };
    let mut sender = Sender::new(link, stream, &plan.streams[stream], &plan.pattern, flows, load)?;
    if let Load::Rate { packets_per_second } = load {
        let (streams, links) = (plan.streams.len(), plan.topology.links());
        let number = (stream * links + link) * plan.lanes + lane;
        sender.set_rate(
            packets_per_second * share,
            number as f64 / (streams * links * plan.lanes) as f64,
            clock,
        );
    }
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use sluice_trial::traffic::{Expected, Family};

    use super::*;

    const CLOCK: Clock = Clock::new(2_000_000_000);

    fn order(directions: &[Direction], load: Load) -> TrialOrder {
        TrialOrder {
            directions: directions.to_vec(),
            family: Family::Ipv4,
            frame_bytes: vec![60],
            expected: Expected::Routed,
            load,
            duration_ms: 1_000,
            latency: false,
            arrivals: false,
        }
    }

    #[test]
    fn a_load_is_shared_by_links_and_cores_without_a_rest() {
        let topology = Topology { uplinks: 3, downlinks: 2, paths: 3, ..Topology::default() };
        for lanes in [1, 2, 5] {
            let both = [Direction::Encap, Direction::Decap];
            let burst = Plan::new(&order(&both, Load::Burst { frames: 1001 }), topology, 1, lanes).unwrap();
            let rate = order(&both, Load::Rate { packets_per_second: 1e6 });
            let rate = Plan::new(&rate, topology, 1, lanes).unwrap();
            let (mut frames, mut intended, mut numbers) = ([0; 2], [0; 2], Vec::new());
            for lane in 0..lanes {
                for sender in Part::new(&burst, lane, CLOCK).unwrap().senders {
                    frames[sender.stream()] += sender.intended(0);
                    numbers.push((lane, sender.link()));
                }
                for sender in Part::new(&rate, lane, CLOCK).unwrap().senders {
                    intended[sender.stream()] += sender.intended(2_000_000_000);
                }
            }
            assert_eq!(frames, [500, 501]);
            for intended in intended {
                assert!((999_990..=1_000_030).contains(&intended), "{intended}");
            }
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), 5 * lanes, "a sender for each link and core");
        }
    }

    #[test]
    fn each_sender_has_a_window_of_its_own() {
        let topology = Topology { uplinks: 2, paths: 2, ..Topology::default() };
        let plan = Plan::new(&order(&[Direction::Loop], Load::Most), topology, 1, 3).unwrap();
        let stream = plan.streams[0][0];
        for flow in 0..FLOWS {
            for other in 0..FLOWS {
                let same = stream.link(flow) == stream.link(other) && lane_of(flow, 3) == lane_of(other, 3);
                assert_eq!(plan.sender_of(&stream, flow) == plan.sender_of(&stream, other), same);
            }
        }
        assert_eq!(plan.senders(Side::Uplink), 6);
    }

    #[test]
    fn orders_that_cannot_be_are_refused() {
        let refused = |order: TrialOrder| {
            Plan::new(&order, Topology::default(), 1, 1).err().map(|error| error.to_string()).unwrap()
        };
        for directions in
            [&[][..], &[Direction::Encap, Direction::Encap], &[Direction::Loop, Direction::Decap]]
        {
            assert!(refused(order(directions, Load::Most)).contains("each direction once"));
        }
        for packets_per_second in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let sentence = refused(order(&[Direction::Encap], Load::Rate { packets_per_second }));
            assert!(sentence.contains("positive number"), "{sentence}");
        }
        let two = TrialOrder { arrivals: true, ..order(&[Direction::Encap, Direction::Decap], Load::Most) };
        assert!(refused(two).contains("one sender"));
        for frame_bytes in [vec![], vec![60; 4097], vec![59], vec![1515]] {
            assert!(
                !refused(TrialOrder { frame_bytes, ..order(&[Direction::Encap], Load::Most) }).is_empty()
            );
        }
    }
}
