//! The two sides of the control channel's conversation, free of sockets and time: each is told what came and says what is to be done.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use super::MemifError;
use super::layout::Demand;
use super::message::{ETHERNET, Hello, Message, RingPlace, VERSION};
use super::ring::MOST_SLOTS_LOG2;

/// Name that this program gives itself.
const PROGRAM: &str = concat!("sluice ", env!("CARGO_PKG_VERSION"));
/// Highest numbers that a server takes: of regions, and of rings each way.
const LAST_REGION: u16 = 255;
pub(super) const MOST_RINGS: u16 = 256;

/// A file that goes with a message of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attached {
    Nothing,
    /// The memory of the region of this number.
    Region(usize),
    /// The events of the ring at this place of the layout.
    Events(usize),
}

/// What a client is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientStep {
    Send(Message, Attached),
    /// The server has greeted: make the memory for this, and then [`ClientConversation::offer`] it.
    Offer(Demand),
    /// Frames may go.
    Connected,
}

/// A client's side.
#[derive(Debug)]
pub(super) struct ClientConversation {
    id: u32,
    port: String,
    demand: Demand,
    state: ClientState,
    /// What is still to be said, one message for each that is acknowledged.
    rest: VecDeque<(Message, Attached)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientState {
    /// Waits for the server's greeting.
    Ungreeted,
    /// Says what there is.
    Offering,
    Connected,
}

impl ClientConversation {
    /// For the interface `id`, with as much as is wanted.
    pub(super) fn new(id: u32, port: &str, demand: Demand) -> Self {
        let (port, rest) = (port.to_owned(), VecDeque::new());
        Self { id, port, demand, state: ClientState::Ungreeted, rest }
    }

    /// Takes a message; what is to be done now.
    ///
    /// # Errors
    /// What cannot be agreed upon, and messages that do not belong there.
    pub(super) fn receive(&mut self, message: Message) -> Result<ClientStep, MemifError> {
        match (self.state, message) {
            (ClientState::Ungreeted, Message::Hello(hello)) => self.greeted(&hello),
            (ClientState::Offering, Message::Acknowledge) => match self.rest.pop_front() {
                Some((message, file)) => Ok(ClientStep::Send(message, file)),
                None => Err(MemifError::Order("an acknowledgement of nothing")),
            },
            (ClientState::Offering, Message::Connected { .. }) if self.rest.is_empty() => {
                self.state = ClientState::Connected;
                Ok(ClientStep::Connected)
            }
            (_, Message::Disconnect { reason }) => Err(MemifError::Refused(reason)),
            _ => Err(MemifError::Order("not of a server, or not now")),
        }
    }

    fn greeted(&mut self, hello: &Hello) -> Result<ClientStep, MemifError> {
        if !(hello.oldest..=hello.newest).contains(&VERSION) {
            return Err(MemifError::Version(hello.newest));
        }
        for (wanted, last, direction) in [
            (self.demand.to_server, hello.last_to_server, "to the server"),
            (self.demand.to_client, hello.last_to_client, "to the client"),
        ] {
            if u32::from(wanted) > u32::from(last) + 1 {
                let queues = last.saturating_add(1);
                return Err(MemifError::Queues { offered: wanted, direction, queues });
            }
        }
        self.demand.size_log2 = self.demand.size_log2.min(hello.ring_size_log2);
        Ok(ClientStep::Offer(self.demand))
    }

    /// Offers memory of these sizes and the rings in it: the first message to send.
    pub(super) fn offer(&mut self, regions: &[u64], rings: &[RingPlace]) -> Message {
        let region = |(number, size): (usize, &u64)| {
            (Message::AddRegion { index: number as u16, size: *size }, Attached::Region(number))
        };
        let ring =
            |(number, place): (usize, &RingPlace)| (Message::AddRing(*place), Attached::Events(number));
        self.rest = regions.iter().enumerate().map(region).collect();
        self.rest.extend(rings.iter().enumerate().map(ring));
        self.rest.push_back((Message::Connect { name: self.port.clone() }, Attached::Nothing));
        self.state = ClientState::Offering;
        Message::Init { version: VERSION, id: self.id, mode: ETHERNET, name: PROGRAM.to_owned() }
    }

