//! DPDK's testpmd in `io` mode: every frame to the other port, unread. The ceiling of a pair of ports, by a program that is not ours.
//!
//! One core forwards. The main thread sleeps at its prompt on the generator's core; the bench writes commands to it only between trials.
//!
//! ```text
//!   memif 0 ── testpmd, io ── memif 1
//! ```

use std::io::Write;
use std::path::Path;
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use sluice_trial::topology::Topology;
use sluice_trial::traffic::Expected;

use super::{Counters, LINKS_LIMIT, Links, Peer, PeerPorts, Setting, Subject};
use crate::error::{BenchError, Result};
use crate::generator::Generator;
use crate::process::{Interrupt, LOOK, Process, find};

const NAME: &str = "testpmd-io";
/// How long a command may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// What stands before every command that testpmd reads.
const PROMPT: &str = "testpmd>";

pub(super) const PEER: Peer = Peer {
    name: NAME,
    ports: PeerPorts::SharedMemory,
    start: |setting, topology| Ok(Box::new(Testpmd::start(setting, topology)?)),
};

/// testpmd and its generator.
#[derive(Debug)]
pub(crate) struct Testpmd {
    input: ChildStdin,
    lines: Receiver<String>,
    interrupt: Interrupt,
    process: Process,
    generator: Generator,
}

impl Testpmd {
    /// Starts both and waits until the links are up.
    fn start(setting: &Setting, topology: &Topology) -> Result<Self> {
        if topology.links() != 2 {
            return Err(BenchError::Arguments("testpmd's ports are forwarded in one pair".into()));
        }
        let program = find("dpdk-testpmd", None, "install the package dpdk")?;
        let folder = setting.folder_of(NAME)?;
        let socket = folder.join("memif.sock");
        let links = Links::of_socket(&socket, topology);
        let mut generator = setting.start_traffic(&folder, &links, topology, 1)?;
        // Its output is a pipe, in which lines would wait for others.
        let mut process = Process::start("testpmd", Path::new("stdbuf"), &folder, true, |command| {
            command.arg("--output=L").arg(program).args(arguments(setting, &socket));
        })?;
        let (input, lines) = process.lines()?;
        generator.wait_for_links(LINKS_LIMIT)?;
        let mut testpmd = Self { input, lines, interrupt: setting.interrupt.clone(), process, generator };
        // It forwards once it takes commands.
        testpmd.ask("show fwd stats all")?;
        Ok(testpmd)
    }

    /// What a command prints.
    fn ask(&mut self, command: &str) -> Result<String> {
        // The prompt of an empty line behind the command tells that all of the answer is there.
        if self.input.write_all(format!("{command}\n\n").as_bytes()).is_err() {
            return Err(self.process.failed("it has ended"));
        }
        let end = Instant::now() + ANSWER_LIMIT;
        let mut text = String::new();
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) if line.trim() == PROMPT => return Ok(text),
                Ok(line) => text.extend([line.as_str(), "\n"]),
                Err(RecvTimeoutError::Timeout) if Instant::now() < end => self.interrupt.check()?,
                Err(_) => return Err(self.process.failed(format!("it did not answer `{command}`: {text}"))),
            }
        }
    }
}

/// The command line, with ports like those of the node.
fn arguments(setting: &Setting, socket: &Path) -> Vec<String> {
    let (device, other) =
        (setting.device_core(), setting.generator_cores.first().copied().unwrap_or_default());
    let mut arguments =
        vec!["-l".to_owned(), format!("{other},{device}"), "--main-lcore".into(), other.to_string()];
    let memory: &[&str] = if setting.huge_pages {
        &["--in-memory", "--single-file-segments"]
    } else {
        &["--no-huge", "--no-shconf", "--iova-mode=va"]
    };
    arguments.extend(memory.iter().map(|&argument| argument.to_owned()));
    arguments.extend(["--no-pci", "--no-telemetry", "-m", "256"].map(str::to_owned));
    for id in 0..2 {
        let socket = socket.display();
        arguments.push("--vdev".into());
        arguments
            .push(format!("net_memif{id},role=client,id={id},socket={socket},socket-abstract=no,rsize=10"));
    }
    let own = [
        "--",
        "--interactive",
        "--auto-start",
        "--forward-mode=io",
        "--nb-cores=1",
        "--rxd=1024",
        "--txd=1024",
        "--burst=64",
        "--total-num-mbufs=8192",
        "--record-core-cycles",
    ];
    arguments.extend(own.map(str::to_owned));
    // The generator sends on a queue for each of its cores; the one forwarding core has them all.
    let queues = setting.generator_cores.len();
    arguments.extend([format!("--rxq={queues}"), format!("--txq={queues}")]);
    arguments
}

