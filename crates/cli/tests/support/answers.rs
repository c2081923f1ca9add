//! What an edge might answer.

use sluice_control::*;

/// A plausible reply of a node `edge-1` to any request.
pub(crate) fn reply(request: &Request) -> Reply {
    Reply::Answer(match request {
        Request::GetStatus => Answer::Status(status("edge-1")),
        Request::GetDataplane => Answer::Dataplane(dataplane()),
        Request::GetCpuStats => Answer::CpuStats(cpu_stats()),
        Request::GetFlowCacheConfig => {
            Answer::FlowCacheConfig(FlowCacheConfig { enabled: true, size: 262_144, idle_timeout_s: 30 })
        }
        Request::GetFlowCacheStats => Answer::FlowCacheStats(flow_cache_stats()),
        Request::GetStages => Answer::Stages(stages()),
        Request::GetLogicalSwitches => Answer::LogicalSwitches(logical_switches()),
        Request::GetWorkloads => Answer::Workloads(workloads()),
        Request::GetLogicalRouters => Answer::LogicalRouters(logical_routers()),
        Request::GetRoute { router } => match router.as_deref() {
            Some(name) if name != "t0" && name != "t1" => {
                return Reply::Error(format!("there is no gateway '{name}'; this node has t0, t1"));
            }
            wanted => Answer::Routes(
                routes().into_iter().filter(|r| wanted.is_none_or(|w| w == r.router)).collect(),
            ),
        },
        Request::GetForwarding { router } => {
            let wanted = router.as_deref();
            Answer::Forwarding(
                forwarding().into_iter().filter(|r| wanted.is_none_or(|w| w == r.router)).collect(),
            )
        }
        Request::GetPhysicalPorts => Answer::PhysicalPorts(physical_ports()),
        Request::GetPhysicalPortStats { name } => Answer::PhysicalPortStats(PhysicalPortStats {
            name: name.clone(),
            rx_packets: 40_000_123,
            rx_bytes: 2_720_008_364,
            rx_misses: 12,
            tx_packets: 40_000_000,
            tx_bytes: 2_720_000_000,
            tx_drops: 1_024,
            extended: vec![("rx_q0_packets".into(), 40_000_116), ("rx_q1_packets".into(), 7)],
            ..PhysicalPortStats::default()
        }),
        Request::GetVteps => Answer::Vteps(vteps()),
        Request::GetTunnelPorts => Answer::TunnelPorts(tunnel_ports()),
        Request::GetTnTepGroups => Answer::TnTepGroups(tep_groups()),
        Request::GetBfdSessions => Answer::BfdSessions(bfd_sessions()),
        Request::GetHostSwitches => Answer::HostSwitches(vec![host_switch()]),
        Request::GetLags => Answer::Lags(vec![lag()]),
        Request::GetAlarms => Answer::Alarms(alarms()),
        Request::GetNeighbor => Answer::Neighbors(neighbors()),
        Request::GetDrops => Answer::Drops(vec![Drop {
            reason: "no-route".into(),
            packets: 1_234_567,
            description: "The gateway has no route to the destination.".into(),
        }]),
        Request::SetRingSize { direction, size } => {
            let name = if *direction == RingDirection::Rx { "receive" } else { "transmit" };
            Answer::Done(format!(
                "{name} rings will have {size} descriptors after 'restart service dataplane'; to keep that, write it into the node document"
            ))
        }
        Request::SetFlowCache { enabled } => {
            let state = if *enabled { "enabled" } else { "disabled: every packet is decided afresh" };
            Answer::Done(format!("the flow cache is {state}"))
        }
        Request::RecoverTep { name } => Answer::Done(format!("TEP '{name}' is used again")),
        Request::SetProfile { enabled } => {
            let state = if *enabled { "enabled" } else { "disabled" };
            Answer::Done(format!("the profile is {state}"))
        }
        Request::RestartDataplane => Answer::Done("the data plane was restarted".into()),
        Request::Apply { .. } => Answer::Applied(Applied {
            generation: 8,
            changes: vec!["segment web was added".into(), "workload vm-3 moved to 172.16.1.11".into()],
        }),
        Request::StartCapture { file, .. } => Answer::Captured(captured(file.display().to_string())),
        Request::Trace(_) => Answer::Trace(trace()),
    })
}