    /// Whether frames may go.
    pub(super) fn is_connected(&self) -> bool {
        self.state == ClientState::Connected
    }
}

/// What a server is to do.
#[derive(Debug)]
pub(super) enum ServerStep {
    /// Acknowledge if there is a port of this number that has no peer, and refuse otherwise.
    Find(u32),
    Acknowledge,
    /// The client has said all: use it.
    Take(Offer),
}

/// What a client has offered.
#[derive(Debug, Default)]
pub(super) struct Offer {
    /// Files and octets of the memory, by number.
    pub(super) regions: Vec<(OwnedFd, u64)>,
    /// Rings, and the files of their events.
    pub(super) rings: Vec<(RingPlace, OwnedFd)>,
}

/// A server's side.
#[derive(Debug, Default)]
pub(super) struct ServerConversation {
    state: ServerState,
    offer: Offer,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ServerState {
    /// Does not know yet for which port the client is.
    #[default]
    Nameless,
    Listening,
    Connected,
}

impl ServerConversation {
    /// The greeting, which comes first.
    pub(super) fn hello() -> Message {
        Message::Hello(Hello {
            name: PROGRAM.to_owned(),
            oldest: VERSION,
            newest: VERSION,
            last_region: LAST_REGION,
            last_to_client: MOST_RINGS - 1,
            last_to_server: MOST_RINGS - 1,
            ring_size_log2: MOST_SLOTS_LOG2,
        })
    }

    /// Takes a message and the file that came with it; what is to be done now.
    ///
    /// # Errors
    /// What cannot be agreed upon, and messages that do not belong there.
    pub(super) fn receive(
        &mut self,
        message: Message,
        file: Option<OwnedFd>,
    ) -> Result<ServerStep, MemifError> {
        match (self.state, message, file) {
            (ServerState::Nameless, Message::Init { version, id, mode, .. }, None) => {
                if version != VERSION {
                    return Err(MemifError::Version(version));
                }
                if mode != ETHERNET {
                    return Err(MemifError::Mode(mode));
                }
                self.state = ServerState::Listening;
                Ok(ServerStep::Find(id))
            }
            (ServerState::Listening, Message::AddRegion { index, size }, Some(file)) => {
                if usize::from(index) != self.offer.regions.len() || index > LAST_REGION {
                    return Err(MemifError::Order("a region out of turn"));
                }
                self.offer.regions.push((file, size));
                Ok(ServerStep::Acknowledge)
            }
            (ServerState::Listening, Message::AddRing(place), Some(file)) => {
                let same = |(other, _): &(RingPlace, OwnedFd)| {
                    (other.from_client, other.index) == (place.from_client, place.index)
                };
                if place.index >= MOST_RINGS || self.offer.rings.iter().any(same) {
                    return Err(MemifError::Order("a ring with the number of another"));
                }
                if place.private_header != 0 {
                    let RingPlace { index, private_header: octets, .. } = place;
                    return Err(MemifError::PrivateHeaders { index, octets });
                }
                self.offer.rings.push((place, file));
                Ok(ServerStep::Acknowledge)
            }
            (ServerState::Listening, Message::Connect { .. }, None) => {
                self.state = ServerState::Connected;
                Ok(ServerStep::Take(std::mem::take(&mut self.offer)))
            }
            (_, Message::Disconnect { reason }, _) => Err(MemifError::Refused(reason)),
            _ => Err(MemifError::Order("not of a client, not now, or not with its file")),
        }
    }

