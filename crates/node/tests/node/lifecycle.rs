//! Start, answers and end of a node.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use nix::sys::signal::Signal;
use nix::sys::socket::{Shutdown, shutdown};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use sluice_control::{Request, TracePacket, TracePayload, TraceProtocol};

use crate::forwarding::write_pcap;
use crate::support::documents::{self, PORTS};
use crate::support::node::{Node, answer, sluiced};
use crate::support::wait_for;

/// A folder with the document of a node with pcap ports, none of which receives anything.
pub(crate) fn quiet_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for port in PORTS {
        write_pcap(&folder.path().join(format!("{port}-in.pcap")), &[]);
    }
    std::fs::write(folder.path().join("node.yaml"), documents::on_files(folder.path())).unwrap();
    folder
}

/// The node's threads, by name.
fn threads(node: &Node) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", node.pid())).unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    let mut names: Vec<String> = tasks.filter_map(name).collect();
    names.sort();
    names
}

#[test]
fn every_request_is_answered_with_what_the_document_says() {
    let node = Node::start_in(quiet_folder());

    let status = node.status();
    assert_eq!((status.name.as_str(), status.role.as_str()), ("node-1", "edge"));
    assert_eq!((status.pid, status.generation), (node.pid(), 1));
    assert_eq!(status.version, env!("CARGO_PKG_VERSION"));

    let dataplane = answer!(node, &Request::GetDataplane, Dataplane);
    assert_eq!((dataplane.rx_ring_size, dataplane.tx_ring_size), (512, 512));
    assert_eq!((dataplane.rx_ring_size_after_restart, dataplane.tx_ring_size_after_restart), (None, None));
    assert_eq!(
        (dataplane.packet_memory_mib, dataplane.hugepages, dataplane.flow_cache_size),
        (96, false, 4096)
    );
    assert_eq!(dataplane.devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>(), PORTS);
    assert!(dataplane.devices.iter().all(|device| device.driver == "net_pcap" && device.pci.is_empty()));
    assert_eq!(dataplane.rx_queue_per_core, 4);
    assert!(dataplane.buffers_in_use < dataplane.buffers, "{dataplane:?}");

    let workers = answer!(node, &Request::GetCpuStats, CpuStats);
    assert_eq!(workers.iter().map(|worker| worker.core).collect::<Vec<_>>(), dataplane.corelist);
    assert!((0.0..=100.0).contains(&workers[0].usage_percent), "{workers:?}");
    assert_eq!(workers[0].rx_packets, 0);

    let cache = answer!(node, &Request::GetFlowCacheConfig, FlowCacheConfig);
    assert_eq!((cache.enabled, cache.size, cache.idle_timeout_s), (true, 4096, 60));
    assert_eq!((node.flow_cache().size, node.flow_cache().hits), (4096, 0));

    let switches = answer!(node, &Request::GetLogicalSwitches, LogicalSwitches);
    let said: Vec<_> = switches.iter().map(|s| (s.name.as_str(), s.vni, s.encap.as_str())).collect();
    assert_eq!(said, [("web", 5001, "GENEVE"), ("db", 5002, "VXLAN")]);
    assert_eq!((switches[0].local_workloads, switches[0].remote_workloads), (1, 2));

    let routers = answer!(node, &Request::GetLogicalRouters, LogicalRouters);
    let kinds: BTreeSet<&str> = routers.iter().map(|router| router.kind.as_str()).collect();
    assert!(kinds.contains("TUNNEL") && kinds.contains("DISTRIBUTED_ROUTER_TIER1"), "{kinds:?}");
    assert!(kinds.contains("SERVICE_ROUTER_TIER0"), "{kinds:?}");

    let all = answer!(node, &Request::GetRoute { router: None }, Routes);
    assert!(all.iter().any(|table| table.router == "t0") && all.iter().any(|table| table.router == "t1"));
    let t0 = answer!(node, &Request::GetRoute { router: Some("t0".into()) }, Routes);
    assert_eq!(t0.len(), 1);
    let default = t0[0].routes.iter().find(|route| route.network == "0.0.0.0/0").expect("the default route");
    assert!(default.gateways.iter().any(|gateway| gateway.contains("198.51.100.1")), "{default:?}");
    let forwarding = answer!(node, &Request::GetForwarding { router: Some("t0".into()) }, Forwarding);
    let default =
        forwarding[0].entries.iter().find(|entry| entry.ip_prefix == "0.0.0.0/0").expect("the default route");
    assert_eq!((default.gateway_ip.as_str(), default.state.as_str()), ("198.51.100.1", "unresolved"));

    let ports = answer!(node, &Request::GetPhysicalPorts, PhysicalPorts);
    let users: Vec<_> =
        ports.iter().map(|port| (port.name.as_str(), port.used_by.join(","), port.mtu)).collect();
    assert_eq!(
        users,
        [
            ("web-1", "web-1".to_owned(), 1500),
            ("db-1", "db-1".to_owned(), 1500),
            ("fp-eth0", "uplink-1".to_owned(), 1700),
            ("fp-eth1", "uplink-2".to_owned(), 1500)
        ]
    );
    assert_eq!(ports[2].mac, "02:00:00:00:ee:00");
    assert!(ports.iter().all(|port| port.kind == "pcap"));
    assert_eq!(node.port_statistics("web-1").rx_packets, 0);

    let teps = answer!(node, &Request::GetVteps, Vteps);
    assert_eq!(
        (teps[0].name.as_str(), teps[0].address.as_str(), teps[0].mtu),
        ("tep-1", "172.16.1.10/24", 1700)
    );
    let tunnels = answer!(node, &Request::GetTunnelPorts, TunnelPorts);
    let ends: BTreeSet<_> = tunnels.iter().map(|tunnel| (tunnel.vni, tunnel.remote.to_string())).collect();
    let expected = [(5001, "172.16.1.20"), (5001, "172.16.1.21"), (5002, "172.16.1.20")];
    assert_eq!(ends, expected.map(|(vni, remote)| (vni, remote.to_owned())).into());
    wait_for("next hops to be asked for", || {
        let neighbors = answer!(node, &Request::GetNeighbor, Neighbors);
        let addresses: Vec<String> = neighbors.iter().map(|neighbor| neighbor.address.to_string()).collect();
        (addresses == ["172.16.1.20", "172.16.1.21", "198.51.100.1"]).then_some(())
    });
    assert_eq!(answer!(node, &Request::GetDrops, Drops), []);

    let payload = TracePayload {
        protocol: TraceProtocol::Udp,
        source_port: 1,
        destination_port: 2,
        ttl: 64,
        length: 100,
    };
    let packet = TracePacket::FromWorkload {
        workload: "web-1".into(),
        destination: "10.10.20.11".parse().unwrap(),
        payload,
    };
    let trace = answer!(node, &Request::Trace(packet), Trace);
    assert!(trace.output.len() == 1 && trace.output[0].starts_with("db-1: "), "{trace:?}");
}

