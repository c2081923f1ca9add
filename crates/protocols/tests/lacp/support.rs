//! A LAG and peers of its ports that say what a test wants.

use std::time::Duration;

use sluice_protocols::Timestamp;
use sluice_protocols::lacp::{Action, Lag, LagConfig, PortConfig, PortView, Refusal};
use sluice_wire::MacAddr;
use sluice_wire::ethernet::EthernetView;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::lacp::{Lacp, LacpState, PortInfo};
use sluice_wire::slow_protocols::{MULTICAST, SlowProtocol};

/// The LAG's own system, the usual partner's, and another one's.
pub(crate) const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x10]);
pub(crate) const PARTNER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x20]);
pub(crate) const STRANGER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x30]);

/// Activity, Aggregation, Synchronization: a partner that is ready.
pub(crate) const READY: &str = "AGS";

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The MAC address of a port.
pub(crate) fn mac(port: u16) -> MacAddr {
    MacAddr([2, 0, 0, 1, 0, port as u8])
}

pub(crate) fn config(ports: u16) -> LagConfig {
    LagConfig::new(OWN, 1, (0..ports).map(|port| PortConfig::new(port, mac(port))).collect())
}

/// The letters of the state bits, in the order of the bits.
const LETTERS: &str = "ATGSCDFE";

pub(crate) fn letters(state: LacpState) -> String {
    LETTERS
        .chars()
        .enumerate()
        .filter(|(bit, _)| state.bits() & 1 << bit != 0)
        .map(|(_, letter)| letter)
        .collect()
}

pub(crate) fn state(letters: &str) -> LacpState {
    let bits = letters.chars().map(|letter| 1 << LETTERS.find(letter).unwrap());
    LacpState::from_bits(bits.fold(0, |bits, bit: u8| bits | bit))
}

/// The LACPDU in a frame.
pub(crate) fn read(frame: &[u8]) -> Lacp {
    let ethernet = EthernetView::parse(frame).unwrap();
    assert_eq!((ethernet.destination(), frame.len()), (MULTICAST, 124));
    match SlowProtocol::parse(ethernet.payload()).unwrap() {
        SlowProtocol::Lacp(packet) => packet.into(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn written(source: MacAddr, pdu: Lacp) -> Vec<u8> {
    FrameBuilder::new().ethernet(source, MULTICAST).lacp(pdu).build().unwrap()
}

pub(crate) struct Conversation {
    pub(crate) lag: Lag,
    pub(crate) now: Timestamp,
}

impl Conversation {
    /// A LAG whose links are all up at 10 Gb/s.
    pub(crate) fn new(config: LagConfig) -> Self {
        let ports: Vec<_> = config.ports.iter().map(|port| port.port).collect();
        let mut conversation = Self { lag: Lag::new(config).unwrap(), now: Timestamp::from_secs(100) };
        for port in ports {
            conversation.link(port, Some(10_000));
        }
        conversation
    }

    /// A LAG all of whose ports are active.
    pub(crate) fn up(config: LagConfig) -> Self {
        let mut conversation = Self::new(config);
        let ports = conversation.lag.view().ports.len() as u16;
        (0..ports).for_each(|port| conversation.hear(port, READY));
        conversation.pass(secs(2));
        (0..ports).for_each(|port| conversation.hear(port, READY));
        assert_eq!(conversation.lag.active_ports().count(), usize::from(ports));
        conversation.actions();
        conversation
    }

    pub(crate) fn link(&mut self, port: u16, megabits: Option<u32>) {
        self.lag.link_state(port, megabits, self.now);
    }

    pub(crate) fn port(&self, port: u16) -> PortView {
        *self.lag.view().ports.iter().find(|view| view.port == port).unwrap()
    }

    /// What the usual partner says on a port: its state, and this end as it is.
    pub(crate) fn pdu(&self, port: u16, letters: &str) -> Lacp {
        let actor = PortInfo {
            system_priority: 0x8000,
            system: PARTNER,
            key: 5,
            port_priority: 0x8000,
            port: 100 + port,
            state: state(letters),
        };
        Lacp { actor, partner: self.port(port).actor, collector_max_delay: 0 }
    }

    pub(crate) fn tell(&mut self, port: u16, pdu: Lacp) -> Result<(), Refusal> {
        self.lag.receive(port, &written(mac(200), pdu), self.now)
    }

    /// The usual partner says its state on a port.
    pub(crate) fn hear(&mut self, port: u16, letters: &str) {
        let pdu = self.pdu(port, letters);
        self.tell(port, pdu).unwrap();
    }

    /// Time passes, event by event.
    pub(crate) fn pass(&mut self, time: Duration) -> Vec<String> {
        let end = self.now.after(time);
        let mut lines = self.actions();
        while let Some(event) = self.lag.next_event().filter(|event| *event <= end) {
            assert!(event > self.now || event == end, "an event that is over comes again");
            self.now = event;
            self.lag.advance(event);
            assert!(self.lag.next_event().is_none_or(|next| next > event));
            lines.extend(self.actions());
        }
        self.now = end;
        lines
    }

    /// What is to be done, in a line each.
    pub(crate) fn actions(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.lag.next_action()).map(|action| describe(&action)).collect()
    }

    /// What is to be done, but for frames.
    pub(crate) fn news(&mut self) -> Vec<String> {
        let mut lines = self.actions();
        lines.retain(|line| !line.contains("sends"));
        lines
    }
}

/// An action in one line.
pub(crate) fn describe(action: &Action) -> String {
    match action {
        Action::Send { port, frame } => {
            let pdu = read(frame);
            assert_eq!(EthernetView::parse(frame).unwrap().source(), mac(*port));
            format!("{port} sends {} to {}", letters(pdu.actor.state), letters(pdu.partner.state))
        }
        Action::PortChanged { port, active } => {
            format!("{port} {}", if *active { "active" } else { "inactive" })
        }
        Action::StateChanged { up } => format!("LAG {}", if *up { "up" } else { "down" }),
        Action::Excluded { port, reason: Some(reason) } => format!("{port} excluded: {reason:?}"),
        Action::Excluded { port, reason: None } => format!("{port} no longer excluded"),
        Action::Churn { port, side, churning } => format!("{port} {side:?} churn {churning}"),
    }
}