    /// Whether frames may come.
    pub(super) fn is_connected(&self) -> bool {
        self.state == ServerState::Connected
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    const DEMAND: Demand = Demand { to_server: 2, to_client: 1, size_log2: 10, buffer_bytes: 2048 };

    fn file() -> OwnedFd {
        memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap()
    }

    fn places() -> Vec<RingPlace> {
        let place = |from_client, index| RingPlace {
            from_client,
            index,
            region: 0,
            offset: 0,
            size_log2: 10,
            private_header: 0,
        };
        vec![place(true, 0), place(true, 1), place(false, 0)]
    }

    #[test]
    fn the_two_sides_agree() {
        let mut client = ClientConversation::new(7, "downlink", DEMAND);
        let mut server = ServerConversation::default();
        let step = client.receive(ServerConversation::hello()).unwrap();
        assert_eq!(step, ClientStep::Offer(DEMAND));
        let mut message = client.offer(&[4096, 8192], &places());
        let mut attached = Attached::Nothing;
        let offer = loop {
            let sent = (attached != Attached::Nothing).then(file);
            match server.receive(message, sent).unwrap() {
                ServerStep::Find(id) => assert_eq!(id, 7),
                ServerStep::Acknowledge => {}
                ServerStep::Take(offer) => break offer,
            }
            match client.receive(Message::Acknowledge).unwrap() {
                ClientStep::Send(next, file) => (message, attached) = (next, file),
                step => panic!("{step:?}"),
            }
        };
        assert_eq!(offer.regions.iter().map(|(_, size)| *size).collect::<Vec<_>>(), [4096, 8192]);
        assert_eq!(offer.rings.iter().map(|(place, _)| *place).collect::<Vec<_>>(), places());
        assert!(server.is_connected() && !client.is_connected());
        let connected = Message::Connected { name: "uplink".into() };
        assert_eq!(client.receive(connected).unwrap(), ClientStep::Connected);
        assert!(client.is_connected());
        let reason = "the port stops".to_owned();
        assert_eq!(
            client.receive(Message::Disconnect { reason: reason.clone() }).unwrap_err(),
            MemifError::Refused(reason)
        );
    }

    #[test]
    fn a_client_keeps_to_what_the_server_can_do() {
        let greeted = |change: fn(&mut Hello)| {
            let Message::Hello(mut hello) = ServerConversation::hello() else { unreachable!() };
            change(&mut hello);
            ClientConversation::new(0, "port", DEMAND).receive(Message::Hello(hello))
        };
        assert_eq!(greeted(|hello| hello.newest = 0x1ff).unwrap_err(), MemifError::Version(0x1ff));
        let refused = MemifError::Queues { offered: 2, direction: "to the server", queues: 1 };
        assert_eq!(greeted(|hello| hello.last_to_server = 0).unwrap_err(), refused);
        assert!(greeted(|hello| hello.last_to_client = 0).is_ok());
        let smaller = Demand { size_log2: 8, ..DEMAND };
        assert_eq!(greeted(|hello| hello.ring_size_log2 = 8).unwrap(), ClientStep::Offer(smaller));
    }

    #[test]
    fn messages_out_of_turn_are_refused() {
        let order =
            |result: Result<_, MemifError>| matches!(result.map(|_: ()| ()), Err(MemifError::Order(_)));
        let mut client = ClientConversation::new(0, "port", DEMAND);
        assert!(order(client.receive(Message::Acknowledge).map(|_| ())));
        client.receive(ServerConversation::hello()).unwrap();
        client.offer(&[4096], &places());
        assert!(order(client.receive(Message::Connected { name: String::new() }).map(|_| ())), "too early");

        let init = |version, mode| Message::Init { version, id: 1, mode, name: String::new() };
        let region = |index| Message::AddRegion { index, size: 4096 };
        let mut server = ServerConversation::default();
        assert!(order(server.receive(region(0), Some(file())).map(|_| ())), "before its name");
        assert!(order(server.receive(init(VERSION, 0), Some(file())).map(|_| ())), "with a file");
        assert_eq!(server.receive(init(0x300, 0), None).unwrap_err(), MemifError::Version(0x300));
        assert_eq!(server.receive(init(VERSION, 1), None).unwrap_err(), MemifError::Mode(1));
        server.receive(init(VERSION, 0), None).unwrap();
        assert!(order(server.receive(region(0), None).map(|_| ())), "without its file");
        assert!(order(server.receive(region(1), Some(file())).map(|_| ())), "out of turn");
        let private = RingPlace { private_header: 8, ..places()[0] };
        assert_eq!(
            server.receive(Message::AddRing(private), Some(file())).unwrap_err(),
            MemifError::PrivateHeaders { index: 0, octets: 8 }
        );
        server.receive(Message::AddRing(places()[0]), Some(file())).unwrap();
        assert!(order(server.receive(Message::AddRing(places()[0]), Some(file())).map(|_| ())), "twice");
    }
}
