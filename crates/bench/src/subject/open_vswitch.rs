//! Open vSwitch with DPDK, set up to do what the node does: Geneve tunnels and routing by flows, on the same memif ports.
//!
//! It has a run directory, a database and a network namespace of its own, and ends with the bench. In its favour: its exact-match
//! cache takes every flow, its packet pools are no larger than its rings need, its flows never time out.
//!
//! ```text
//!   memif 0 ── br-int ── geneve ─┈─ br-phy (172.16.0.1) ── memif 1
//! ```

mod statistics;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sluice_trial::topology::*;

use super::{Counters, LINKS_LIMIT, Links, Peer, PeerPorts, Setting, Subject};
use crate::error::{BenchError, Result, While};
use crate::generator::Generator;
use crate::process::{Process, run};

const PROGRAM: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
const REMEDY: &str = "install openvswitch-switch-dpdk";
/// How long a daemon may take to start; DPDK's start touches all of its memory.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Receive queues of the generator: one for each of Open vSwitch's threads that send, one poll-mode thread and the rest.
const SENDING_THREADS: u16 = 2;

pub(super) const PEER: Peer = Peer {
    name: NAME,
    ports: PeerPorts::SharedMemory,
    start: |setting, topology| {
        if *topology != Topology::default() {
            return Err(BenchError::Arguments("Open vSwitch is set up for Geneve over IPv4 alone".into()));
        }
        if !setting.huge_pages {
            // It refuses DPDK's options for ordinary pages.
            return Err(BenchError::Arguments("it needs huge pages, and none can be used here".into()));
        }
        Ok(Box::new(OpenVswitch::start(setting)?))
    },
};
const NAME: &str = "ovs-dpdk";

/// Open vSwitch and its generator.
#[derive(Debug)]
pub(crate) struct OpenVswitch {
    folder: PathBuf,
    core: u16,
    // The switch before its database.
    switch: Process,
    _database: Process,
    generator: Generator,
}

impl OpenVswitch {
    /// Starts everything and waits until the links are up.
    pub(crate) fn start(setting: &Setting) -> Result<Self> {
        for path in [PROGRAM, SCHEMA] {
            if !Path::new(path).exists() {
                return Err(BenchError::NoProgram {
                    name: "ovs-vswitchd-dpdk",
                    beside: path.into(),
                    remedy: REMEDY,
                });
            }
        }
        let folder = setting.folder_of("ovs")?;
        let (topology, socket) = (Topology::default(), folder.join("memif.sock"));
        let links = Links::of_socket(&socket, &topology);
        let generator = setting.start_traffic(&folder, &links, &topology, SENDING_THREADS)?;
        let database = start_database(setting, &folder)?;
        configure(&folder, setting)?;
        let switch = start_switch(setting, &folder)?;
        let mut subject =
            Self { folder, core: setting.device_core(), switch, _database: database, generator };
        subject.add_ports(&socket)?;
        subject.generator.wait_for_links(LINKS_LIMIT)?;
        subject.add_underlay()?;
        subject.add_flows()?;
        Ok(subject)
    }

