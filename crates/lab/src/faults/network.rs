//! A lab whose nodes are watched, and what is broken and mended in it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluice_control::{Answer, BfdSession, Client, Request};

use super::flight::Probe;
use crate::error::{LabError, Result, While};
use crate::lab::Lab;
use crate::process::ProcessIdentity;
use crate::program;
use crate::state::{Settings, Status};

/// How long sessions may take to be up, also after a node was started again.
const WHOLE_LIMIT: Duration = Duration::from_secs(40);
/// Pause between two looks at sessions.
const LOOK: Duration = Duration::from_millis(20);
/// How long a node that was started again may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The lab and what was started in it since.
pub(super) struct Network<'a> {
    pub(super) lab: &'a Lab,
    /// Priority of nodes and probes under the real-time scheduler.
    realtime: Option<u8>,
    restarted: Vec<Restarted>,
}

/// A node that was killed and runs again.
struct Restarted {
    node: String,
    /// Who entered the node to start it.
    child: Child,
    /// Its pid in the lab.
    inner_pid: i32,
}

impl<'a> Network<'a> {
    pub(super) fn new(lab: &'a Lab, realtime: Option<u8>) -> Self {
        Self { lab, realtime, restarted: Vec::new() }
    }

    /// Packets from one node to another from now on.
    pub(super) fn probe(&self, from: &str, to: &str) -> Result<Probe> {
        Probe::start(self.lab, self.realtime, from, to)
    }

    /// Waits until every BFD session of every node is up at its own pace.
    pub(super) fn wait_until_whole(&self) -> Result<()> {
        let deadline = Instant::now() + WHOLE_LIMIT;
        for (node, _) in self.lab.topology().daemons() {
            loop {
                // A node that was just started again does not answer yet.
                let sessions = self.sessions(&node.name).unwrap_or_default();
                if !sessions.is_empty() && sessions.iter().all(is_at_pace) {
                    break;
                }
                if Instant::now() > deadline {
                    let states: Vec<String> = sessions.iter().map(describe).collect();
                    return Err(LabError::Step(format!(
                        "{} has not all of its BFD sessions up after {} s: {}",
                        node.name,
                        WHOLE_LIMIT.as_secs(),
                        if states.is_empty() { "it does not answer".into() } else { states.join(", ") }
                    )));
                }
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// How often sessions of all nodes went down so far.
    pub(super) fn downs(&self) -> Result<u64> {
        let nodes = self.lab.topology().daemons();
        nodes
            .map(|(node, _)| Ok(self.sessions(&node.name)?.iter().map(|session| session.downs).sum::<u64>()))
            .sum()
    }

    fn sessions(&self, node: &str) -> Result<Vec<BfdSession>> {
        match self.ask(node, &Request::GetBfdSessions)? {
            Answer::BfdSessions(sessions) => Ok(sessions.sessions),
            _ => Err(LabError::Step(format!("{node} does not tell its BFD sessions"))),
        }
    }

    /// Packets that a port has received.
    pub(super) fn received(&self, node: &str, port: &str) -> Result<u64> {
        match self.ask(node, &Request::GetPhysicalPortStats { name: port.into() })? {
            Answer::PhysicalPortStats(counted) => Ok(counted.rx_packets),
            _ => Err(LabError::Step(format!("{node} does not tell what {port} received"))),
        }
    }

    /// Gives every node its document with another detect multiplier.
    pub(super) fn set_multiplier(&self, multiplier: u8) -> Result<()> {
        for (node, _) in self.lab.topology().daemons() {
            let Some(mut document) = self.lab.document(&node.name)? else { continue };
            if let Some(bfd) = document.get_mut("bfd").and_then(Value::as_object_mut) {
                bfd.insert("multiplier".into(), json!(multiplier));
            }
            let document = Value::Object(document).to_string();
            self.ask(&node.name, &Request::Apply { document, file: format!("{}.yaml", node.name) })?;
        }
        Ok(())
    }

    fn ask(&self, node: &str, request: &Request) -> Result<Answer> {
        let answer = Client::connect(&self.lab.socket(node)).and_then(|mut client| client.ask(request));
        answer.map_err(|error| LabError::Step(format!("{node}: {error}")))
    }

    /// Ends the sluiced of a node with SIGKILL.
    pub(super) fn kill(&mut self, node: &str) -> Result<()> {
        let again = self.restarted.iter().position(|restarted| restarted.node == node);
        let pid = match again {
            Some(again) => self.restarted[again].inner_pid,
            None => self.first_pid(node)?,
        };
        let mut command = self.lab.command(node, "sh");
        program::run(command.args(["-c", "kill -KILL \"$0\"", &pid.to_string()]), "")?;
        if let Some(again) = again {
            self.restarted.swap_remove(again).end()?;
        }
        Ok(())
    }

    /// Pid, in the lab, of the sluiced that the lab started.
    fn first_pid(&self, node: &str) -> Result<i32> {
        let status: Option<Status> = self.lab.state().read("status.json");
        let daemons = status.map(|status| status.daemons).unwrap_or_default();
        let daemon = daemons.iter().find(|daemon| daemon.node == node && daemon.ended.is_none());
        daemon
            .map(|daemon| daemon.inner_pid)
            .ok_or_else(|| LabError::Step(format!("no sluiced runs in {node}")))
    }

    /// Starts the sluiced of a node again as the lab did.
    pub(super) fn restart(&mut self, node: &str) -> Result<()> {
        let state = self.lab.state();
        let settings: Option<Settings> = state.read("settings.json");
        let sluiced = settings.and_then(|settings| settings.sluiced);
        let sluiced = sluiced.ok_or_else(|| LabError::Step("the lab knows of no sluiced program".into()))?;
        let mut command = self.lab.at_priority(self.realtime, node, "sh");
        command.args(["-c", "echo $$; log=$1; shift; exec \"$0\" \"$@\" >> \"$log\" 2>&1"]);
        command.arg(sluiced).arg(state.log(node));
        command.arg("--config").arg(state.file("nodes").join(format!("{node}.yaml")));
        command.arg("--socket").arg(state.socket(node));
        command.env("LIBXDP_SKIP_DISPATCHER", "1").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().doing(|| format!("starting sluiced of {node}"))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).doing(|| format!("starting sluiced of {node}"))?;
        }
        let inner_pid =
            line.trim().parse().map_err(|_| LabError::Step(format!("sluiced of {node} did not start")))?;
        self.restarted.push(Restarted { node: node.into(), child, inner_pid });
        Ok(())
    }
}

impl Restarted {
    /// Waits for its end; SIGTERM, which whoever entered the node passes on, where it does not end by itself.
    fn end(mut self) -> Result<()> {
        if let Some(process) = ProcessIdentity::of(self.child.id().cast_signed()) {
            process.end(END_LIMIT)?;
        }
        self.child.wait().map(drop).doing(|| format!("waiting for sluiced of {}", self.node))
    }
}

impl Drop for Network<'_> {
    fn drop(&mut self) {
        for restarted in self.restarted.drain(..) {
            // What is left goes with the lab.
            let _ = restarted.end();
        }
    }
}

/// Whether a session is up and past the slow pace at which it begins (RFC 5880 section 6.8.3).
fn is_at_pace(session: &BfdSession) -> bool {
    let at_pace = session.detection_time_ms.is_some_and(|time| time < 2_000);
    session.state == "Up" && session.usable && at_pace && session.transmit_interval_ms < Some(1_000)
}

fn describe(session: &BfdSession) -> String {
    format!("{} to {} {}", session.local, session.remote, session.state)
}