/// Packets and cycles of `show fwd stats all`: of polls that found packets, which is how testpmd counts them. `None` of a text that tells
/// of packets without their cycles, or is no such text.
fn counters(text: &str) -> Option<Counters> {
    let behind = |name: &str| -> Option<u64> {
        let rest = text.get(text.rfind(name)? + name.len()..)?.trim_start();
        rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
    };
    match (behind("total cycles="), behind("total io packets=")) {
        (Some(busy_cycles), Some(packets)) => Some(Counters { packets, busy_cycles, ..Counters::default() }),
        // Without a packet there is no line of cycles; the sum over all ports is the last of its kind.
        _ => (behind("RX-total:")? == 0).then(Counters::default),
    }
}

impl Subject for Testpmd {
    fn name(&self) -> &'static str {
        NAME
    }

    fn generator(&mut self) -> &mut Generator {
        &mut self.generator
    }

    fn expected(&self) -> Expected {
        Expected::Unchanged
    }

    fn counters(&mut self) -> Result<Counters> {
        let text = self.ask("show fwd stats all")?;
        counters(&text).ok_or_else(|| self.process.failed(format!("its statistics cannot be read: {text}")))
    }

    fn forwarding_threads(&self) -> Vec<u32> {
        self.process.threads("rte-worker-")
    }

    fn processes(&self) -> Vec<&Process> {
        vec![&self.process, self.generator.process()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
testpmd> show fwd stats all

  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 70             RX-dropped: 0             RX-total: 70
  TX-packets: 49             TX-dropped: 1             TX-total: 50
  ----------------------------------------------------------------------------

  ---------------------- Forward statistics for port 1  ----------------------
  RX-packets: 50             RX-dropped: 0             RX-total: 50
  TX-packets: 70             TX-dropped: 0             TX-total: 70
  ----------------------------------------------------------------------------

  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: 120            RX-dropped: 0             RX-total: 120
  TX-packets: 119            TX-dropped: 1             TX-total: 120
  ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++

  CPU cycles/packet=150.50 (total cycles=18060 / total io packets=120) at 2000 MHz Clock
";

    #[test]
    fn cycles_and_packets_are_of_both_ports() {
        let counters = counters(TEXT).unwrap();
        assert_eq!((counters.packets, counters.busy_cycles), (120, 18_060));
        assert_eq!(counters.cycles_per_packet(), Some(150.5));
    }

    #[test]
    fn packets_without_cycles_are_no_counters() {
        let without = TEXT.replace("CPU cycles", "other").replace("total cycles", "total");
        assert_eq!(counters(&without), None);
        assert_eq!(counters("testpmd> show fwd stats all\nCommand not found\n"), None);
        let idle = without.replace("RX-total: 120", "RX-total: 0");
        assert_eq!(counters(&idle), Some(Counters::default()));
    }

    #[test]
    fn one_core_forwards_and_the_prompt_is_on_another() {
        let setting = Setting { generator_cores: vec![2, 3], device_cores: vec![5], ..Setting::for_tests() };
        let line = arguments(&setting, Path::new("/tmp/x.sock")).join(" ");
        assert!(line.ends_with("--rxq=2 --txq=2"), "{line}");
        assert!(line.starts_with("-l 2,5 --main-lcore 2 --no-huge --no-shconf"), "{line}");
        assert!(
            line.contains("net_memif1,role=client,id=1,socket=/tmp/x.sock,socket-abstract=no,rsize=10 --"),
            "{line}"
        );
        let huge = arguments(&Setting { huge_pages: true, ..setting }, Path::new("/x")).join(" ");
        assert!(huge.contains("--in-memory") && !huge.contains("--no-huge"), "{huge}");
    }
}