#[test]
fn questions_about_what_is_not_there_name_what_is() {
    let node = Node::start_in(quiet_folder());
    let port = node.refused(&Request::GetPhysicalPortStats { name: "eth7".into() });
    assert_eq!(port, "there is no port 'eth7'; this node has web-1, db-1, fp-eth0, fp-eth1");
    let router = node.refused(&Request::GetRoute { router: Some("t7".into()) });
    assert!(router.contains("t7") && router.contains("t0") && router.contains("t1"), "{router}");
    let router = node.refused(&Request::GetForwarding { router: Some("t7".into()) });
    assert!(router.contains("t7"), "{router}");
}

#[test]
fn a_request_that_is_none_is_refused_and_the_connection_goes_on() {
    let node = Node::start_in(quiet_folder());
    let mut stream = UnixStream::connect(node.socket()).unwrap();
    stream.write_all(b"get status\n{\"request\":\"get-colour\"}\n{\"request\":\"get-status\"}\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    let replies: Vec<&str> = replies.lines().collect();
    assert_eq!(replies.len(), 3, "{replies:?}");
    assert!(replies[..2].iter().all(|reply| reply.contains("the request cannot be read")), "{replies:?}");
    assert!(replies[2].contains("\"status\""), "{replies:?}");
    assert_eq!(std::fs::metadata(node.socket()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn sigterm_and_sigint_end_the_node_and_remove_its_socket() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut node = Node::start_in(quiet_folder());
        // A client that is connected does not hold the node up.
        let _client = UnixStream::connect(node.socket()).unwrap();
        let ended = node.terminate(signal);
        assert_eq!(ended.code(), Some(0), "{signal}: {ended}\n{}", node.log());
        assert!(!node.socket().exists(), "{signal} leaves the socket");
    }
}

#[test]
fn a_sighup_while_the_node_starts_is_kept_until_it_runs() {
    let folder = quiet_folder();
    let (pipe, document) = (folder.path().join("node.yaml"), folder.path().join("other.yaml"));
    let good = documents::on_files(folder.path());
    std::fs::remove_file(&pipe).unwrap();
    mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let mut node = Node::spawn(folder, "info");
    // Opens when the node reads its document, so that it cannot be ready before it is written.
    let mut writer = std::fs::File::options().write(true).open(&pipe).unwrap();
    node.signal(Signal::SIGHUP);
    // What it finds when it reads the document again is another one.
    std::fs::write(&document, documents::changed(&good, "name: web-3", "name: web-9")).unwrap();
    std::fs::rename(&document, &pipe).unwrap();
    writer.write_all(good.as_bytes()).unwrap();
    drop(writer);
    node.wait_until_ready();
    wait_for("the document to be taken again", || (node.status().generation == 2).then_some(()));
    wait_for("the log", || node.log().contains("workloads: 1 added, 1 removed").then_some(()));
    assert!(node.terminate(Signal::SIGTERM).success());
}

#[test]
fn no_thread_is_left_of_a_data_plane_that_was_restarted() {
    let node = Node::start_in(quiet_folder());
    // A thread has its name only once it runs.
    let workers = |names: &[String]| names.iter().filter(|name| name.starts_with("worker-")).count();
    let before = wait_for("the worker", || Some(threads(&node)).filter(|names| workers(names) == 1));
    for _ in 0..5 {
        assert_eq!(answer!(node, &Request::RestartDataplane, Done), "the data plane was restarted");
        wait_for("the same threads as before", || (threads(&node) == before).then_some(()));
    }
    let dataplane = answer!(node, &Request::GetDataplane, Dataplane);
    assert_eq!(dataplane.devices.len(), 4);
}

#[test]
fn the_socket_of_a_living_node_is_not_taken() {
    let node = Node::start_in(quiet_folder());
    let mut second = sluiced();
    second.arg("--config").arg(node.document()).arg("--socket").arg(node.socket()).env("SLUICE_LOG", "off");
    let output = second.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let sentence = String::from_utf8(output.stderr).unwrap();
    let expected = format!(
        "sluiced: another node answers on {}; stop it, or name another socket with --socket\n",
        path(&node.socket())
    );
    assert_eq!(sentence, expected);
    assert_eq!(node.status().pid, node.pid(), "the first node answers as before");
}

#[test]
fn the_socket_of_a_node_that_is_gone_is_taken_over() {
    let folder = quiet_folder();
    let listener = UnixListener::bind(folder.path().join("node.sock")).unwrap();
    // Not only closed: a process that another test starts right now has a copy of it for a moment.
    shutdown(listener.as_raw_fd(), Shutdown::Both).unwrap();
    drop(listener);
    assert!(folder.path().join("node.sock").exists());
    let node = Node::start_in(folder);
    assert_eq!(node.status().name, "node-1");
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let folder = quiet_folder();
    let document = folder.path().join("node.yaml");
    let before = std::fs::read(&document).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&document, &link).unwrap();
    for socket in [&document, &link, &folder.path().to_path_buf()] {
        let said = complaint(&document, socket);
        let expected = "exists and is no socket, so it is left alone; name another socket with --socket";
        assert_eq!(said, format!("sluiced: {} {expected}\n", path(socket)));
    }
    assert_eq!(std::fs::read(&document).unwrap(), before);
    assert!(link.is_symlink());
}

#[test]
fn a_folder_for_the_socket_is_made_under_run_only() {
    let folder = quiet_folder();
    let socket = folder.path().join("nowhere/node.sock");
    let said = complaint(&folder.path().join("node.yaml"), &socket);
    assert!(
        said.contains("there is no folder") && said.contains("make it, or name another socket"),
        "{said}"
    );
    assert!(!folder.path().join("nowhere").exists());
}

/// What a node says that does not start.
fn complaint(document: &Path, socket: &Path) -> String {
    let mut command = sluiced();
    command.arg("--config").arg(document).arg("--socket").arg(socket).env("SLUICE_LOG", "off");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn without_a_socket_named_it_is_that_of_the_nodes_name_in_the_run_directory() {
    let folder = quiet_folder();
    let runtime = folder.path().join("run");
    let mut command = sluiced();
    command.arg("--config").arg(folder.path().join("node.yaml")).env("SLUICE_RUN_DIR", &runtime);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let socket = runtime.join("node-1.sock");
    wait_for("the socket in the run directory", || {
        sluice_control::Client::connect(&socket).ok()?.ask(&Request::GetStatus).ok()
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

fn path(path: &Path) -> String {
    path.display().to_string()
}
