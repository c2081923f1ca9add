"""A network namespace with a running `sluiced` in it, and the far ends of its ports."""

import ctypes
import os
import select
import socket
import subprocess
import time

from scapy.layers.inet import IPerror
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPerror6, IPv6
from scapy.layers.l2 import ARP, Ether

CLONE_NEWNET = 0x4000_0000
ETH_P_ALL = 3
# How long an event may take before a test fails: far more than it needs on a busy machine.
LIMIT = 15
# How long nothing must come where nothing may come.
QUIET = 0.2


def _call(function, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{function}: {os.strerror(error)}")


def ip(arguments):
    subprocess.run(["ip", *arguments.split()], check=True)


class Namespace:
    """A new network namespace that this thread, and what it starts, is in until it leaves."""

    def __enter__(self):
        self._before = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            _call("unshare", CLONE_NEWNET)
        except OSError:
            os.close(self._before)
            raise
        return self

    def __exit__(self, *_):
        _call("setns", self._before, CLONE_NEWNET)
        os.close(self._before)


class Link:
    """The far end of a port of the node: a raw socket, and the stations that answer ARP and neighbour solicitations there."""

    def __init__(self, port):
        peer = f"{port}-peer"
        ip(f"link add {port} mtu 9000 type veth peer name {peer} mtu 9000")
        for interface in (port, peer):
            # Nothing that the kernel would send by itself.
            ip(f"link set {interface} addrgenmode none")
            ip(f"link set {interface} up")
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.bind((peer, 0))
        self.stations = {}

    def close(self):
        self._socket.close()

    def send(self, frame):
        self._socket.send(bytes(frame))

    def receive(self, limit):
        """The next frame within `limit` seconds; requests for the stations are answered and not returned."""
        end = time.monotonic() + limit
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._socket], [], [], left)[0]:
                return None
            frame = Ether(self._socket.recv(65536))
            if not self._answer(frame):
                return frame
        return None

    def expect(self, wanted, what):
        """The first frame that `wanted` says yes to; others are left out."""
        end, others = time.monotonic() + LIMIT, []
        while (left := end - time.monotonic()) > 0:
            frame = self.receive(left)
            if frame is None:
                break
            if wanted(frame):
                return frame
            others.append(frame.summary())
        raise AssertionError(f"waited {LIMIT} s for {what}; came: {others}")

    def expect_nothing(self, wanted, what):
        while (frame := self.receive(QUIET)) is not None:
            assert not wanted(frame), f"{what}: {frame.summary()}"

    def _answer(self, frame):
        if ARP in frame and frame[ARP].op == 1 and frame[ARP].pdst in self.stations:
            mac = self.stations[frame[ARP].pdst]
            request = frame[ARP]
            reply = ARP(op=2, hwsrc=mac, psrc=request.pdst, hwdst=request.hwsrc, pdst=request.psrc)
            self.send(Ether(src=mac, dst=request.hwsrc) / reply)
            return True
        if ICMPv6ND_NS in frame and frame[ICMPv6ND_NS].tgt in self.stations and frame[IPv6].src != "::":
            target = frame[ICMPv6ND_NS].tgt
            mac = self.stations[target]
            reply = IPv6(src=target, dst=frame[IPv6].src, hlim=255) / ICMPv6ND_NA(tgt=target, R=0, S=1, O=1)
            self.send(Ether(src=mac, dst=frame.src) / reply / ICMPv6NDOptDstLLAddr(lladdr=mac))
            return True
        return False


def solicitation(mac, source, target):
    """A neighbour solicitation as a host sends it: to the solicited-node multicast group of the target."""
    last = socket.inet_pton(socket.AF_INET6, target)[-3:]
    group = socket.inet_ntop(socket.AF_INET6, bytes.fromhex("ff0200000000000000000001ff") + last)
    ethernet = Ether(src=mac, dst="33:33:ff:%02x:%02x:%02x" % tuple(last))
    message = ICMPv6ND_NS(tgt=target) / ICMPv6NDOptSrcLLAddr(lladdr=mac)
    return ethernet / IPv6(src=source, dst=group, hlim=255) / message


def is_rightly_summed(packet):
    """Whether every checksum of an IP packet is the one that scapy computes; not those of a packet that an ICMP error quotes."""
    fresh = packet.__class__(bytes(packet))
    layer = fresh
    while layer and not isinstance(layer, (IPerror, IPerror6)):
        for field in ("chksum", "cksum"):
            # A UDP checksum of zero over IPv4 says that there is none (RFC 768).
            if field in layer.fields and not (layer.name == "UDP" and layer.fields[field] == 0):
                delattr(layer, field)
        layer = layer.payload
    return bytes(fresh) == bytes(packet)
