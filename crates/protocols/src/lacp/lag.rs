//! The LAG as its caller sees it.

use std::collections::VecDeque;

use sluice_wire::ethernet::EthernetView;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::lacp::{Lacp, LacpPacket};
use sluice_wire::marker::{Marker, MarkerKind, MarkerPacket};
use sluice_wire::slow_protocols::{MULTICAST, SlowProtocol};
use sluice_wire::{EtherType, MacAddr};

use super::port::{Port, Told};
use super::selection::{Group, select};
use super::{
    Action, LagConfig, LagError, LagView, MuxState, Partner, PortConfig, Refusal, Refusals, Selected, Side,
};
use crate::Timestamp;

/// A link aggregation group.
///
/// Every call may leave actions, which the caller takes with [`Lag::next_action`] before the next call; a port that may
/// no longer carry traffic is told before any LACPDU is to be sent. `now` never goes back.
///
/// ```
/// use sluice_protocols::Timestamp;
/// use sluice_protocols::lacp::{Action, Lag, LagConfig, PortConfig};
/// use sluice_wire::MacAddr;
///
/// let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
/// let ports = vec![PortConfig::new(0, mac(1)), PortConfig::new(1, mac(2))];
/// let mut lag = Lag::new(LagConfig::new(mac(1), 1, ports))?;
/// lag.link_state(0, Some(25_000), Timestamp::from_secs(1));
/// assert!(matches!(lag.next_action(), Some(Action::Send { port: 0, .. })));
/// assert_eq!(lag.next_event(), Some(Timestamp::from_secs(2)), "the next LACPDU");
/// # Ok::<(), sluice_protocols::lacp::LagError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lag {
    config: LagConfig,
    /// In the order of their numbers.
    ports: Vec<Port>,
    aggregate: Option<Group>,
    told_up: bool,
    actions: VecDeque<Action>,
    refusals: Refusals,
    now: Timestamp,
}

impl Lag {
    /// A LAG all of whose links are down.
    ///
    /// # Errors
    ///
    /// [`LagError`].
    pub fn new(config: LagConfig) -> Result<Self, LagError> {
        config.check()?;
        let mut lag = Self {
            ports: Vec::new(),
            config,
            aggregate: None,
            told_up: false,
            actions: VecDeque::new(),
            refusals: Refusals::default(),
            now: Timestamp::default(),
        };
        lag.set_ports();
        Ok(lag)
    }

    /// Takes another configuration. Ports that stay go on, unless they are others for the other end: with another
    /// system, key or priority they are aggregated anew. Ports that go say so, as in [`Lag::leave`].
    ///
    /// # Errors
    ///
    /// [`LagError`]; nothing is changed then.
    pub fn configure(&mut self, config: LagConfig, now: Timestamp) -> Result<(), LagError> {
        config.check()?;
        self.config = config;
        self.set_ports();
        self.settle(now);
        Ok(())
    }

    /// Tells the other end, on every link that is up, that it is out of sync here: it sends nothing more by the link then, where it would go on for
    /// up to 90 seconds, LACP's long timeout. For a LAG that is given up, of which nothing is wanted afterwards but its actions.
    pub fn leave(&mut self) {
        for port in &self.ports {
            say_farewell(port, &mut self.actions);
        }
    }

    /// The link of a port is up with a speed in megabits a second, or down. Links are down until this says otherwise.
    /// A port whose link is down is inactive at once.
    pub fn link_state(&mut self, port: u16, megabits: Option<u32>, now: Timestamp) {
        if let Some(port) = self.port(port) {
            port.set_link(megabits, now);
            self.settle(now);
        }
    }

    /// A port received a frame of the slow protocols, without VLAN tag.
    ///
    /// # Errors
    ///
    /// Why it was refused, which is counted too.
    pub fn receive(&mut self, port: u16, frame: &[u8], now: Timestamp) -> Result<(), Refusal> {
        let result = self.accept(port, frame, now);
        if let Err(reason) = result {
            self.refusals.add(reason);
        }
        self.settle(now);
        result
    }

    /// Does what is due at `now`. Afterwards [`Lag::next_event`] is later than `now`.
    pub fn advance(&mut self, now: Timestamp) {
        self.settle(now);
    }

    /// When [`Lag::advance`] is to be called next; `None` while there is nothing to wait for.
    pub fn next_event(&self) -> Option<Timestamp> {
        self.ports.iter().filter_map(|port| port.next_event(self.now)).min()
    }

    /// Takes the next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The LAG has enough active ports.
    pub fn is_up(&self) -> bool {
        self.active_ports().count() >= self.config.min_links
    }

    /// The ports that carry traffic, in the order of their numbers.
    pub fn active_ports(&self) -> impl Iterator<Item = u16> {
        self.ports.iter().filter(|port| port.is_active()).map(|port| port.config.port)
    }

    /// Whom the aggregate leads to.
    pub fn partner(&self) -> Option<Partner> {
        self.aggregate.map(|group| group.partner)
    }

    /// Everything about the LAG.
    pub fn view(&self) -> LagView {
        LagView {
            up: self.is_up(),
            partner: self.partner(),
            ports: self.ports.iter().map(Port::view).collect(),
        }
    }

    /// Frames that were refused.
    pub fn refusals(&self) -> Refusals {
        self.refusals
    }

    fn port(&mut self, number: u16) -> Option<&mut Port> {
        self.ports.iter_mut().find(|port| port.config.port == number)
    }

    /// As many links could carry traffic, as far as this end is concerned, as the LAG needs.
    fn has_enough(&self) -> bool {
        let attached = |port: &&Port| port.is_attached() && port.selected == Selected::Selected;
        self.ports.iter().filter(attached).count() >= self.config.min_links
    }

