//! The other end of the links when the generator measures itself: every frame goes to the other side, unread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context;
use arrayvec::ArrayVec;
use sluice_dpdk::{Eal, Mbuf, MemifRole, Port, Queues, cycles};
use sluice_trial::message::{Answer, Command, Forwarded};
use sluice_trial::ports::PortName;

use crate::ports::{self, BURST, Opening};
use crate::tell;

/// How often the answering thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// What the forwarding thread counts.
#[derive(Default)]
struct Counters {
    packets: AtomicU64,
    busy_cycles: AtomicU64,
}

/// Opens the ports and forwards until the orders end or a signal comes.
pub(crate) fn run(
    eal: &Eal,
    uplinks: &[PortName],
    downlinks: &[PortName],
    zero_copy: bool,
    orders: Receiver<Command>,
) -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("watching for signals")?;
    }
    let named: Vec<PortName> = uplinks.iter().chain(downlinks).cloned().collect();
    let pool = ports::pool(eal, "packets", ports::buffers(&named, 2))?;
    let opening = Opening { role: MemifRole::Client, zero_copy, receive_queues: 1, transmit_queues: 1 };
    let mut links = Vec::new();
    for (at, port) in named.iter().enumerate() {
        let (port, queues) = opening.open(eal, &format!("link{at}"), port, &pool)?;
        links.push(Link { queues, _port: port, to: to(at, uplinks.len(), downlinks.len()) });
    }
    let counters = Arc::new(Counters::default());
    tell(&Answer::Started {
        memory: eal.memory_backing().to_string(),
        cycles_per_second: eal.cycles_per_second(),
        dpdk: eal.version(),
    })?;
    // The thread that started the EAL forwards: it is the pinned one, with a cache in the pool.
    let (shared, ending) = (Arc::clone(&counters), Arc::clone(&stop));
    let answering = std::thread::spawn(move || {
        let result = answer(&orders, &shared, &ending);
        ending.store(true, Ordering::Relaxed);
        result
    });
    forward(links, &counters, &stop);
    answering.join().unwrap_or_else(|_| anyhow::bail!("the answering thread failed"))
}

fn answer(orders: &Receiver<Command>, counters: &Counters, stop: &AtomicBool) -> anyhow::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        match orders.recv_timeout(LOOK) {
            Ok(Command::GetForwarded) => tell(&Answer::Forwarded(Forwarded {
                packets: counters.packets.load(Ordering::Relaxed),
                busy_cycles: counters.busy_cycles.load(Ordering::Relaxed),
            }))?,
            Ok(_) => tell(&Answer::Failed { message: "this process only echoes".into() })?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
    Ok(())
}

/// A port that is echoed from.
struct Link {
    // Queues before their port.
    queues: Queues,
    _port: Port,
    /// Where its frames go.
    to: usize,
}

/// The link of the other side that the frames of one go to.
const fn to(link: usize, uplinks: usize, downlinks: usize) -> usize {
    if link < uplinks { uplinks + link % downlinks } else { (link - uplinks) % uplinks }
}

fn forward(mut links: Vec<Link>, counters: &Counters, stop: &AtomicBool) {
    let mut batch: ArrayVec<Mbuf, BURST> = ArrayVec::new();
    let (mut packets, mut busy) = (0, 0);
    let mut start = cycles();
    while !stop.load(Ordering::Relaxed) {
        let mut work = 0;
        for link in 0..links.len() {
            let received = links[link].queues.receive[0].receive(&mut batch);
            if received > 0 {
                work += received;
                let to = links[link].to;
                links[to].queues.transmit[0].transmit(&mut batch);
                // What finds no room is lost, as in a node.
                Mbuf::free_bulk(&mut batch);
            }
        }
        let now = cycles();
        if work > 0 {
            packets += work as u64;
            busy += now.wrapping_sub(start);
            counters.packets.store(packets, Ordering::Relaxed);
            counters.busy_cycles.store(busy, Ordering::Relaxed);
        }
        start = now;
    }
}
