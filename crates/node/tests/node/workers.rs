//! Several workers: each flow is one worker's, and what the workers count adds up.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use sluice_control::{CpuStats, FlowCacheStats, Request};

use crate::support::documents::{self, DB_1, PORTS, ROUTER_MAC, WEB_1, WEB_2, changed};
use crate::support::frames::{flow, routed};
use crate::support::link::Link;
use crate::support::network::{in_network, ip};
use crate::support::node::{Node, answer};
use crate::support::wait_for;

const FLOWS: u16 = 64;
const PACKETS: u64 = 10;

/// Two cores of this machine, or a word on why the test does not run.
fn two_cores(test: &str) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        println!("{test}: SKIPPED, since this machine has one core");
    }
    cores >= 2
}

fn on_two_cores(document: &str) -> String {
    changed(document, "dataplane: {", "dataplane: {cores: [0, 1], ")
}

fn caches(node: &Node) -> Vec<FlowCacheStats> {
    answer!(node, &Request::GetFlowCacheStats, FlowCacheStats)
}

fn cores(node: &Node) -> Vec<CpuStats> {
    answer!(node, &Request::GetCpuStats, CpuStats)
}

/// That the flows were decided once each, by a worker each, and that no worker was idle.
fn assert_spread(caches: &[FlowCacheStats]) {
    let sum = |count: fn(&FlowCacheStats) -> u64| caches.iter().map(count).sum::<u64>();
    assert_eq!(
        sum(|cache| cache.insertions),
        u64::from(FLOWS),
        "a flow that two workers see counts twice: {caches:?}"
    );
    assert_eq!(sum(|cache| cache.flows), u64::from(FLOWS), "{caches:?}");
    assert_eq!(sum(|cache| cache.hits), u64::from(FLOWS) * (PACKETS - 1), "{caches:?}");
    // That all of 64 flows are one worker's by chance happens once in 2⁶³ times.
    assert!(caches.len() == 2 && caches.iter().all(|cache| cache.flows > 0), "{caches:?}");
}

/// Sends every flow's packets in turn, each when the one before has come through.
fn send(from: &Link, to: &Link, frame: impl Fn(u16, u64) -> (Vec<u8>, Vec<u8>)) {
    for number in 0..PACKETS {
        for port in 0..FLOWS {
            let (sent, expected) = frame(10_000 + port, number);
            from.send(&sent);
            to.expect("the datagram", |frame| (frame == expected).then_some(()));
        }
    }
}

#[test]
fn a_flow_stays_on_its_worker_and_the_counters_add_up() {
    let name = "workers::a_flow_stays_on_its_worker_and_the_counters_add_up";
    if !two_cores(name) {
        return;
    }
    in_network(name, &PORTS, || {
        let [web_1, db_1] = ["web-1", "db-1"].map(Link::open);
        let node = Node::start(&on_two_cores(&documents::on_interfaces()));
        let dataplane = answer!(node, &Request::GetDataplane, Dataplane);
        assert_eq!((dataplane.corelist, dataplane.rx_queue_per_core), (vec![0, 1], 4));
        let ports = answer!(node, &Request::GetPhysicalPorts, PhysicalPorts);
        assert!(ports.iter().all(|port| port.queues == 2), "{ports:?}");
        PORTS.iter().for_each(|port| node.wait_for_link(port, "up"));

        send(&web_1, &db_1, |port, number| {
            let frame = flow(WEB_1, ROUTER_MAC, DB_1.0, port, &number.to_be_bytes());
            let expected = routed(&frame, ROUTER_MAC, DB_1.1);
            (frame, expected)
        });
        assert_spread(&caches(&node));
        let sent = u64::from(FLOWS) * PACKETS;
        wait_for("the ports' and the workers' counters to agree", || {
            let ports = PORTS.map(|port| node.port_statistics(port));
            let workers = cores(&node);
            let received = ports.iter().map(|port| port.rx_packets).sum::<u64>();
            let transmitted = ports.iter().map(|port| port.tx_packets).sum::<u64>();
            let agree = received == workers.iter().map(|core| core.rx_packets).sum::<u64>()
                && transmitted == workers.iter().map(|core| core.tx_packets).sum::<u64>();
            (agree && ports[0].rx_packets == sent && ports[1].tx_packets == sent).then_some(())
        });
        let workers = cores(&node);
        assert_eq!(workers.iter().map(|core| core.core).collect::<Vec<_>>(), [0, 1]);
        assert!(workers.iter().all(|core| core.rx_packets > 0 && core.tx_packets > 0), "{workers:?}");
    });
}