pub(crate) fn status(name: &str) -> Status {
    Status {
        name: name.into(),
        role: "edge".into(),
        version: "0.1.0".into(),
        pid: 4711,
        uptime_s: 93_784,
        generation: 7,
        dataplane: DataplaneState::Running,
    }
}

pub(crate) fn captured(file: String) -> Captured {
    Captured { frames: 4_200, missed: 3, file }
}

fn dataplane() -> Dataplane {
    Dataplane {
        rx_ring_size: 512,
        tx_ring_size: 512,
        rx_ring_size_after_restart: Some(1024),
        tx_ring_size_after_restart: None,
        slowpath_ring_size: 2048,
        bfd_ring_size: 256,
        corelist: vec![1, 2],
        flow_cache_size: 262_144,
        flow_cache_enabled: true,
        packet_memory_mib: 256,
        hugepages: true,
        buffers: 65_535,
        buffers_in_use: 4_096,
        idle_sleep_us: 0,
        rx_queue_per_core: 1,
        devices: vec![
            Device {
                name: "fp-eth0".into(),
                driver: "net_ixgbe".into(),
                device_id: "0x1563".into(),
                vendor: "0x8086".into(),
                pci: "0000:19:00.0".into(),
                numa_node: 0,
            },
            Device {
                name: "fp-eth1".into(),
                driver: "memif".into(),
                device_id: String::new(),
                vendor: String::new(),
                pci: String::new(),
                numa_node: -1,
            },
        ],
    }
}

fn cpu_stats() -> Vec<CpuStats> {
    let core = |core, rx_pps, usage_percent| CpuStats {
        core,
        rx_pps,
        tx_pps: rx_pps - 17,
        slowpath_pps: 12,
        usage_percent,
        cycles_per_packet: 1_187.25,
        rx_packets: 1_000_000_000,
        tx_packets: 999_999_000,
        busy_cycles: 1_187_250_000_000,
        heap_allocations: 17,
    };
    vec![core(1, 402_318, 12.34), core(2, 1_017, 0.04)]
}

fn flow_cache_stats() -> Vec<FlowCacheStats> {
    vec![FlowCacheStats {
        core: 1,
        flows: 1_280,
        size: 262_144,
        hits: 998_720_000,
        misses: 1_280,
        hit_rate_percent: 99.999_87,
        insertions: 1_280,
        evictions: 0,
        skipped: 0,
        rewrites: 4,
    }]
}

fn stages() -> Stages {
    let stage = |stage: &str, cycles, packets, time_stamps| StageStats {
        stage: stage.into(),
        cycles,
        packets,
        time_stamps,
        description: format!("What {stage} does."),
    };
    let core = |core, other_cycles, stages: Vec<StageStats>| CoreStages {
        core,
        busy_cycles: stages.iter().map(|stage| stage.cycles).sum::<u64>() + other_cycles,
        other_cycles,
        time_stamp_cycles: 23,
        stages,
    };
    let stages = vec![
        stage("rx", 41_000_000, 1_000_000, 15_625),
        stage("parse", 20_500_000, 1_000_000, 15_625),
        stage("tier-0", 0, 0, 0),
        stage("tx", 38_765_432, 999_999, 15_700),
    ];
    Stages { profile: true, cores: vec![core(1, 1_234_568, stages), core(2, 0, Vec::new())] }
}

fn logical_switches() -> Vec<LogicalSwitch> {
    let switch = |uuid: &str, vni, tep_group, name: &str, global_vni| LogicalSwitch {
        uuid: uuid.into(),
        vni,
        encap: "GENEVE".into(),
        tep_group,
        name: name.into(),
        global_vni,
        tep: tep_group.is_none().then(|| "tep-1".to_owned()),
        local_workloads: 0,
        remote_workloads: 2,
    };
    vec![
        switch("7f7e8af0-299e-5354-a143-a6a3689db228", 71_690, Some(293_888), "transit-t0", None),
        switch("6261cda0-558f-5a57-838c-d47c95945c31", 71_680, Some(293_888), "web", Some(5_000)),
        switch("09243099-ebb7-51ae-bcf4-10e0b833cc24", 71_681, None, "database", None),
    ]
}

