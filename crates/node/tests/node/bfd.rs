//! BFD over the tunnels of two nodes, and what follows from it. The test is the two links between them: it forwards each frame, or not.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sluice_control::{Alarm, Answer, BfdSession, CaptureDirection, Request, TnTepGroup};
use sluice_wire::arp::Arp;
use sluice_wire::bfd::{Bfd, BfdDiagnostic, BfdState};
use sluice_wire::frame::FrameBuilder;
use sluice_wire::geneve::Geneve;
use sluice_wire::ipv4::Ipv4;
use sluice_wire::{IpProtocol, MacAddr, Vni};

use crate::support::documents::UPLINK_MAC;
use crate::support::link::{Link, arp_frame};
use crate::support::network::{in_network, ip};
use crate::support::node::{Node, answer};
use crate::support::wait_for;
use crate::tep_groups::{NONE, document, probe, sent, wait_for_neighbors};

/// Interfaces of the workloads, of the first node's ends of the links, and of the second node's.
const PORTS: [&str; 6] = ["web-1", "web-2", "fp-eth0", "fp-eth1", "far-eth0", "far-eth1"];
/// Sessions at 300 ms, slow enough for a machine that is busy with other tests, and TEPs that fail when all of them are down for a second.
const BFD: &str = "bfd: {interval-ms: 300}\n";
const HIGH_AVAILABILITY: &str = "tep-high-availability: {failover-timeout-s: 1}\n";
/// The middle of a link: forwards frames both ways, but for a direction that is cut. No interface shows that.
struct Middle {
    from_first: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// Frames that the test itself sends to a node are seen here too, and are not for the other node.
fn passes(frame: &[u8]) -> bool {
    frame.get(6..12) != Some(&UPLINK_MAC.octets()[..])
}

impl Middle {
    fn of(first: &str, second: &str) -> Self {
        let [first, second] = [first, second].map(|port| Arc::new(Link::open(port)));
        let (ends, from_first, from_second) =
            <(Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let forward = |from: &Arc<Link>, to: &Arc<Link>, cut: &Arc<AtomicBool>| {
            let (from, to, cut, ends) =
                (Arc::clone(from), Arc::clone(to), Arc::clone(cut), Arc::clone(&ends));
            std::thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    if let Some(frame) =
                        from.glance().filter(|frame| passes(frame) && !cut.load(Ordering::Relaxed))
                    {
                        to.send(&frame);
                    }
                }
            })
        };
        let threads = vec![forward(&first, &second, &from_first), forward(&second, &first, &from_second)];
        Self { from_first, ends, threads }
    }

    /// Nothing passes from the first node to the second one, or it does again.
    fn cut_from_first(&self, cut: bool) {
        self.from_first.store(cut, Ordering::Relaxed);
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the middle of a link failed");
        }
    }
}

fn middles() -> [Middle; 2] {
    [Middle::of("fp-eth0", "far-eth0"), Middle::of("fp-eth1", "far-eth1")]
}

fn first(more: &str) -> String {
    document("node-1", "web-1", "web-2", ["fp-eth0", "fp-eth1"], 10, 20) + more
}

fn second(more: &str) -> String {
    document("node-2", "web-2", "web-1", ["far-eth0", "far-eth1"], 20, 10) + more
}

fn sessions(node: &Node) -> Vec<BfdSession> {
    answer!(node, &Request::GetBfdSessions, BfdSessions).sessions
}

fn alarms(node: &Node) -> Vec<Alarm> {
    answer!(node, &Request::GetAlarms, Alarms)
}

fn kinds(node: &Node) -> Vec<String> {
    alarms(node).into_iter().map(|alarm| alarm.kind).collect()
}

fn wait_for_sessions(node: &Node, state: &str) {
    wait_for(&format!("both sessions to be {state}"), || {
        let sessions = sessions(node);
        (sessions.len() == 2 && sessions.iter().all(|session| session.state == state)).then_some(())
    });
}

/// Waits until both sessions are up at their own pace, which they take by a poll sequence once they are.
fn wait_for_pace(node: &Node) {
    wait_for("a detection time of 900 ms", || {
        sessions(node).iter().all(|session| session.detection_time_ms == Some(900)).then_some(())
    });
}