#[test]
fn two_nodes_with_two_workers_each_share_a_memif_of_two_queues() {
    let name = "workers::two_nodes_with_two_workers_each_share_a_memif_of_two_queues";
    if !two_cores(name) {
        return;
    }
    let ports = ["web-1", "db-1", "fp-eth1"];
    in_network(name, &ports, || {
        let folder = tempfile::tempdir().unwrap();
        let memif = |role: &str| {
            format!("kind: memif, socket: {}, role: {role}", folder.path().join("memif.sock").display())
        };
        let here = Node::start(&on_two_cores(&documents::with_device("fp-eth0", &memif("client"))));
        // A TAP, since the driver of packet sockets names groups of queues by process and interface, which two nodes of one network may share.
        let other = documents::other_node(&memif("server"));
        let other = changed(&other, "kind: af_packet, interface: web-2", "kind: tap, interface: tap-web-2");
        let there = Node::start(&on_two_cores(&other));
        ip("link set tap-web-2 addrgenmode none");
        ip("link set tap-web-2 up");
        there.wait_for_link("web-2", "up");
        let (web_1, web_2) = (Link::open("web-1"), Link::on("tap-web-2"));
        for node in [&here, &there] {
            wait_for("the tunnel", || {
                let tunnels = answer!(node, &Request::GetTunnelPorts, TunnelPorts);
                tunnels.iter().any(|tunnel| tunnel.vni == 5001 && tunnel.state == "up").then_some(())
            });
        }
        send(&web_1, &web_2, |port, number| {
            let frame = flow(WEB_1, WEB_2.1, WEB_2.0, port, &number.to_be_bytes());
            (frame.clone(), frame)
        });
        assert_spread(&caches(&here));
        assert_spread(&caches(&there));
    });
}

#[test]
fn a_core_that_the_process_may_not_use_is_neither_chosen_nor_taken() {
    let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::this()).unwrap();
    let cores: Vec<usize> = (0..1024).filter(|core| allowed.is_set(*core).unwrap()).collect();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    if first == last {
        println!(
            "workers::a_core_that_the_process_may_not_use_is_neither_chosen_nor_taken: SKIPPED, since there is one core"
        );
        return;
    }
    // Without a limit it would be the last one. What a process starts has its limits.
    let mut only = nix::sched::CpuSet::new();
    only.set(first).unwrap();
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &only).unwrap();
    let node = Node::start_in(crate::lifecycle::quiet_folder());
    assert_eq!(answer!(node, &Request::GetDataplane, Dataplane).corelist, [first as u16]);
    let document = documents::on_files(node.folder());
    let document = changed(&document, "dataplane: {", &format!("dataplane: {{cores: [{last}], "));
    let said = node.refused(&crate::support::node::apply(&document));
    let expected = format!(
        "dataplane.cores: core {last} does not exist or is not allowed here: the cores of this process are {first}"
    );
    assert_eq!(said, expected);
}

/// Makes every sleep of the node's worker fail, which it never does in earnest: the standard library ends the thread by a panic. None: why that
/// cannot be had here.
fn break_sleep(node: &Node) -> Result<Child, String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", node.pid())).unwrap();
    let named = |task: &std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("worker-"))
    };
    let worker = tasks.flatten().find(named).unwrap().file_name().into_string().unwrap();
    let calls = "inject=nanosleep,clock_nanosleep:error=EINVAL";
    let mut strace = Command::new("strace");
    strace.args(["-e", calls, "-o", "/dev/null", "-p", &worker]).stderr(Stdio::piped());
    let mut child = strace.spawn().map_err(|error| format!("strace cannot be started ({error})"))?;
    let mut said = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    if said.contains("attached") { Ok(child) } else { Err(format!("strace says: {said}")) }
}

#[test]
fn a_node_whose_worker_ends_ends_with_it_and_says_so() {
    let name = "workers::a_node_whose_worker_ends_ends_with_it_and_says_so";
    let mut node = Node::start_in(crate::lifecycle::quiet_folder());
    let core = answer!(node, &Request::GetDataplane, Dataplane).corelist[0];
    let mut strace = match break_sleep(&node) {
        Ok(strace) => strace,
        Err(why) => {
            println!("{name}: SKIPPED, since {why}");
            return;
        }
    };
    let ended = node.wait_for_end();
    strace.wait().unwrap();
    assert_eq!(ended.code(), Some(1), "{}", node.log());
    let told = |line: &&str| line.contains("ERROR") && line.contains("the worker has ended");
    assert_eq!(node.log().lines().filter(told).count(), 1, "{}", node.log());
    assert!(node.log().contains(&format!("sluiced: the worker on core {core} has ended")), "{}", node.log());
    assert!(!node.socket().exists());
}