    fn add_ports(&self, socket: &Path) -> Result<()> {
        let device = |id: u16| {
            let socket = socket.display();
            format!(
                "options:dpdk-devargs=\"net_memif{id},role=client,id={id},socket={socket},socket-abstract=no,rsize=10\""
            )
        };
        let topology = Topology::default();
        let tunnel = [
            format!("options:local_ip={}", topology.edge_tep(0)),
            format!("options:remote_ip={}", topology.host_tep(0)),
            format!("options:key={}", vni(0).get()),
        ];
        let mac = format!("other-config:hwaddr=\"{}\"", downlink_mac(0));
        let vsctl = |arguments: &[&str]| database_command(&self.folder, arguments);
        vsctl(&["add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev"])?;
        vsctl(&["add-br", "br-phy", "--", "set", "bridge", "br-phy", "datapath_type=netdev", &mac])?;
        vsctl(&[
            "add-port",
            "br-int",
            "uplink",
            "--",
            "set",
            "interface",
            "uplink",
            "type=dpdk",
            &device(0),
            "ofport_request=1",
        ])?;
        vsctl(&[
            "add-port",
            "br-phy",
            "downlink",
            "--",
            "set",
            "interface",
            "downlink",
            "type=dpdk",
            &device(1),
        ])?;
        vsctl(&[
            "add-port",
            "br-int",
            "tunnel",
            "--",
            "set",
            "interface",
            "tunnel",
            "type=geneve",
            &tunnel[0],
            &tunnel[1],
            &tunnel[2],
            "ofport_request=2",
        ])?;
        let errors = vsctl(&["--columns=error", "--bare", "list", "interface"])?;
        match errors.split_whitespace().next() {
            None => Ok(()),
            Some(_) => Err(self.switch.failed(errors.trim().to_owned())),
        }
    }

    /// The local TEP's address on br-phy, in the switch's own network namespace, and the host's MAC address.
    fn add_underlay(&self) -> Result<()> {
        let pid = self.switch.pid().to_string();
        let ip = |arguments: &[&str]| {
            run("nsenter", Command::new("nsenter").args(["--net", "--target", &pid, "ip"]).args(arguments))
        };
        let topology = Topology::default();
        let (edge, host) = (topology.edge_tep(0), topology.host_tep(0));
        ip(&["address", "add", &format!("{edge}/24"), "dev", "br-phy"])?;
        ip(&["link", "set", "br-phy", "up"])?;
        // The switch follows the kernel's routes; this one is there when both are.
        self.control(&["ovs/route/add", &format!("{host}/32"), "br-phy"])?;
        self.control(&["tnl/neigh/set", "br-phy", &host.to_string(), &host_mac(0).to_string()])?;
        Ok(())
    }

    fn add_flows(&self) -> Result<()> {
        let file = self.folder.join("flows");
        std::fs::write(&file, flows()).during(|| format!("writing {}", file.display()))?;
        let bridge = format!("unix:{}", self.folder.join("br-int.mgmt").display());
        run("ovs-ofctl", Command::new("ovs-ofctl").args(["del-flows", &bridge]))?;
        run("ovs-ofctl", Command::new("ovs-ofctl").args(["add-flows", &bridge]).arg(&file))?;
        Ok(())
    }

    fn control(&self, arguments: &[&str]) -> Result<String> {
        control(&self.folder, arguments)
    }
}

/// Flows that do what the node's tier-0 gateway does with the packets of the bench.
fn flows() -> String {
    let mut text = String::new();
    let (uplink, tester) = (uplink_mac(0), path_mac(0));
    for workload in 0..WORKLOADS {
        let (v4, v6) = (workload_ipv4(0, workload), workload_ipv6(0, workload));
        let rewrite =
            format!("mod_dl_src:{ROUTER_MAC},mod_dl_dst:{},dec_ttl,output:2", workload_mac(workload));
        let _ = writeln!(text, "in_port=1,dl_dst={uplink},ip,nw_dst={v4},actions={rewrite}");
        let _ = writeln!(text, "in_port=1,dl_dst={uplink},ipv6,ipv6_dst={v6},actions={rewrite}");
    }
    let rewrite = format!("mod_dl_src:{uplink},mod_dl_dst:{tester},dec_ttl,output:1");
    for family in ["ip", "ipv6"] {
        let _ = writeln!(text, "in_port=2,dl_dst={ROUTER_MAC},{family},actions={rewrite}");
    }
    text
}