/// Milliseconds from the first packet of a probe that was lost to the last one: it sends one a millisecond.
fn outage(lost: &[u64]) -> u64 {
    lost.first().zip(lost.last()).map_or(0, |(first, last)| last - first + 1)
}

fn session_of(node: &Node, tep: &str) -> BfdSession {
    sessions(node).into_iter().find(|session| session.tep == tep).unwrap()
}

/// Waits until a probe loses nothing, and goes by both TEPs.
fn wait_for_flows(node: &Node, (web_1, web_2): (&Link, &Link)) {
    wait_for("flows by both TEPs", || {
        let before = sent(node);
        let whole = probe(web_1, web_2, Duration::from_millis(300), || {}) == NONE;
        let after = sent(node);
        let both = before.iter().zip(after).all(|(before, after)| after - before > 50);
        (whole && both).then_some(())
    });
}

/// Cuts the first link in the direction from the first node, in the middle of a probe of four seconds, and leaves it cut. How long the outage
/// is, a bench has to say; here it ends.
fn cut_one_direction(nodes: &[Node; 2], link: &Middle, (web_1, web_2): (&Link, &Link)) {
    let lost = probe(web_1, web_2, Duration::from_secs(4), || link.cut_from_first(true));
    println!("one direction was cut: outage {} ms, {} packets of 4,000 lost", outage(&lost), lost.len());
    assert!(lost.len() > 50, "flows of the link that was cut had to lose packets: {lost:?}");
    assert!(lost.last().is_some_and(|last| *last < 3_800), "the outage ends: {lost:?}");
    // Who does not hear anything says so to the other, which still does.
    wait_for("what the nodes say of the session", || {
        let diagnostics = nodes.each_ref().map(|node| session_of(node, "tep-1").diagnostic);
        (diagnostics == ["neighbor signaled session down", "control detection time expired"]).then_some(())
    });
}

#[test]
fn a_path_that_is_open_in_one_direction_only_is_left() {
    let name = "bfd::a_path_that_is_open_in_one_direction_only_is_left";
    in_network(name, &PORTS, || {
        let [web_1, web_2] = ["web-1", "web-2"].map(Link::open);
        let [link, _other_link] = middles();
        let nodes = [Node::start(&first(BFD)), Node::start(&second(BFD))];
        for node in &nodes {
            wait_for_neighbors(node);
            wait_for_sessions(node, "Up");
            wait_for_pace(node);
        }
        let [node, _] = &nodes;
        cut_one_direction(&nodes, &link, (&web_1, &web_2));
        for node in &nodes {
            let down = session_of(node, "tep-1");
            assert!(down.state != "Up" && !down.usable, "{down:?}");
            assert!(kinds(node).contains(&"tunnel-down".to_owned()));
        }
        let told = node.log().matches("TEP 172.16.1.20 is not reached from 172.16.1.10").count();
        assert_eq!(told as u64, session_of(node, "tep-1").downs, "told once each time");
        // A new document starts with what is known.
        node.apply(&first("bfd: {interval-ms: 300, multiplier: 4}\n"));
        let groups: Vec<TnTepGroup> = answer!(node, &Request::GetTnTepGroups, TnTepGroups);
        assert_eq!((groups[0].teps[0].name.as_str(), groups[0].teps[0].pairs_usable), ("tep-1", 0));

        link.cut_from_first(false);
        wait_for("the alarms to end", || nodes.iter().all(|node| kinds(node).is_empty()).then_some(()));
        wait_for_flows(node, (&web_1, &web_2));
        assert!(node.log().contains("TEP 172.16.1.20 is reached from 172.16.1.10 again"));
    });
}

#[test]
fn a_path_that_was_never_open_is_left_where_the_other_one_shows_that_there_is_bfd() {
    let name = "bfd::a_path_that_was_never_open_is_left_where_the_other_one_shows_that_there_is_bfd";
    in_network(name, &PORTS, || {
        let [web_1, web_2] = ["web-1", "web-2"].map(Link::open);
        // Plugged in wrongly: nothing is between the first two ports.
        let _link = Middle::of("fp-eth1", "far-eth1");
        let nodes = [Node::start(&first(BFD)), Node::start(&second(BFD))];
        for node in &nodes {
            wait_for("a session to be up", || (session_of(node, "tep-2").state == "Up").then_some(()));
        }
        for node in &nodes {
            wait_for("the other path to be left", || (!session_of(node, "tep-1").usable).then_some(()));
            let open = alarms(node);
            let told = open.iter().find(|alarm| alarm.kind == "tunnel-down");
            assert!(
                told.is_some_and(|alarm| alarm.description.contains("it has never answered")),
                "{open:?}"
            );
        }
        assert_eq!(probe(&web_1, &web_2, Duration::from_millis(300), || {}), NONE);
    });
}