fn workloads() -> Vec<Workload> {
    vec![
        Workload {
            name: "vm-1".into(),
            segment: "web".into(),
            mac: "02:00:00:00:00:01".into(),
            addresses: vec!["10.10.20.10".parse().unwrap(), "2001:db8:20::10".parse().unwrap()],
            port: Some("fp-eth1".into()),
            vlan: Some(7),
            remote_tep: None,
        },
        Workload {
            name: "vm-2".into(),
            segment: "database".into(),
            mac: "02:00:00:00:00:02".into(),
            addresses: vec!["10.10.30.10".parse().unwrap()],
            port: None,
            vlan: None,
            remote_tep: Some("172.16.1.10".parse().unwrap()),
        },
    ]
}

fn logical_routers() -> Vec<LogicalRouter> {
    let router = |uuid: &str, vrf, name: &str, kind: &str, ports| LogicalRouter {
        uuid: uuid.into(),
        vrf,
        lr_id: vrf,
        name: name.into(),
        kind: kind.into(),
        ports,
        neighbors: 1,
    };
    vec![
        router("736a80e3-23f6-5a2d-81d6-bbefb2786666", 0, "TUNNEL", "TUNNEL", 2),
        router("0f3c0b3e-94f7-5b7e-a96f-3b7a3f0ff001", 1, "t0", "SERVICE_ROUTER_TIER0", 3),
        router("0f3c0b3e-94f7-5b7e-a96f-3b7a3f0ff002", 2, "t0", "DISTRIBUTED_ROUTER_TIER0", 2),
        router("0f3c0b3e-94f7-5b7e-a96f-3b7a3f0ff003", 3, "t1", "DISTRIBUTED_ROUTER_TIER1", 1_200),
    ]
}

fn routes() -> Vec<RouterRoutes> {
    let route = |origin: &str, network: &str, gateways: &[&str], interface: &str| Route {
        origin: origin.into(),
        network: network.into(),
        gateways: gateways.iter().map(|&gateway| gateway.to_owned()).collect(),
        interface: interface.into(),
    };
    vec![
        RouterRoutes {
            router: "t0".into(),
            vrf: 1,
            routes: vec![
                route("t0s", "0.0.0.0/0", &["192.0.2.1", "192.0.2.3"], "to-router-1"),
                route("t0c", "192.0.2.0/24", &["connected"], "to-router-1"),
                route("t1c", "10.10.20.0/24", &["link"], "t1"),
            ],
        },
        RouterRoutes {
            router: "t0".into(),
            vrf: 2,
            routes: vec![route("isr", "0.0.0.0/0", &["169.254.0.2"], "transit-t0")],
        },
        RouterRoutes { router: "t1".into(), vrf: 3, routes: Vec::new() },
    ]
}

fn forwarding() -> Vec<RouterForwarding> {
    let entry = |ip_prefix: &str, gateway_ip: &str, kind: &str, mac: &str, state: &str| ForwardingEntry {
        ip_prefix: ip_prefix.into(),
        gateway_ip: gateway_ip.into(),
        kind: kind.into(),
        interface: "to-router-1".into(),
        mac: mac.into(),
        state: state.into(),
    };
    vec![RouterForwarding {
        router: "t0".into(),
        vrf: 1,
        entries: vec![
            entry("0.0.0.0/0", "192.0.2.1", "route", "02:00:00:00:02:01", "resolved"),
            entry("0.0.0.0/0", "192.0.2.3", "route", "", "unresolved"),
            entry("203.0.113.0/24", "", "blackhole", "", ""),
        ],
    }]
}

fn physical_ports() -> Vec<PhysicalPort> {
    let port = |name: &str, kind: &str, link: &str, speed_mbps, used_by: &[&str]| PhysicalPort {
        name: name.into(),
        kind: kind.into(),
        mac: "02:00:00:00:03:01".into(),
        mtu: 1700,
        link: link.into(),
        speed_mbps,
        queues: 2,
        used_by: used_by.iter().map(|&user| user.to_owned()).collect(),
    };
    vec![
        port("fp-eth0", "pci", "up", 10_000, &["uplink-1"]),
        port("fp-eth1", "memif", "down", 0, &["uplink-2", "vm-1"]),
    ]
}

