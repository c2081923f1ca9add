//! LAGs and the uplink profile in the plan.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the exemption for tests does not reach.

use sluice_intent::plan::{
    Encapsulation, LacpActivity, LacpTimeout, LoadBalancing, LogicalPort, Plan, PortIndex, Teaming,
    TeamingPolicy, TepIndex, Tier, UplinkIndex,
};

const HEAD: &str = r#"
version: 1
name: edge-1
role: edge
ports:
  - {name: a, kind: af_packet, interface: a, mtu: 1700, mac: "02:00:00:00:00:0a"}
  - {name: b, kind: af_packet, interface: b, mtu: 1700}
  - {name: c, kind: af_packet, interface: c, mtu: 1800}
  - {name: d, kind: af_packet, interface: d, mtu: 9000}
lags:
  - {name: lag-1, ports: [b, a], activity: passive, timeout: fast, min-links: 2, load-balancing: source-mac}
uplinks:
  - {name: uplink-1, port: c}
  - {name: uplink-2, port: lag-1}
  - {name: uplink-3, port: d}
"#;

fn plan(rest: &str) -> Plan {
    sluice_intent::parse(&format!("{HEAD}{rest}"), "node.yaml")
        .unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn lags_are_ports_behind_the_physical_ones() {
    let plan = plan("teps: [{name: tep-1, address: 172.16.1.10/24, uplink: uplink-2}]");
    let lag = plan.lag_port(0);
    assert_eq!((plan.port_count(), lag, plan.uplinks[1].port), (5, PortIndex(4), lag));
    assert_eq!((plan.port_name(lag), plan.port_mtu(lag), plan.teps[0].mtu), ("lag-1", 1700, 1700));
    assert_eq!(plan.port_of_name("lag-1"), Some(lag));
    assert_eq!((plan.first_port(lag), plan.port_mac(lag)), (PortIndex(1), None), "the first of its list");
    let Some(LogicalPort::Lag(planned)) = plan.logical_port(lag) else { panic!("a LAG") };
    assert_eq!(planned.ports, [PortIndex(1), PortIndex(0)]);
    let settings = (planned.activity, planned.timeout, planned.load_balancing, planned.min_links);
    assert_eq!(settings, (LacpActivity::Passive, LacpTimeout::Fast, LoadBalancing::SourceMac, 2));
    assert_eq!((plan.lag_of(PortIndex(0)), plan.lag_of(PortIndex(2))), (Some(0), None));
    assert!(plan.logical_port(PortIndex(3)).is_none() && plan.logical_port(PortIndex(5)).is_none());
    assert!(plan.uplink_profile.is_none() && plan.teams.is_empty());
}

const FAILOVER: &str = r#"
uplink-profile:
  teaming: {policy: failover-order, active: [uplink-2], standby: [uplink-1]}
  named-teamings:
    - {name: north, policy: failover-order, active: [uplink-1], standby: [uplink-3]}
    - {name: alone, policy: failover-order, active: [uplink-3]}
    - {name: unused, policy: failover-order, active: [uplink-3, uplink-1]}
  transport-vlan: 120
  mtu: 1690
  encapsulation: vxlan
teps:
  - {name: tep-1, address: 172.16.1.10/24}
  - {name: tep-2, address: 172.16.2.10/24, vlan: 0, mtu: 1700}
  - {name: tep-3, address: 172.16.3.10/24, uplink: uplink-3, vlan: 7}
segments:
  - {name: web, vni: 1, mtu: 1400}
  - {name: db, vni: 2, mtu: 1400, encapsulation: geneve, teaming: alone}
gateways:
  - name: t0
    tier: 0
    interfaces:
      - {name: one, teaming: north, vlan: 10, addresses: [192.0.2.2/29]}
      - {name: two, teaming: alone, vlan: 11, addresses: [192.0.2.10/29]}
"#;

#[test]
fn teams_are_uplinks_and_ports_behind_the_others() {
    let plan = plan(FAILOVER);
    let [first, north] = plan.teams.as_slice() else { panic!("only those that are used: {:?}", plan.teams) };
    assert_eq!((first.name.as_str(), north.name.as_str()), ("default-teaming", "north"));
    assert_eq!(first.uplinks, [UplinkIndex(1), UplinkIndex(0)]);
    assert_eq!(first.ports, [PortIndex(4), PortIndex(2)]);
    assert_eq!((first.mtu, north.mtu), (1700, 1800));
    let uplinks: Vec<_> = plan.uplinks.iter().map(|uplink| (uplink.name.as_str(), uplink.port.0)).collect();
    assert_eq!(
        uplinks,
        [("uplink-1", 2), ("uplink-2", 4), ("uplink-3", 3), ("default-teaming", 5), ("north", 6)]
    );
    assert_eq!((plan.team_port(0), plan.first_port(PortIndex(5))), (PortIndex(5), PortIndex(1)));
    let teps: Vec<_> =
        plan.teps.iter().map(|tep| (tep.uplink.0, tep.vlan.map(|vlan| vlan.get()), tep.mtu)).collect();
    assert_eq!(teps, [(3, Some(120), 1690), (3, None, 1700), (2, Some(7), 1690)]);
    let Tier::Tier0 { interfaces, .. } = &plan.gateways[0].tier else { panic!("a tier-0") };
    let interfaces: Vec<_> = interfaces.iter().map(|interface| (interface.uplink.0, interface.mtu)).collect();
    assert_eq!(interfaces, [(4, 1800), (2, 9000)], "one uplink alone is no team");
}

#[test]
fn the_profile_has_defaults_for_segments() {
    let plan = plan(FAILOVER);
    let [web, db] = plan.segments.as_slice() else { panic!("two segments") };
    assert_eq!((web.encapsulation, db.encapsulation), (Encapsulation::Vxlan, Encapsulation::Geneve));
    assert_eq!((db.teps.as_slice(), db.teaming), (&[TepIndex(2)][..], Teaming::FailoverOrder));
    assert_eq!((web.teps.len(), web.teaming), (3, Teaming::FailoverOrder));
    let profile = plan.uplink_profile.unwrap();
    assert_eq!(profile.named_teamings.len(), 3);
    assert_eq!(profile.teaming.standby, [UplinkIndex(0)]);
}

#[test]
fn load_balancing_gives_teps_an_uplink_in_turn_and_spreads_segments() {
    let plan = plan(
        r#"
uplink-profile:
  teaming: {policy: load-balance-source-id, active: [uplink-3, uplink-1]}
  named-teamings:
    - {name: west, policy: load-balance-source-mac, active: [uplink-1, uplink-3]}
    - {name: east, policy: failover-order, active: [uplink-2], standby: [uplink-1]}
teps:
  - {name: tep-1, address: 172.16.1.10/24}
  - {name: tep-2, address: 172.16.2.10/24}
  - {name: fixed, address: 172.16.3.10/24, uplink: uplink-2}
  - {name: tep-4, address: 172.16.4.10/24}
segments:
  - {name: default, vni: 4}
  - {name: west, vni: 2, teaming: west}
  - {name: east, vni: 3, teaming: east}
  - {name: pinned, vni: 9, tep: tep-2}
"#,
    );
    assert!(plan.teams.is_empty());
    assert_eq!(plan.teps.iter().map(|tep| tep.uplink.0).collect::<Vec<_>>(), [2, 0, 1, 2]);
    let segments: Vec<_> = plan
        .segments
        .iter()
        .map(|segment| (segment.teaming, segment.teps.iter().map(|tep| tep.0).collect::<Vec<_>>()))
        .collect();
    assert_eq!(segments[0], (Teaming::SourcePort, vec![0, 1, 2, 3]));
    assert_eq!(segments[1], (Teaming::SourceMac, vec![1, 0, 3]));
    assert_eq!(segments[2], (Teaming::FailoverOrder, vec![2, 1]));
    assert_eq!((segments[3].0, segments[3].1[0]), (Teaming::FailoverOrder, 1));
    assert_eq!(plan.uplink_profile.unwrap().teaming.policy, TeamingPolicy::LoadBalanceSourceId);
}