#[test]
fn a_node_that_is_ended_says_so() {
    in_network("bfd::a_node_that_is_ended_says_so", &PORTS, || {
        let _middles = middles();
        // Silence alone would be noticed after 160 seconds, longer than anything here is waited for.
        let slow = "bfd: {interval-ms: 10000, multiplier: 16}\n";
        let (node, mut other) = (Node::start(&first(slow)), Node::start(&second(slow)));
        [&node, &other].into_iter().for_each(|node| wait_for_sessions(node, "Up"));
        assert!(other.terminate(Signal::SIGTERM).success());
        wait_for_sessions(&node, "Down");
        assert!(
            sessions(&node).iter().all(|session| session.diagnostic == "neighbor signaled session down"),
            "{:?}",
            sessions(&node)
        );
    });
}

#[test]
fn a_node_that_is_killed_is_told_of_and_found_again() {
    in_network("bfd::a_node_that_is_killed_is_told_of_and_found_again", &PORTS, || {
        let _middles = middles();
        let watching = format!("{BFD}{HIGH_AVAILABILITY}");
        let node = Node::start(&first(&watching));
        let other = Node::start(&second(&watching));
        [&node, &other].into_iter().for_each(|node| wait_for_sessions(node, "Up"));
        wait_for_pace(&node);
        drop(other);
        let expected = ["node-isolated", "tep-faulty", "tep-faulty", "tunnel-down", "tunnel-down"];
        wait_for("the alarms", || (kinds(&node) == expected).then_some(()));
        wait_for_sessions(&node, "Down");
        let groups: Vec<TnTepGroup> = answer!(node, &Request::GetTnTepGroups, TnTepGroups);
        let states: Vec<_> =
            groups.iter().flat_map(|group| &group.teps).map(|tep| tep.state.as_str()).collect();
        assert_eq!((groups.len(), states), (2, vec!["faulty", "faulty", "down", "down"]));
        assert_eq!((groups[0].id, groups[0].teps[0].retry_s.is_some()), (Some(293_888), true));
        assert!(node.log().contains("TEP 'tep-1' is faulty: none of its BFD sessions is up"));

        let other = Node::start(&second(&watching));
        [&node, &other].into_iter().for_each(|node| wait_for_sessions(node, "Up"));
        // One TEP is used at once, since there is no other; that one waits for its recovery, and says so.
        let waiting = wait_for("one alarm, of a TEP that waits", || {
            let alarms = alarms(&node);
            let [alarm] = &alarms[..] else { return None };
            alarm.description.contains("it works, and waits for its recovery").then(|| alarm.clone())
        });
        assert_eq!(waiting.kind, "tep-faulty");
        let groups: Vec<TnTepGroup> = answer!(node, &Request::GetTnTepGroups, TnTepGroups);
        let tep = groups[0].teps.iter().find(|tep| tep.name == waiting.object).unwrap();
        assert_eq!((&*tep.state, &*tep.reason), ("faulty", "it works, and waits for its recovery"));
        let recover = |name: &str| Request::RecoverTep { name: name.into() };
        assert!(matches!(node.try_ask(&recover(&waiting.object)), Ok(Answer::Done(_))));
        wait_for("no alarm", || alarms(&node).is_empty().then_some(()));
        assert!(node.refused(&recover("tep-2")).contains("not faulty"));
        assert!(node.refused(&recover("tep-3")).contains("this node has tep-1, tep-2"));
    });
}

