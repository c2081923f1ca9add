//! One session and a peer of it that says what a test wants.

use std::time::Duration;

use sluice_protocols::Timestamp;
use sluice_protocols::bfd::{Action, PORT, Path, Received, Refusal, SessionConfig, SessionView, Sessions};
use sluice_protocols::bfd::{SessionsConfig, TTL, Via};
use sluice_wire::bfd::{Bfd, BfdDiagnostic, BfdPacket, BfdState};

/// The peer's discriminator.
pub(crate) const PEER: u32 = 0x77;

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// The path between the TEPs of two numbers.
pub(crate) fn path(local: u8, remote: u8) -> Path {
    let address = |number: u8| [192, 0, 2, number].into();
    Path { via: Via::Tunnel { vni: None }, local: address(local), remote: address(remote) }
}

/// What comes with a packet that the other end of `path` sent.
pub(crate) fn received(path: Path) -> Received {
    Received { via: path.via, source: path.remote, destination: path.local, destination_port: PORT, ttl: TTL }
}

pub(crate) fn read(payload: &[u8]) -> Bfd {
    BfdPacket::parse(payload).unwrap().into()
}

pub(crate) fn written(packet: &Bfd) -> [u8; 24] {
    let mut payload = [0; 24];
    packet.emit(&mut payload).unwrap();
    payload
}

/// A session from .1 to .2, and its peer.
pub(crate) struct Conversation {
    pub(crate) sessions: Sessions,
    pub(crate) now: Timestamp,
    /// What the peer's packets say, but for the state and Your Discriminator.
    pub(crate) peer: Bfd,
}

impl Conversation {
    pub(crate) fn new(config: SessionConfig) -> Self {
        let mut sessions = Sessions::new(SessionsConfig { seed: 7, ..SessionsConfig::default() });
        let now = Timestamp::from_secs(100);
        sessions.add(path(1, 2), config, now).unwrap();
        let peer = Bfd {
            state: BfdState::Down,
            diagnostic: BfdDiagnostic::NONE,
            poll_flag: false,
            final_flag: false,
            control_plane_independent: false,
            demand: false,
            detect_multiplier: 3,
            my_discriminator: PEER,
            your_discriminator: 0,
            desired_min_tx: 300_000,
            required_min_rx: 300_000,
            required_min_echo_rx: 0,
        };
        Self { sessions, now, peer }
    }

    /// A session that is up, at 300 ms in both directions, after its first poll sequence.
    pub(crate) fn up() -> Self {
        let mut conversation = Self::new(SessionConfig::every(ms(300), 3));
        conversation.say(BfdState::Down).unwrap();
        conversation.say(BfdState::Init).unwrap();
        conversation.tell(|packet| (packet.state, packet.final_flag) = (BfdState::Up, true)).unwrap();
        assert!(!conversation.view().polling);
        conversation.actions();
        conversation
    }

    pub(crate) fn view(&self) -> SessionView {
        self.sessions.get(&path(1, 2)).unwrap()
    }

    /// The peer sends a packet with its session in `state`.
    pub(crate) fn say(&mut self, state: BfdState) -> Result<(), Refusal> {
        self.tell(|packet| packet.state = state)
    }

    /// The peer sends a packet that is changed at will.
    pub(crate) fn tell(&mut self, change: impl FnOnce(&mut Bfd)) -> Result<(), Refusal> {
        let mut packet = Bfd { your_discriminator: self.view().local_discriminator, ..self.peer };
        change(&mut packet);
        self.sessions.receive(&received(path(1, 2)), &written(&packet), self.now)
    }

    /// Time passes, event by event.
    pub(crate) fn pass(&mut self, time: Duration) -> Vec<String> {
        let end = self.now.after(time);
        let mut lines = Vec::new();
        while let Some(event) = self.sessions.next_event().filter(|event| *event <= end) {
            self.now = event;
            self.sessions.advance(event);
            lines.extend(self.actions());
        }
        self.now = end;
        lines
    }

    /// As [`Conversation::pass`], with a peer that says every 250 ms that it is up.
    pub(crate) fn pass_heard(&mut self, time: Duration) -> Vec<String> {
        let end = self.now.after(time);
        let mut lines = Vec::new();
        while self.now < end {
            self.say(BfdState::Up).unwrap();
            lines.extend(self.pass(ms(250)));
        }
        lines
    }

    /// What is to be done, in a line each.
    pub(crate) fn actions(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.sessions.next_action()).map(|action| describe(&action)).collect()
    }
}

/// An action in one line: what a packet tells, or a change of state.
pub(crate) fn describe(action: &Action) -> String {
    match action {
        Action::Send { payload, source_port, .. } => {
            assert!(*source_port >= 49_152);
            let packet = read(payload);
            assert!(!packet.demand && packet.required_min_echo_rx == 0 && packet.my_discriminator != 0);
            let flags = [(packet.poll_flag, " P"), (packet.final_flag, " F")];
            let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
            let diagnostic = packet.diagnostic.bits();
            let (tx, rx) = (packet.desired_min_tx / 1000, packet.required_min_rx / 1000);
            let your = packet.your_discriminator;
            format!(
                "{} diag {diagnostic} x{} >{your:x} {tx}/{rx}{flags}",
                packet.state, packet.detect_multiplier
            )
        }
        Action::StateChanged { from, to, diagnostic, .. } => format!("{from}→{to}: {diagnostic}"),
    }
}
