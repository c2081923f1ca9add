//! A network namespace for one test, and raw sockets on interfaces of it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// Set in the process that runs a test as the root of a user namespace.
const INSIDE: &str = "SLUICE_TEST_IN_USER_NAMESPACE";

/// Runs the test `name` in a network namespace of this thread and the processes that it starts; as an ordinary user, in
/// another process that is the root of a user namespace. Where neither is allowed the test says so and ends.
pub(crate) fn in_network(name: &str, test: impl FnOnce()) {
    if unshare(CloneFlags::CLONE_NEWNET).is_ok() {
        return test();
    }
    assert!(std::env::var_os(INSIDE).is_none(), "no network namespace for the root of a user namespace");
    if !Command::new("unshare").args(["-Urn", "true"]).output().is_ok_and(|output| output.status.success()) {
        println!("{name}: SKIPPED, since this user may make neither network nor user namespaces here");
        return;
    }
    let mut again = Command::new("unshare");
    again.arg("-Urn").arg(std::env::current_exe().unwrap());
    let output = again.args([name, "--exact", "--nocapture"]).env(INSIDE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{complaint}");
}

/// Runs `ip` in the test's namespace.
pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2 is installed");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A raw socket on one end of a pair of interfaces.
pub(crate) struct Link(OwnedFd);

impl Link {
    /// Makes the pair `peer`, `own`, with a socket on `own`.
    pub(crate) fn new(peer: &str, own: &str) -> Self {
        ip(&format!("link add {peer} type veth peer name {own}"));
        for interface in [peer, own] {
            ip(&format!("link set {interface} addrgenmode none"));
            ip(&format!("link set {interface} up"));
        }
        let family = AddressFamily::Packet;
        let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll).unwrap();
        let mut interfaces = getifaddrs().unwrap().filter(|interface| interface.interface_name == own);
        let address = interfaces.find_map(|interface| interface.address?.as_link_addr().copied()).unwrap();
        bind(socket.as_raw_fd(), &address).unwrap();
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::milliseconds(5)).unwrap();
        Self(socket)
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        assert_eq!(send(self.0.as_raw_fd(), frame, MsgFlags::empty()), Ok(frame.len()));
    }

    /// The next frame, if one comes within 5 ms.
    pub(crate) fn receive(&self) -> Option<Vec<u8>> {
        let mut buffer = [0; 2048];
        match recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Ok(length) => Some(buffer[..length].to_vec()),
            Err(Errno::EAGAIN | Errno::EINTR) => None,
            Err(error) => panic!("receiving: {error}"),
        }
    }
}
