//! Any frames, link states and pauses: a port is active only with a partner in sync and a link that is up, as the actions
//! tell, and nothing panics or goes on for ever.
//!
//! The input is a list of steps: a byte that says which and on which port, a byte for the pause before it, and for a frame
//! what of an LACPDU is chosen, or its bytes.

#![no_main]

use std::collections::BTreeSet;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use sluice_protocols::Timestamp;
use sluice_protocols::lacp::{Action, Lag, LagConfig, PortConfig};
use sluice_wire::MacAddr;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::lacp::{Lacp, LacpState, PortInfo};
use sluice_wire::slow_protocols::MULTICAST;

const PORTS: u16 = 4;

fn mac(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number])
}

fn config(max_links: usize, active: bool) -> LagConfig {
    let ports = (0..PORTS).map(|port| PortConfig::new(port, mac(port as u8))).collect();
    LagConfig { max_links, active, ..LagConfig::new(mac(1), 1, ports) }
}

/// An LACPDU of one of four systems with any state, to a partner that it knows or not.
fn lacpdu(lag: &Lag, port: u16, choice: u8, state: u8) -> Vec<u8> {
    let view = lag.view();
    let ours = view.ports.iter().find(|view| view.port == port).map(|view| view.actor);
    let actor = PortInfo {
        system_priority: u16::from(choice & 4),
        system: mac(1 + choice % 4),
        key: u16::from(choice & 8),
        port_priority: u16::from(choice & 48),
        port,
        state: LacpState::from_bits(state),
    };
    let partner = ours.filter(|_| choice & 0xc0 != 0).unwrap_or_default();
    let frame =
        FrameBuilder::new().ethernet(mac(9), MULTICAST).lacp(Lacp { actor, partner, collector_max_delay: 0 });
    frame.build().expect("layers of fixed length")
}

fn check(lag: &mut Lag, active: &mut BTreeSet<u16>) {
    while let Some(action) = lag.next_action() {
        match action {
            Action::Send { frame, .. } => assert_eq!(frame.len(), 124),
            Action::PortChanged { port, active: true } => assert!(active.insert(port)),
            Action::PortChanged { port, active: false } => assert!(active.remove(&port)),
            _ => {}
        }
    }
    assert_eq!(lag.active_ports().collect::<BTreeSet<_>>(), *active);
    let view = lag.view();
    for port in view.ports.iter().filter(|port| port.active) {
        assert!(port.megabits.is_some() && port.partner.state.contains(LacpState::SYNCHRONIZATION));
        assert_eq!(view.partner.map(|partner| partner.system), Some(port.partner.system));
    }
}

fuzz_target!(|input: &[u8]| {
    let mut lag = Lag::new(config(3, true)).expect("a good configuration");
    let (mut now, mut active, mut rest) = (Timestamp::from_secs(1), BTreeSet::new(), input);
    while let [kind, pause, tail @ ..] = rest {
        rest = tail;
        now = now.after(Duration::from_millis(u64::from(*pause) * u64::from(*pause)));
        let port = u16::from(kind >> 4) % (PORTS + 1);
        match kind % 8 {
            0 => lag.link_state(port, None, now),
            1 | 2 => lag.link_state(port, Some(1000 * u32::from(1 + kind % 8)), now),
            3 => drop(lag.configure(config(1 + usize::from(pause % 4), pause & 4 == 0), now)),
            4 => {
                let (bytes, tail) = rest.split_at(rest.len().min(124));
                rest = tail;
                let _ = lag.receive(port, bytes, now);
            }
            _ => {
                let [choice, state, tail @ ..] = rest else { break };
                rest = tail;
                let frame = lacpdu(&lag, port, *choice, *state);
                let _ = lag.receive(port, &frame, now);
            }
        }
        check(&mut lag, &mut active);
        lag.advance(now);
        assert!(lag.next_event().is_none_or(|next| next > now));
        check(&mut lag, &mut active);
    }
});