fn vteps() -> Vec<Vtep> {
    vec![
        Vtep {
            name: "tep-1".into(),
            address: "172.16.2.10/24".into(),
            gateway: Some("172.16.2.1".parse().unwrap()),
            mac: "02:00:00:00:03:01".into(),
            vlan: Some(120),
            uplink: "uplink-1".into(),
            port: "fp-eth0".into(),
            mtu: 1700,
            state: "up".into(),
        },
        Vtep {
            name: "tep-2".into(),
            address: "2001:db8::10/64".into(),
            gateway: None,
            mac: "02:00:00:00:03:02".into(),
            vlan: None,
            uplink: "uplink-2".into(),
            port: "fp-eth1".into(),
            mtu: 9000,
            state: "down".into(),
        },
    ]
}

fn tunnel_ports() -> Vec<TunnelPort> {
    let tunnel = |segment: &str, vni, remote: &str, mac: &str, state: &str, tx_packets| TunnelPort {
        segment: segment.into(),
        vni,
        encap: "GENEVE".into(),
        local: "172.16.2.10".parse().unwrap(),
        remote: remote.parse().unwrap(),
        next_hop_mac: mac.into(),
        state: state.into(),
        tx_packets,
        tx_bytes: tx_packets * 118,
    };
    vec![
        tunnel("web", 71_680, "172.16.1.10", "02:00:00:00:09:01", "up", 12_345_678),
        tunnel("web", 71_680, "172.16.1.11", "", "down", 0),
    ]
}

fn tep_groups() -> Vec<TnTepGroup> {
    let tep = |name: &str, address: &str, state: &str, reason: &str, usable| TnTep {
        name: name.into(),
        address: address.parse().unwrap(),
        state: state.into(),
        reason: reason.into(),
        retry_s: (!reason.is_empty()).then_some(299),
        pairs: 2,
        pairs_usable: usable,
    };
    vec![
        TnTepGroup {
            node: "edge-1".into(),
            local: true,
            id: Some(293_888),
            placement: Some("load-aware".into()),
            teps: vec![
                tep("tep-1", "172.16.2.10", "healthy", "", 2),
                tep("tep-2", "172.16.2.11", "faulty", "none of its BFD sessions is up", 0),
            ],
        },
        TnTepGroup {
            node: "host-1".into(),
            local: false,
            id: None,
            placement: None,
            teps: vec![tep("", "172.16.1.10", "up", "", 1)],
        },
    ]
}

fn bfd_sessions() -> BfdSessions {
    let session = |tep: &str, local: &str, state: &str, diagnostic: &str| BfdSession {
        tep: tep.into(),
        local: local.parse().unwrap(),
        remote: "172.16.1.10".parse().unwrap(),
        encap: "GENEVE".into(),
        state: state.into(),
        since_s: 3_725,
        remote_state: state.into(),
        diagnostic: diagnostic.into(),
        remote_diagnostic: "no diagnostic".into(),
        local_discriminator: 2_718_281_828,
        remote_discriminator: 3_141_592_653,
        transmit_interval_ms: Some(if state == "Up" { 100 } else { 1_000 }),
        detection_time_ms: (state == "Up").then_some(300),
        sent: 41_234,
        received: 41_230,
        ups: 1,
        downs: u64::from(state != "Up"),
        usable: state == "Up",
    };
    BfdSessions {
        sessions: vec![
            session("tep-1", "172.16.2.10", "Up", "no diagnostic"),
            session("tep-2", "172.16.2.11", "Down", "control detection time expired"),
        ],
        refused: vec![BfdRefusal {
            reason: "the packet's TTL or hop limit is not 255".into(),
            packets: 1_003,
        }],
    }
}

fn lag() -> Lag {
    let link = |port: &str, up: bool, reason: &str| LagLink {
        port: port.into(),
        link: if up { "up" } else { "down" }.into(),
        active: up && reason.is_empty(),
        receive: if up { "current" } else { "port-disabled" }.into(),
        mux: if up && reason.is_empty() { "collecting-distributing" } else { "detached" }.into(),
        selected: if up && reason.is_empty() { "selected" } else { "unselected" }.into(),
        reason: reason.into(),
        partner_system: "02:00:00:00:0c:01".into(),
        partner_key: 5,
        partner_port: 3,
        last_received_s: up.then_some(12),
        sent: 1_204,
        received: 1_198,
        other_partner: if reason.is_empty() { 0 } else { 40 },
        loopbacks: 0,
        markers: 0,
        markers_withheld: 0,
        activations: 1,
        deactivations: u64::from(!up),
    };
    let wrong = "it leads to system 02:00:00:00:0c:02 key 5, the LAG's other links to another; plug it in where they are, or take it out of the LAG";
    Lag {
        name: "lag-1".into(),
        state: "up".into(),
        mode: "active".into(),
        timeout: "fast".into(),
        load_balancing: "source-and-destination-mac-ip-and-port".into(),
        min_links: 1,
        mac: "02:00:00:00:ee:00".into(),
        system: "02:12:34:56:78:9a".into(),
        key: 1,
        partner: Some(LagPartner { system: "02:00:00:00:0c:01".into(), priority: 32_768, key: 5 }),
        links: vec![link("fp-eth0", true, ""), link("fp-eth1", true, wrong), link("fp-eth2", false, "")],
        refused: vec![LagRefusal { reason: "the frame is malformed".into(), frames: 3 }],
    }
}