#[test]
fn a_node_without_bfd_is_reached_as_before() {
    in_network("bfd::a_node_without_bfd_is_reached_as_before", &PORTS, || {
        let [web_1, web_2] = ["web-1", "web-2"].map(Link::open);
        let _middles = middles();
        let watching = format!("{BFD}{HIGH_AVAILABILITY}");
        let nodes = [Node::start(&first(&watching)), Node::start(&second(""))];
        nodes.iter().for_each(wait_for_neighbors);
        let [node, other] = &nodes;
        wait_for("BFD packets", || sessions(node).iter().all(|session| session.sent >= 2).then_some(()));
        assert_eq!(sessions(other), []);
        wait_for_flows(node, (&web_1, &web_2));
        assert_eq!(alarms(node), []);

        // It gets BFD, and loses it again: it says so, and is no failure of this node's TEPs.
        other.apply(&second(BFD));
        nodes.iter().for_each(|node| wait_for_sessions(node, "Up"));
        other.apply(&second(""));
        wait_for_sessions(node, "Down");
        assert!(sessions(node).iter().all(|session| session.remote_state == "AdminDown"));
        wait_for_flows(node, (&web_1, &web_2));
        assert_eq!(kinds(node), ["tunnel-down", "tunnel-down"]);
        // Nor once nothing of it was heard for a detection time, when the health of TEPs is looked at anew.
        wait_for("silence", || {
            sessions(node).iter().all(|session| session.remote_state == "Down").then_some(())
        });
        node.apply(&first(&format!("bfd: {{interval-ms: 300, multiplier: 4}}\n{HIGH_AVAILABILITY}")));
        let groups: Vec<TnTepGroup> = answer!(node, &Request::GetTnTepGroups, TnTepGroups);
        let states: Vec<_> = groups[0].teps.iter().map(|tep| tep.state.as_str()).collect();
        assert_eq!(states, ["healthy", "healthy"]);
        node.apply(&first(""));
        assert_eq!((sessions(node), alarms(node)), (vec![], vec![]));
    });
}

/// A BFD packet as from the second node's first TEP, with this TTL, that says `state` to the session with this discriminator; to the MAC address
/// `mac`.
fn forged(mac: MacAddr, ttl: u8, state: BfdState, your_discriminator: u32) -> Vec<u8> {
    let (source, destination) = ([172, 16, 1, 20].into(), [172, 16, 1, 10].into());
    let packet = Bfd {
        state,
        diagnostic: BfdDiagnostic::PATH_DOWN,
        poll_flag: false,
        final_flag: false,
        control_plane_independent: false,
        demand: false,
        detect_multiplier: 3,
        my_discriminator: 666,
        your_discriminator,
        desired_min_tx: 1_000_000,
        required_min_rx: 1_000_000,
        required_min_echo_rx: 0,
    };
    let tunnel = Geneve { vni: None, control: true, ..Geneve::new(Vni::MIN) };
    let frame =
        FrameBuilder::new().ethernet(UPLINK_MAC, mac).ipv4(source, destination).geneve(50_000, tunnel);
    let inner = Ipv4 { ttl, ..Ipv4::new(source, destination, IpProtocol::UDP) };
    let frame = frame.ethernet(UPLINK_MAC, mac).ipv4_header(inner).udp(50_000, 3784);
    frame.bfd(packet).build().unwrap()
}

#[test]
fn neither_a_storm_nor_forged_packets_take_a_session_down() {
    in_network("bfd::neither_a_storm_nor_forged_packets_take_a_session_down", &PORTS, || {
        let _middles = middles();
        let nodes = [Node::start(&first("bfd: {}\n")), Node::start(&second("bfd: {}\n"))];
        nodes.iter().for_each(|node| wait_for_sessions(node, "Up"));
        let [node, _] = &nodes;
        // For longer than the detection time, 3 s: ARP requests to everybody, ten times as many as are let through, and BFD packets of strangers among them.
        let (storm, request) = (
            Link::open("fp-eth0"),
            Arp::request(UPLINK_MAC, [172, 16, 1, 77].into(), [172, 16, 1, 88].into()),
        );
        let request = arp_frame(UPLINK_MAC, MacAddr::BROADCAST, request);
        let [afar, unknown] = [254, 255].map(|ttl| forged(mac_of(node), ttl, BfdState::Down, 0xffff_fff0));
        let (start, bursts) = (Instant::now(), 1_600);
        for burst in 0..bursts {
            let due = start + Duration::from_micros(2_500) * burst;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            (0..50).for_each(|_| storm.send(&request));
            [&afar, &unknown].into_iter().for_each(|frame| storm.send(frame));
        }
        let bfd = answer!(node, &Request::GetBfdSessions, BfdSessions);
        assert!(bfd.sessions.iter().all(|session| session.state == "Up" && session.downs == 0), "{bfd:?}");
        let refused: Vec<_> =
            bfd.refused.iter().map(|refusal| (refusal.packets, refusal.reason.as_str())).collect();
        println!("{} ARP requests and {} forged BFD packets in 4 s: {refused:?}", 50 * bursts, 2 * bursts);
        assert!(
            refused.iter().any(|(packets, reason)| *packets > 50 && reason.contains("not 255")),
            "{refused:?}"
        );
        assert!(
            refused.iter().any(|(packets, reason)| *packets > 50 && reason.contains("no session has")),
            "{refused:?}"
        );
        assert!(node.drops("punt-limit") > 1_000, "the storm was beyond its limit");
        let alarms = alarms(node);
        assert_eq!(kinds(node), ["bfd-refused"]);
        assert!(alarms[0].description.contains(", from 172.16.1.20;"), "{alarms:?}");
    });
}