fn start_database(setting: &Setting, folder: &Path) -> Result<Process> {
    let (file, socket) = (folder.join("conf.db"), folder.join("db.sock"));
    run("ovsdb-tool", Command::new("ovsdb-tool").arg("create").arg(&file).arg(SCHEMA))?;
    let server = Path::new("ovsdb-server");
    let mut database = Process::start("ovsdb-server", server, folder, false, |command| {
        command.arg(&file).arg(format!("--remote=punix:{}", socket.display()));
        command.arg(format!("--unixctl={}", folder.join("database.ctl").display()));
        environment(command, folder);
    })?;
    database.wait_for("its socket was there", START_LIMIT, &setting.interrupt, || {
        socket.exists().then_some(())
    })?;
    Ok(database)
}

fn configure(folder: &Path, setting: &Setting) -> Result<()> {
    let settings = [
        "other_config:dpdk-init=true".to_owned(),
        format!("other_config:pmd-cpu-mask={:#x}", 1u64 << setting.device_core()),
        "other_config:dpdk-extra=\"--in-memory --single-file-segments --no-pci\"".to_owned(),
        "other_config:dpdk-socket-mem=\"256\"".to_owned(),
        "other_config:per-port-memory=true".to_owned(),
        "other_config:emc-insert-inv-prob=1".to_owned(),
        "other_config:max-idle=3600000".to_owned(),
    ];
    database_command(folder, &["--no-wait", "init"])?;
    let mut arguments = vec!["--no-wait", "set", "Open_vSwitch", "."];
    arguments.extend(settings.iter().map(String::as_str));
    database_command(folder, &arguments).map(drop)
}

fn start_switch(setting: &Setting, folder: &Path) -> Result<Process> {
    let mut switch = Process::start("ovs-vswitchd", Path::new("unshare"), folder, false, |command| {
        command.args(["--net", PROGRAM]).arg(format!("unix:{}", folder.join("db.sock").display()));
        command.arg(format!("--unixctl={}", folder.join("switch.ctl").display()));
        environment(command, folder);
    })?;
    switch.wait_for("it answered", START_LIMIT, &setting.interrupt, || control(folder, &["version"]).ok())?;
    Ok(switch)
}

/// Directories of Open vSwitch, all in one folder.
fn environment(command: &mut Command, folder: &Path) {
    for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
        command.env(variable, folder);
    }
}

fn database_command(folder: &Path, arguments: &[&str]) -> Result<String> {
    let database = format!("--db=unix:{}", folder.join("db.sock").display());
    run("ovs-vsctl", Command::new("ovs-vsctl").args([&database, "--timeout=60"]).args(arguments))
}

fn control(folder: &Path, arguments: &[&str]) -> Result<String> {
    let target = folder.join("switch.ctl");
    run("ovs-appctl", Command::new("ovs-appctl").arg("-t").arg(target).arg("--timeout=10").args(arguments))
}

impl Subject for OpenVswitch {
    fn name(&self) -> &'static str {
        NAME
    }

    fn generator(&mut self) -> &mut Generator {
        &mut self.generator
    }

    fn counters(&mut self) -> Result<Counters> {
        let text = self.control(&["dpif-netdev/pmd-stats-show"])?;
        statistics::parse(&text, self.core).ok_or_else(|| {
            self.switch.failed(format!("its statistics of core {} cannot be read: {text}", self.core))
        })
    }

    fn forwarding_threads(&self) -> Vec<u32> {
        self.switch.threads("pmd-c")
    }

    fn processes(&self) -> Vec<&Process> {
        vec![&self.switch, self.generator.process()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_cover_both_directions_and_families() {
        let text = flows();
        assert_eq!(text.lines().count(), 42);
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            "in_port=1,dl_dst=02:00:00:00:00:01,ip,nw_dst=10.10.20.10,\
             actions=mod_dl_src:02:50:56:56:44:52,mod_dl_dst:02:00:00:01:00:00,dec_ttl,output:2"
        );
        assert!(text.contains("in_port=1,dl_dst=02:00:00:00:00:01,ipv6,ipv6_dst=2001:db8:20::23,"));
        assert!(text.ends_with("dec_ttl,output:1\n"));
    }
}