fn host_switch() -> HostSwitch {
    let uplink = |name: &str, port: &str, links: &[&str], active: usize| HostUplink {
        name: name.into(),
        port: port.into(),
        links: links.iter().map(|link| (*link).into()).collect(),
        active_links: links[..active].iter().map(|link| (*link).into()).collect(),
        mtu: 1700,
        state: if active > 0 { "up" } else { "down" }.into(),
    };
    let teaming = |name: &str, active: &str, standby: &str, on: &str| HostTeaming {
        name: name.into(),
        policy: "failover-order".into(),
        active: vec![active.into()],
        standby: vec![standby.into()],
        uplink: on.into(),
    };
    HostSwitch {
        node: "edge-1".into(),
        encap: "GENEVE".into(),
        transport_vlan: Some(120),
        mtu: None,
        uplinks: vec![
            uplink("uplink-1", "lag-1", &["fp-eth0", "fp-eth1"], 1),
            uplink("uplink-2", "fp-eth3", &["fp-eth3"], 0),
        ],
        teamings: vec![
            teaming("default-teaming", "uplink-1", "uplink-2", "uplink-1"),
            teaming("north-2", "uplink-2", "uplink-1", "uplink-1"),
        ],
        teps: vec![HostTep {
            name: "tep-1".into(),
            address: "172.16.2.10/24".into(),
            uplink: "uplink-1".into(),
            teaming: "default-teaming".into(),
            vlan: Some(120),
            mtu: 1700,
            state: "up".into(),
        }],
    }
}

fn alarms() -> Vec<Alarm> {
    vec![Alarm {
        kind: "tep-faulty".into(),
        object: "tep-2".into(),
        since_s: 3_720,
        description:
            "TEP 'tep-2' is faulty: none of its BFD sessions is up; its flows take other TEPs where there are any"
                .into(),
    }]
}

fn neighbors() -> Vec<Neighbor> {
    let neighbor = |interface: &str, vlan, address: &str, mac: &str, state: &str| Neighbor {
        interface: interface.into(),
        vlan,
        address: address.parse().unwrap(),
        mac: mac.into(),
        state: state.into(),
    };
    vec![
        neighbor("fp-eth0", Some(120), "172.16.2.1", "02:00:00:00:09:01", "reachable"),
        neighbor("fp-eth1", None, "192.0.2.1", "02:00:00:00:02:01", "stale"),
        neighbor("fp-eth1", None, "192.0.2.3", "", "failed"),
    ]
}

fn trace() -> Trace {
    let step = |stage: &str, detail: &str| TraceStep { stage: stage.into(), detail: detail.into() };
    Trace {
        packet: "IPv4 10.10.20.10 > 192.0.2.10, UDP 49152 > 443, TTL 64, 100 bytes".into(),
        steps: vec![
            step("segment web", "is addressed to the distributed router's MAC address, so it is routed"),
            step("tier-1 t1", "default route to the linked gateway t0; TTL 63"),
            step("tier-0 t0", "default route over the transit segment to edge-1; TTL 62"),
            step("tunnel", "VNI 71690 from 172.16.1.10 to 172.16.2.10 by port fp-eth0"),
        ],
        verdict: "The packet leaves in a Geneve tunnel to 172.16.2.10.".into(),
        output: vec![
            "fp-eth0: 02:00:00:00:03:01 > 02:00:00:00:09:01, VLAN 120, IPv4 172.16.1.10 > 172.16.2.10, Geneve VNI 71690"
                .into(),
        ],
    }
}