/// The MAC address of the first TEP.
fn mac_of(node: &Node) -> MacAddr {
    answer!(node, &Request::GetVteps, Vteps)[0].mac.parse().unwrap()
}

#[test]
fn a_node_that_never_heard_this_one_is_not_used_again_because_it_dies() {
    in_network("bfd::a_node_that_never_heard_this_one_is_not_used_again_because_it_dies", &PORTS, || {
        let node = Node::start(&first(BFD));
        let far_end = Link::open("fp-eth0");
        let packet = forged(mac_of(&node), 255, BfdState::Down, 0);
        let mut next = Instant::now();
        let alarm = wait_for("the alarm", || {
            if next <= Instant::now() {
                far_end.send(&packet);
                next = Instant::now() + Duration::from_millis(500);
            }
            alarms(&node).pop()
        });
        assert!(alarm.description.contains("it is heard, and does not hear this node"), "{alarm:?}");
        assert_eq!((session_of(&node, "tep-1").state.as_str(), alarm.kind.as_str()), ("Init", "tunnel-down"));
        wait_for("its end", || (session_of(&node, "tep-1").state == "Down").then_some(()));
        assert!(!session_of(&node, "tep-1").usable);
        assert_eq!(kinds(&node), ["tunnel-down"]);
    });
}

#[test]
fn a_path_that_flaps_is_left_until_it_is_quiet() {
    in_network("bfd::a_path_that_flaps_is_left_until_it_is_quiet", &PORTS, || {
        let node = Node::start(&first(BFD));
        let far_end = Link::open("fp-eth0");
        let session = session_of(&node, "tep-1");
        let (mac, discriminator) = (mac_of(&node), session.local_discriminator);
        let say = |state| far_end.send(&forged(mac, 255, state, discriminator));
        [BfdState::Down, BfdState::Init].into_iter().for_each(say);
        wait_for("the session", || (session_of(&node, "tep-1").state == "Up").then_some(()));
        assert!(session_of(&node, "tep-1").usable);
        for _ in 0..4 {
            [BfdState::Down, BfdState::Down, BfdState::Init].into_iter().for_each(say);
        }
        wait_for("the alarm", || (kinds(&node) == ["path-flapping"]).then_some(()));
        let flapping = wait_for("the session", || {
            let session = session_of(&node, "tep-1");
            (session.downs == 4 && session.state == "Up").then_some(session)
        });
        assert!(!flapping.usable, "{flapping:?}");
        let mut next = Instant::now();
        wait_for("the end of the alarm", || {
            if next <= Instant::now() {
                say(BfdState::Up);
                next = Instant::now() + Duration::from_millis(300);
            }
            // The other path to that node is one that nobody answers on.
            (!kinds(&node).contains(&"path-flapping".to_owned())).then_some(())
        });
        let quiet = session_of(&node, "tep-1");
        assert!(quiet.usable && quiet.downs == 4 && quiet.since_s >= 8, "{quiet:?}");
    });
}

