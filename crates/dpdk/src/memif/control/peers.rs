//! Peers: from a connection to rings in the hands of the queues, and back.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::{ANSWER_LIMIT, Control, MOST_NAMELESS, Port, RETRY, State, TELL_EVERY, sockets};
use crate::memif::MemifError;
use crate::memif::attachment::{Attachment, Side, ToQueue};
use crate::memif::conversation::{
    Attached, ClientConversation, ClientStep, Offer, ServerConversation, ServerStep,
};
use crate::memif::layout::{Buffers, Demand, Layout};
use crate::memif::message::{Message, RingPlace};
use crate::memif::region::Region;
use crate::memif::ring::{Memory, Ring};
use crate::memif::{events, lent};
use crate::{LogLevel, MemifRole, log};

/// A connection to another process, or to another port of this one.
#[derive(Debug)]
pub(super) struct Peer {
    socket: OwnedFd,
    side: PeerSide,
    /// The port that it is for, once that is known.
    port: Option<u64>,
    /// The listener that it came to.
    listener: Option<u64>,
    /// When it must have come to an agreement.
    until: Instant,
}

#[derive(Debug)]
enum PeerSide {
    /// The peer is the server.
    Server { conversation: ClientConversation, offered: Option<Offered> },
    /// The peer is the client.
    Client(ServerConversation),
}

/// What we offer a server.
#[derive(Debug)]
struct Offered {
    layout: Layout,
    events: Vec<OwnedFd>,
}

impl Peer {
    /// When it must have come to an agreement, if it has not.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let connected = match &self.side {
            PeerSide::Server { conversation, .. } => conversation.is_connected(),
            PeerSide::Client(conversation) => conversation.is_connected(),
        };
        (!connected).then_some(self.until)
    }

    /// Waits until the other end is closed too, which a peer does when it has let go of the rings, or until this has taken too long.
    pub(super) fn wait_for_end(&self, limit: Duration) {
        sockets::wait_for_end(&self.socket, limit);
    }
}

impl Control {
    /// Greets a client that has come to a listener. The oldest that has not said what it wants makes room for it, if there are many.
    pub(super) fn greet(&self, state: &mut State, listener: u64, socket: OwnedFd) {
        if sockets::send(&socket, &ServerConversation::hello(), None).is_err() {
            return;
        }
        let mut nameless =
            state.peers.iter().filter(|(_, peer)| peer.port.is_none()).map(|(number, _)| *number);
        if let Some(oldest) = nameless.next()
            && nameless.count() + 1 >= MOST_NAMELESS
        {
            self.fail(state, oldest, &MemifError::Crowd);
        }
        let side = PeerSide::Client(ServerConversation::default());
        self.add(
            state,
            Peer { socket, side, port: None, listener: Some(listener), until: Instant::now() + ANSWER_LIMIT },
        );
    }

    /// Connects a client's port to its server, if there is one.
    pub(super) fn connect(&self, state: &mut State, number: u64, now: Instant) {
        let Some(port) = state.ports.get_mut(&number) else { return };
        port.next_attempt = now + RETRY;
        // Queues that have not let go of the last connection yet.
        if !port.has_ready_queues() {
            return;
        }
        let socket = match sockets::reach(&port.registration.socket) {
            Ok(socket) => socket,
            // There is no server yet, or it has many clients to accept.
            Err(Errno::ENOENT | Errno::ECONNREFUSED | Errno::EAGAIN) => return,
            Err(errno) => return port.complain(&MemifError::Unreachable(errno)),
        };
        let (id, name) = (port.registration.id, &port.registration.name);
        let conversation = ClientConversation::new(id, name, port.registration.demand);
        let side = PeerSide::Server { conversation, offered: None };
        let peer = Peer { socket, side, port: Some(number), listener: None, until: now + ANSWER_LIMIT };
        if let Some(peer) = self.add(state, peer)
            && let Some(port) = state.ports.get_mut(&number)
        {
            port.peer = Some(peer);
        }
    }

    fn add(&self, state: &mut State, peer: Peer) -> Option<u64> {
        let number = state.number();
        let wanted = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP;
        self.epoll.add(&peer.socket, EpollEvent::new(wanted, number)).ok()?;
        state.peers.insert(number, peer);
        Some(number)
    }