    /// Makes the ports those of the configuration.
    fn set_ports(&mut self) {
        let mut configs = self.config.ports.clone();
        configs.sort_by_key(|config| config.port);
        let mut old = std::mem::take(&mut self.ports);
        for config in configs {
            let kept = old.iter().position(|port| port.config.port == config.port);
            let mut port = match kept {
                Some(index) => old.swap_remove(index),
                None => Port::new(&self.config, config),
            };
            port.configure(&self.config, config);
            self.ports.push(port);
        }
        for mut port in old {
            say_farewell(&port, &mut self.actions);
            tell(&mut port, Told::default(), &mut self.actions);
        }
    }

    fn accept(&mut self, number: u16, frame: &[u8], now: Timestamp) -> Result<(), Refusal> {
        let (system, partner) = (self.config.system, self.partner());
        let port = self.port(number).ok_or(Refusal::UnknownPort)?;
        let ethernet = EthernetView::parse(frame).map_err(|_| Refusal::Malformed)?;
        if ethernet.ether_type() != EtherType::SLOW_PROTOCOLS
            || ethernet.destination() != MULTICAST
            || ethernet.outer_tag().is_some()
        {
            return Err(Refusal::OtherFrame);
        }
        if !port.is_enabled() {
            return Err(Refusal::LinkDown);
        }
        match SlowProtocol::parse(ethernet.payload()).map_err(|_| Refusal::Malformed)? {
            SlowProtocol::Lacp(packet) => accept_lacp(port, system, partner, packet, now),
            SlowProtocol::Marker(packet) => {
                let answer = accept_marker(port, packet, now)?;
                self.actions.extend(answer.map(|frame| Action::Send { port: number, frame }));
                Ok(())
            }
            SlowProtocol::Other { .. } => Err(Refusal::OtherProtocol),
        }
    }

    /// Runs all machines until none has anything to do at `now`, and tells what came of it.
    fn settle(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        let now = self.now;
        for port in &mut self.ports {
            port.expire(now);
        }
        loop {
            let mut changed = select(&self.config, &mut self.ports, &mut self.aggregate);
            let ready = is_ready(&self.ports, now);
            for at in 0..self.ports.len() {
                let enough = self.has_enough();
                changed |= self.ports[at].step_mux(ready, enough, now);
            }
            if !changed {
                break;
            }
        }
        for port in &mut self.ports {
            port.observe_churn(now);
            tell(port, port.news(), &mut self.actions);
        }
        let up = self.is_up();
        if up != self.told_up {
            self.told_up = up;
            self.actions.push_back(Action::StateChanged { up });
        }
        for port in &mut self.ports {
            port.run_periodic(now);
            if let Some(pdu) = port.transmit(now) {
                let frame = lacp_frame(&port.config, pdu);
                self.actions.extend(frame.map(|frame| Action::Send { port: port.config.port, frame }));
            }
        }
    }
}

/// "Ready": no selected port still waits for others to come up with it (§6.4.14).
fn is_ready(ports: &[Port], now: Timestamp) -> bool {
    let mut waiting =
        ports.iter().filter(|port| port.mux == MuxState::Waiting && port.selected == Selected::Selected);
    waiting.all(|port| port.wait_while.is_none_or(|until| until <= now))
}

fn accept_lacp(
    port: &mut Port,
    system: MacAddr,
    partner: Option<Partner>,
    packet: &LacpPacket,
    now: Timestamp,
) -> Result<(), Refusal> {
    let pdu = Lacp::from(packet);
    if !pdu.actor.system.is_unicast() {
        return Err(Refusal::System);
    }
    if pdu.actor.system == system {
        port.loop_back(now);
        return Err(Refusal::Loopback);
    }
    port.receive(&pdu, now);
    let sender =
        Partner { system_priority: pdu.actor.system_priority, system: pdu.actor.system, key: pdu.actor.key };
    port.counters.other_partner += u64::from(partner.is_some_and(|partner| partner != sender));
    Ok(())
}

/// The frame that answers a marker.
fn accept_marker(port: &mut Port, packet: &MarkerPacket, now: Timestamp) -> Result<Option<Vec<u8>>, Refusal> {
    if packet.kind() == MarkerKind::Response {
        return Err(Refusal::UnexpectedResponse);
    }
    let answer = Marker::from(packet).response();
    let frame = FrameBuilder::new().ethernet(port.config.mac, MULTICAST).marker(answer);
    Ok(if port.receive_marker(now) { frame.build().ok() } else { None })
}

/// The frame of an LACPDU; layers of fixed length are never refused.
fn lacp_frame(config: &PortConfig, pdu: Lacp) -> Option<Vec<u8>> {
    FrameBuilder::new().ethernet(config.mac, MULTICAST).lacp(pdu).build().ok()
}

/// Sends what a port says at last.
fn say_farewell(port: &Port, actions: &mut VecDeque<Action>) {
    let frame = port.farewell().and_then(|pdu| lacp_frame(&port.config, pdu));
    actions.extend(frame.map(|frame| Action::Send { port: port.config.port, frame }));
}

/// Tells what is another than was told.
fn tell(port: &mut Port, news: Told, actions: &mut VecDeque<Action>) {
    let told = std::mem::replace(&mut port.told, news);
    let port = port.config.port;
    if told.active != news.active {
        actions.push_back(Action::PortChanged { port, active: news.active });
    }
    if told.exclusion != news.exclusion {
        actions.push_back(Action::Excluded { port, reason: news.exclusion });
    }
    if told.actor_churn != news.actor_churn {
        actions.push_back(Action::Churn { port, side: Side::Actor, churning: news.actor_churn });
    }
    if told.partner_churn != news.partner_churn {
        actions.push_back(Action::Churn { port, side: Side::Partner, churning: news.partner_churn });
    }
}