#[test]
fn a_tep_whose_link_is_down_is_one_alarm() {
    in_network("bfd::a_tep_whose_link_is_down_is_one_alarm", &PORTS, || {
        let middles = middles();
        // Silence alone would be noticed after 160 seconds.
        let slow = "bfd: {interval-ms: 10000, multiplier: 16}\n";
        let nodes = [Node::start(&first(slow)), Node::start(&second(slow))];
        nodes.iter().for_each(|node| wait_for_sessions(node, "Up"));
        drop(middles);
        let [node, _] = &nodes;
        ip("link set fp-eth0-peer down");
        wait_for("the session to be down", || (!session_of(node, "tep-1").usable).then_some(()));
        assert_eq!(session_of(node, "tep-1").diagnostic, "path down");
        let told = alarms(node);
        assert_eq!(kinds(node), ["uplink-down", "tep-faulty"], "no tunnel has one: {told:?}");
        assert!(told[1].description.contains("its link is down"), "{told:?}");
        // The link comes back and nobody is there any more.
        ip("link set fp-eth0-peer up");
        wait_for("the end of the alarm", || alarms(node).is_empty().then_some(()));
        let alarm = wait_for("the alarm of the path", || alarms(node).pop());
        assert_eq!(
            (alarm.kind.as_str(), alarm.object.as_str()),
            ("tunnel-down", "172.16.1.10 to 172.16.1.20")
        );
        assert!(alarm.description.contains("has not come up since the link did"), "{alarm:?}");
    });
}

/// What tshark, which is not ours, reads of the first BFD packet of a file.
fn dissected(file: &Path, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command
        .args(["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-Y", "bfd", "-r"])
        .arg(file);
    command.args(["-T", "fields", "-E", "separator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = said.lines().next().unwrap_or_else(|| panic!("no BFD packet in {}", file.display()));
    line.split('|').map(str::to_owned).collect()
}

#[test]
fn tshark_reads_the_packets() {
    in_network("bfd::tshark_reads_the_packets", &PORTS, || {
        let _middles = middles();
        let vxlan = |document: String| document.replace("vni: 5001", "vni: 5001, encapsulation: vxlan");
        let geneve = [first(BFD), second(BFD)];
        for (encapsulation, documents) in [("geneve", geneve.clone()), ("vxlan", geneve.map(vxlan))] {
            let nodes = documents.map(|document| Node::start(&document));
            nodes.iter().for_each(|node| wait_for_sessions(node, "Up"));
            let file = nodes[0].folder().join("bfd.pcap");
            let request = Request::StartCapture {
                interface: "fp-eth0".into(),
                file: file.clone(),
                count: Some(8),
                direction: CaptureDirection::Output,
                overwrite: false,
            };
            answer!(nodes[0], &request, Captured);
            let inner = if encapsulation == "geneve" { "172.16.1.20" } else { "127.0.0.1" };
            let read = dissected(
                &file,
                &[
                    "ip.src",
                    "ip.dst",
                    "ip.ttl",
                    "udp.dstport",
                    "eth.dst",
                    "ip.checksum.status",
                    "bfd.sta",
                    "bfd.detect_time_multiplier",
                ],
            );
            let ttls = "64,255";
            let tunnel_port = if encapsulation == "geneve" { "6081" } else { "4789" };
            assert_eq!(read[0], "172.16.1.10,172.16.1.10");
            assert_eq!(read[1], format!("172.16.1.20,{inner}"));
            assert_eq!((read[2].as_str(), &*read[3]), (ttls, &*format!("{tunnel_port},3784")));
            assert!(read[4].ends_with(",00:00:5e:00:52:02"), "{}", read[4]);
            assert_eq!((read[5].as_str(), read[7].as_str()), ("1,1", "3"), "good checksums; the multiplier");
            assert_eq!(u8::from_str_radix(read[6].trim_start_matches("0x"), 16), Ok(3), "up");
            if encapsulation == "geneve" {
                let header = dissected(&file, &["geneve.flags.oam", "geneve.vni", "geneve.proto_type"]);
                println!("BFD in Geneve as tshark reads it: {read:?}, O bit, VNI and protocol {header:?}");
                assert!(matches!(header[0].as_str(), "1" | "True"), "{header:?}");
                assert_eq!(u32::from_str_radix(header[1].trim_start_matches("0x"), 16), Ok(0));
                assert_eq!(header[2], "0x6558");
            } else {
                assert_eq!(dissected(&file, &["vxlan.vni"]), ["0"]);
            }
        }
    });
}