    /// Hears all that a peer has said.
    pub(super) fn listen_to(&self, state: &mut State, number: u64) {
        while let Some(peer) = state.peers.get(&number) {
            let step = match sockets::receive(&peer.socket) {
                Ok(Some((message, file))) => self.answer(state, number, message, file),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = step {
                self.fail(state, number, &error);
            }
        }
    }

    fn answer(
        &self,
        state: &mut State,
        number: u64,
        message: Message,
        file: Option<OwnedFd>,
    ) -> Result<(), MemifError> {
        let State { peers, ports, listeners, .. } = state;
        let Some(peer) = peers.get_mut(&number) else { return Ok(()) };
        match &mut peer.side {
            PeerSide::Client(conversation) => match conversation.receive(message, file)? {
                ServerStep::Find(id) => {
                    let path = peer.listener.and_then(|number| listeners.get(&number)).map(|on| &on.path);
                    let found = ports.iter_mut().find(|(_, port)| {
                        port.registration.role == MemifRole::Server
                            && port.registration.id == id
                            && Some(&port.registration.socket) == path
                    });
                    let (port, found) = found.ok_or(MemifError::UnknownId(id))?;
                    if found.peer.is_some() {
                        return Err(MemifError::Busy(id));
                    }
                    if !found.has_ready_queues() {
                        return Err(MemifError::Unpolled(id));
                    }
                    (found.peer, peer.port) = (Some(number), Some(*port));
                    Ok(sockets::send(&peer.socket, &Message::Acknowledge, None)?)
                }
                ServerStep::Acknowledge => Ok(sockets::send(&peer.socket, &Message::Acknowledge, None)?),
                ServerStep::Take(offer) => {
                    let port = peer.port.and_then(|port| ports.get_mut(&port));
                    let port = port.ok_or(MemifError::Order("a port that is gone"))?;
                    let rings = take(&port.registration.demand, offer, number)?;
                    let name = port.registration.name.clone();
                    sockets::send(&peer.socket, &Message::Connected { name }, None)?;
                    port.attach(rings, number);
                    Ok(())
                }
            },
            PeerSide::Server { conversation, offered } => match conversation.receive(message)? {
                ClientStep::Offer(demand) => {
                    let port = peer.port.and_then(|port| ports.get(&port));
                    let port = port.ok_or(MemifError::Order("a port that is gone"))?;
                    let new = Offered::new(&demand, port.registration.zero_copy)?;
                    let sizes: Vec<u64> =
                        new.layout.memory.iter().map(|region| region.length() as u64).collect();
                    let init = conversation.offer(&sizes, &new.layout.places);
                    *offered = Some(new);
                    Ok(sockets::send(&peer.socket, &init, None)?)
                }
                ClientStep::Send(message, file) => {
                    let file = offered.as_ref().and_then(|offered| offered.file(file));
                    Ok(sockets::send(&peer.socket, &message, file)?)
                }
                ClientStep::Connected => {
                    let port = peer.port.and_then(|port| ports.get_mut(&port));
                    if let (Some(port), Some(offered)) = (port, offered.take()) {
                        port.attach(offered.rings(number)?, number);
                    }
                    Ok(())
                }
            },
        }
    }

    /// Ends a connection that came to nothing, or that the peer ended, and says why: to the peer, and once to the log.
    pub(super) fn fail(&self, state: &mut State, number: u64, error: &MemifError) {
        let port = state.peers.get(&number).and_then(|peer| peer.port);
        if let Some(port) = port.and_then(|port| state.ports.get_mut(&port)) {
            port.complain(error);
        }
        self.disconnect(state, number, &error.to_string());
    }

    /// Ends a connection, and returns what is left of it: the socket, whose other end may be open still.
    pub(super) fn disconnect(&self, state: &mut State, number: u64, reason: &str) -> Option<Peer> {
        let peer = state.peers.remove(&number)?;
        // It may be gone already.
        let _ = sockets::send(&peer.socket, &Message::Disconnect { reason: reason.to_owned() }, None);
        let _ = self.epoll.delete(&peer.socket);
        if let Some(port) = peer.port.and_then(|port| state.ports.get_mut(&port)) {
            port.detach();
        }
        Some(peer)
    }
}

/// The attachments of a connection's queues, in the order of the queues.
struct Rings {
    receive: Vec<Attachment>,
    transmit: Vec<Attachment>,
}

impl Port {
    /// Whether every queue can be told of a connection and of its end.
    fn has_ready_queues(&mut self) -> bool {
        self.registration.receive.iter_mut().chain(&mut self.registration.transmit).all(ToQueue::is_ready)
    }

    /// Frees what the queues gave back; whether that is all.
    pub(super) fn have_queues_let_go(&mut self) -> bool {
        let queues = self.registration.receive.iter_mut().chain(&mut self.registration.transmit);
        // Each is asked, whatever the others say.
        queues.filter_map(|queue| (!queue.has_let_go()).then_some(())).count() == 0
    }

    fn attach(&mut self, rings: Rings, connection: u64) {
        let give = |queues: &mut [ToQueue], rings: Vec<Attachment>| {
            queues.iter_mut().zip(rings).for_each(|(queue, ring)| queue.attach(ring));
        };
        give(&mut self.registration.receive, rings.receive);
        give(&mut self.registration.transmit, rings.transmit);
        self.registration.status.set_up(connection);
        if self.trouble.take().is_some() {
            let text = format!("memif port `{}`: connected", self.registration.name);
            log::tell(LogLevel::Notice, &text);
        }
    }

