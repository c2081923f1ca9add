//! DPDK's bonding driver in mode 4 (802.3ad), in `dpdk-testpmd`: the other end of a LAG that this project did not write.
//!
//! The driver sends its LACPDUs when its device is asked to send something, so testpmd is told ten times a second to send one packet.
//! Used by the tests of the protocol and of whole nodes.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long testpmd may take to end.
const LIMIT: Duration = Duration::from_secs(40);

/// A running testpmd with a bonding device over two interfaces.
pub(crate) struct Bonding {
    child: Child,
    end: Arc<AtomicBool>,
    feeder: Option<JoinHandle<ChildStdin>>,
    output: Option<JoinHandle<String>>,
}

impl Bonding {
    /// Starts it over these.
    pub(crate) fn over(interfaces: [&str; 2]) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = Command::new("dpdk-testpmd");
        command.arg(format!("--lcores=0@0,1@{}", usize::from(processors > 1)));
        command.args(["--no-huge", "--no-shconf", "--iova-mode=va", "--no-pci", "-m", "128"]);
        for (number, interface) in interfaces.iter().enumerate() {
            command.arg(format!("--vdev=net_af_packet{number},iface={interface}"));
        }
        command.arg("--vdev=net_bonding0,mode=4,slave=net_af_packet0,slave=net_af_packet1");
        // The bonding device is port 2, behind the two that it is made of.
        command.args(["--", "-i", "--portmask=0x4", "--forward-mode=rxonly", "--burst=1", "--no-flush-rx"]);
        command.args(["--total-num-mbufs=4096", "--txd=256", "--rxd=256"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let end = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&end);
        let feeder = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) && stdin.write_all(b"start tx_first 1\nstop\n").is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
            stdin
        });
        let output = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stdout.read_to_string(&mut text);
            text
        });
        Self { child, end, feeder: Some(feeder), output: Some(output) }
    }

    /// Ends the program with these last commands. Returns what it said.
    pub(crate) fn finish(mut self, commands: &str) -> String {
        self.end.store(true, Ordering::Relaxed);
        let mut stdin = self.feeder.take().unwrap().join().unwrap();
        let _ = stdin.write_all(commands.as_bytes());
        let _ = stdin.write_all(b"quit\n");
        drop(stdin);
        let end = Instant::now() + LIMIT;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "testpmd does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.output.take().unwrap().join().unwrap()
    }
}

impl Drop for Bonding {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