    fn detach(&mut self) {
        self.peer = None;
        self.next_attempt = Instant::now() + RETRY;
        if self.registration.status.set_down() {
            let queues = self.registration.receive.iter_mut().chain(&mut self.registration.transmit);
            queues.for_each(ToQueue::detach);
            self.collect = Some(self.next_attempt);
        }
    }

    /// Says what is wrong, unless that was said last, or something else a moment ago. A peer that merely leaves is no trouble.
    fn complain(&mut self, error: &MemifError) {
        let left = self.registration.status.is_attached()
            && matches!(error, MemifError::System(_) | MemifError::Refused(_));
        let text = error.to_string();
        let early = self.told.is_some_and(|told| told.elapsed() < TELL_EVERY);
        if !left && !early && self.trouble.as_ref() != Some(&text) {
            self.told = Some(Instant::now());
            let (name, socket) = (&self.registration.name, self.registration.socket.display());
            log::tell(LogLevel::Warning, &format!("memif port `{name}` at {socket}: {text}"));
            self.trouble = Some(text);
        }
    }
}

impl Offered {
    fn new(demand: &Demand, zero_copy: bool) -> Result<Self, MemifError> {
        let lent = if zero_copy { Some(lent::packet_memory()?) } else { None };
        let layout = Layout::new(demand, lent)?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = |_| Ok(OwnedFd::from(EventFd::from_flags(flags)?));
        let events = layout.places.iter().map(event).collect::<Result<_, MemifError>>()?;
        Ok(Self { layout, events })
    }

    fn file(&self, file: Attached) -> Option<BorrowedFd<'_>> {
        match file {
            Attached::Nothing => None,
            Attached::Region(number) => self.layout.files.get(number).map(AsFd::as_fd),
            Attached::Events(number) => self.events.get(number).map(AsFd::as_fd),
        }
    }

    fn rings(self, connection: u64) -> Result<Rings, MemifError> {
        let Layout { memory, places, buffers, .. } = self.layout;
        let mut rings = Rings { receive: Vec::new(), transmit: Vec::new() };
        for ((place, buffers), events) in places.iter().zip(buffers).zip(self.events) {
            let side = buffers.map_or(Side::Lender, |buffers: Buffers| Side::Client(buffers));
            let ring = Ring::at(&memory, place)?;
            let lent = if let Side::Lender = side { lent::Slots::of(&ring) } else { lent::Slots::default() };
            let attachment = Attachment { ring, side, events, lent, connection };
            if place.from_client { &mut rings.transmit } else { &mut rings.receive }.push(attachment);
        }
        Ok(rings)
    }
}

/// Makes a client's offer usable for as many queues as the demand says, which is as of a client.
fn take(queues: &Demand, offer: Offer, connection: u64) -> Result<Rings, MemifError> {
    let map = |(number, (file, size)): (usize, &(OwnedFd, u64))| {
        let index = number as u16;
        if !Region::stays(file.as_fd()) {
            return Err(MemifError::Unsealed(index));
        }
        Region::of_file(file.as_fd(), *size).map_err(|source| MemifError::Region { index, source })
    };
    let regions = offer.regions.iter().enumerate().map(map).collect::<Result<Vec<_>, _>>()?;
    let memory: Memory = regions.into();
    let mut rings = offer.rings;
    rings.sort_by_key(|(place, _)| (place.from_client, place.index));
    let (from, to): (Vec<_>, Vec<_>) = rings.into_iter().partition(|(place, _)| place.from_client);
    // What a client sends this side receives, so that the demand's directions change. A ring too many would lose what the client sends; a
    // queue too many would lose what is sent here.
    let too_many = from.len() as u16 > queues.to_client;
    let too_few = (to.len() as u16) < queues.to_server;
    for (rings, wrong, queues, direction) in [
        (&from, too_many, queues.to_client, "to the server"),
        (&to, too_few, queues.to_server, "to the client"),
    ] {
        let in_turn = rings.iter().enumerate().all(|(at, (place, _))| usize::from(place.index) == at);
        if wrong || !in_turn {
            return Err(MemifError::Queues { offered: rings.len() as u16, direction, queues });
        }
    }
    let attach = |(place, events): (RingPlace, OwnedFd)| {
        let ring = Ring::at(&memory, &place)?;
        events::check(events.as_fd()).map_err(|source| MemifError::Events { index: place.index, source })?;
        Ok(Attachment { ring, side: Side::Server, events, lent: lent::Slots::default(), connection })
    };
    Ok(Rings {
        receive: from.into_iter().map(attach).collect::<Result<_, MemifError>>()?,
        transmit: to.into_iter().map(attach).collect::<Result<_, MemifError>>()?,
    })
}
