"""A running `sluiced`, judged by scapy: what it answers, what it refuses, what it puts into tunnels.

    cargo build -p sluice-node
    .venv/bin/pytest tests/blackbox/node          (as root)

The node runs in a network namespace of its own; nothing leaves it.
"""

import json
import os
import pathlib
import random
import socket
import subprocess
import time

import pytest
from network import LIMIT, Link, Namespace, is_rightly_summed, solicitation
from scapy.contrib.geneve import GENEVE
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPerror, UDPerror
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6NDOptDstLLAddr,
    ICMPv6PacketTooBig,
    ICMPv6TimeExceeded,
    IPv6,
)
from scapy.layers.l2 import ARP, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from conftest import program

GATEWAY_MAC = "02:50:56:56:44:52"
UPLINK_MAC, NORTH_MAC = "02:00:00:00:ee:00", "02:00:00:00:ee:01"
WEB_1, DB_1 = "02:00:00:00:0a:0b", "02:00:00:00:14:0b"
WEB_2, DB_2 = "02:00:00:00:0a:0c", "02:00:00:00:14:0c"
TEP, TEP_MAC = "172.16.1.20", "02:00:00:00:01:14"
ROUTER, ROUTER_V6, ROUTER_MAC = "198.51.100.1", "2001:db8:0:100::1", "02:00:00:00:ff:01"


class Node:
    def __init__(self, process, path):
        self.process = process
        self._path = path

    def ask(self, request, **fields):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(LIMIT)
            client.connect(str(self._path))
            client.sendall(json.dumps({"request": request, **fields}).encode() + b"\n")
            reply = json.loads(client.makefile().readline())
        assert "answer" in reply, reply
        return next(iter(reply["answer"].values()))

    def drops(self):
        return {drop["reason"]: drop["packets"] for drop in self.ask("get-drops")}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The node and its links, with every neighbour resolved."""
    if os.geteuid() != 0:
        pytest.skip("a network namespace needs root, and this user is not")
    try:
        namespace = Namespace().__enter__()
    except OSError as error:
        pytest.skip(f"this root may not make a network namespace here: {error}")
    folder = tmp_path_factory.mktemp("node")
    process, links = None, {}
    try:
        links = {port: Link(port) for port in ("web-1", "db-1", "fp-eth0", "fp-eth1")}
        links["fp-eth0"].stations = {TEP: TEP_MAC}
        links["fp-eth1"].stations = {ROUTER: ROUTER_MAC, ROUTER_V6: ROUTER_MAC}
        document = pathlib.Path(__file__).with_name("node.yaml")
        with open(folder / "log", "w") as log:
            command = [program("sluiced"), "--config", document, "--socket", folder / "node.sock"]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        node = Node(process, folder / "node.sock")
        wait_until_resolved(node, links, folder / "log")
        yield node, links
        assert process.poll() is None, (folder / "log").read_text()
        process.terminate()
        assert process.wait(timeout=LIMIT) == 0
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        for link in links.values():
            link.close()
        namespace.__exit__()


def wait_until_resolved(node, links, log):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        assert node.process.poll() is None, log.read_text()
        for port in ("fp-eth0", "fp-eth1"):
            links[port].receive(0.01)
        try:
            neighbors = node.ask("get-neighbor")
        except OSError:
            continue
        if len(neighbors) == 3 and all(neighbor["state"] == "reachable" for neighbor in neighbors):
            return
    raise AssertionError(f"the neighbours are not resolved; the log: {log.read_text()}")


@pytest.fixture
def node(lab):
    return lab[0]


@pytest.fixture
def links(lab):
    """The links, with nothing left from the test before."""
    for link in lab[1].values():
        while link.receive(0.001) is not None:
            pass
    return lab[1]


def from_web_1(packet, to=GATEWAY_MAC):
    return Ether(src=WEB_1, dst=to) / packet


def from_north(packet):
    return Ether(src=ROUTER_MAC, dst=NORTH_MAC) / packet


def v4(destination, **fields):
    return IP(src="10.10.10.11", dst=destination, **fields)


def v6(destination, **fields):
    return IPv6(src="2001:db8:10:10::11", dst=destination, **fields)


def assert_from_gateway(frame, source):
    """A packet of the gateway to web-1, rightly summed."""
    assert (frame.src, frame.dst) == (GATEWAY_MAC, WEB_1)
    packet = frame[1]
    assert (packet.src, packet.dst) == (source, "10.10.10.11" if IP in frame else "2001:db8:10:10::11")
    assert is_rightly_summed(packet), packet.show(dump=True)


@pytest.mark.parametrize("gateway", ["10.10.10.1", "10.10.20.1", "100.64.0.1", "100.64.0.0", "198.51.100.2"])
def test_gateways_answer_echo_requests(links, gateway):
    request = v4(gateway) / ICMP(id=7, seq=9) / Raw(b"abcdefg")
    links["web-1"].send(from_web_1(request))
    reply = links["web-1"].expect(lambda frame: ICMP in frame, "an echo reply")
    assert_from_gateway(reply, gateway)
    assert (reply[ICMP].type, reply[ICMP].id, reply[ICMP].seq, reply[Raw].load[:7]) == (0, 7, 9, b"abcdefg")


@pytest.mark.parametrize("gateway", ["2001:db8:10:10::1", "2001:db8:10:20::1", "2001:db8:0:100::2"])
def test_gateways_answer_echo_requests_over_ipv6(links, gateway):
    links["web-1"].send(from_web_1(v6(gateway) / ICMPv6EchoRequest(id=7, seq=9, data=b"abcdefg")))
    reply = links["web-1"].expect(lambda frame: ICMPv6EchoReply in frame, "an echo reply")
    assert_from_gateway(reply, gateway)
    assert (reply[ICMPv6EchoReply].id, reply[ICMPv6EchoReply].seq) == (7, 9)
    assert reply[ICMPv6EchoReply].data == b"abcdefg"


@pytest.mark.parametrize(("address", "mac"), [("10.10.10.1", GATEWAY_MAC), ("10.10.10.12", WEB_2)])
def test_arp_is_answered_here_and_never_sent_into_the_overlay(links, address, mac):
    request = ARP(op=1, hwsrc=WEB_1, psrc="10.10.10.11", pdst=address)
    links["web-1"].send(Ether(src=WEB_1, dst="ff:ff:ff:ff:ff:ff") / request)
    reply = links["web-1"].expect(lambda frame: ARP in frame, "an ARP reply")
    said = reply[ARP]
    assert (reply.dst, said.op, said.psrc, said.hwsrc, said.hwdst) == (WEB_1, 2, address, mac, WEB_1)
    links["fp-eth0"].expect_nothing(lambda frame: UDP in frame, "ARP for a known address in a tunnel")


@pytest.mark.parametrize(("address", "mac"), [("2001:db8:10:10::1", GATEWAY_MAC), ("2001:db8:10:10::12", WEB_2)])
def test_solicitations_are_answered_here_and_never_sent_into_the_overlay(links, address, mac):
    links["web-1"].send(solicitation(WEB_1, "2001:db8:10:10::11", address))
    reply = links["web-1"].expect(lambda frame: ICMPv6ND_NA in frame, "an advertisement")
    said = reply[ICMPv6ND_NA]
    assert (said.tgt, said.S, reply[ICMPv6NDOptDstLLAddr].lladdr) == (address, 1, mac)
    assert (reply[IPv6].hlim, reply[IPv6].dst) == (255, "2001:db8:10:10::11")
    assert is_rightly_summed(reply[IPv6])
    links["fp-eth0"].expect_nothing(lambda frame: UDP in frame, "a solicitation for a known address in a tunnel")


@pytest.mark.parametrize(("destination", "ttl", "source"), [("10.10.20.11", 1, "10.10.10.1"), ("192.0.2.7", 2, "100.64.0.0")])
def test_the_gateway_where_the_time_to_live_ends_says_so(links, destination, ttl, source):
    packet = v4(destination, ttl=ttl, id=4711) / UDP(sport=1000, dport=33434) / Raw(b"0123456789")
    links["web-1"].send(from_web_1(packet))
    error = links["web-1"].expect(lambda frame: ICMP in frame, "time exceeded")
    assert_from_gateway(error, source)
    assert (error[ICMP].type, error[ICMP].code) == (11, 0)
    assert (error[IPerror].id, error[IPerror].dst, error[UDPerror].dport) == (4711, destination, 33434)


def test_the_gateway_where_the_hop_limit_ends_says_so(links):
    links["web-1"].send(from_web_1(v6("2001:db8:10:20::11", hlim=1) / UDP(sport=1000, dport=33434)))
    error = links["web-1"].expect(lambda frame: ICMPv6TimeExceeded in frame, "time exceeded")
    assert_from_gateway(error, "2001:db8:10:10::1")
    assert error[ICMPv6TimeExceeded].code == 0


@pytest.mark.parametrize(("destination", "code"), [("203.0.113.1", 0), ("10.10.20.99", 1)])
def test_what_cannot_be_reached_is_told(links, destination, code):
    links["web-1"].send(from_web_1(v4(destination) / UDP(sport=1000, dport=2000)))
    error = links["web-1"].expect(lambda frame: ICMP in frame, "destination unreachable")
    assert (error[ICMP].type, error[ICMP].code, error[IPerror].dst) == (3, code, destination)
    assert (error.src, error.dst) == (GATEWAY_MAC, WEB_1)
    assert is_rightly_summed(error[IP])


@pytest.mark.parametrize(("destination", "code"), [("2001:db8:dead::1", 0), ("2001:db8:10:20::99", 3)])
def test_what_cannot_be_reached_over_ipv6_is_told(links, destination, code):
    links["web-1"].send(from_web_1(v6(destination) / UDP(sport=1000, dport=2000)))
    error = links["web-1"].expect(lambda frame: ICMPv6DestUnreach in frame, "destination unreachable")
    assert error[ICMPv6DestUnreach].code == code
    assert is_rightly_summed(error[IPv6])


def test_fragmentation_needed_names_the_mtu_of_the_interface(links):
    links["web-1"].send(from_web_1(v4("192.0.2.7", flags="DF") / UDP(sport=1, dport=2) / Raw(bytes(1401 - 28))))
    error = links["web-1"].expect(lambda frame: ICMP in frame, "fragmentation needed")
    assert (error[ICMP].type, error[ICMP].code, error[ICMP].nexthopmtu) == (3, 4, 1400)
    assert is_rightly_summed(error[IP])
    links["web-1"].send(from_web_1(v4("192.0.2.7", flags="DF") / UDP(sport=1, dport=2) / Raw(bytes(1400 - 28))))
    passed = links["fp-eth1"].expect(lambda frame: UDP in frame, "a packet of just the MTU")
    assert (passed[IP].len, passed[IP].ttl, passed.dst) == (1400, 62, ROUTER_MAC)
    assert is_rightly_summed(passed[IP])


def test_packet_too_big_names_the_mtu_of_the_interface(links):
    links["web-1"].send(from_web_1(v6("2001:db8:f::7") / UDP(sport=1, dport=2) / Raw(bytes(1401 - 48))))
    error = links["web-1"].expect(lambda frame: ICMPv6PacketTooBig in frame, "packet too big")
    assert error[ICMPv6PacketTooBig].mtu == 1400
    assert is_rightly_summed(error[IPv6])
    links["web-1"].send(from_web_1(v6("2001:db8:f::7") / UDP(sport=1, dport=2) / Raw(bytes(1400 - 48))))
    passed = links["fp-eth1"].expect(lambda frame: UDP in frame, "a packet of just the MTU")
    assert (passed[IPv6].plen, passed[IPv6].hlim, passed.dst) == (1360, 62, ROUTER_MAC)


def tunnelled(links, packet, kind, to=GATEWAY_MAC):
    """What the underlay sees of a packet of web-1."""
    links["web-1"].send(from_web_1(packet, to))
    outer = links["fp-eth0"].expect(lambda frame: kind in frame, "a tunnel packet")
    assert (outer.src, outer.dst) == (UPLINK_MAC, TEP_MAC)
    assert (outer[IP].src, outer[IP].dst, outer[IP].flags.DF) == ("172.16.1.10", TEP, 1)
    assert outer[UDP].len == outer[IP].len - 20
    assert is_rightly_summed(outer[IP]), "every checksum, outer and inner"
    return outer


def test_geneve_is_as_scapy_reads_it(links):
    packet = v4("10.10.10.12") / TCP(sport=1000, dport=80, flags="S") / Raw(b"on the segment")
    outer = tunnelled(links, packet, GENEVE, to=WEB_2)
    assert (outer[UDP].dport, outer[GENEVE].vni, outer[GENEVE].proto) == (6081, 5001, 0x6558)
    assert (outer[GENEVE].version, outer[GENEVE].optionlen, outer[GENEVE].oam, outer[GENEVE].critical) == (0, 0, 0, 0)
    assert bytes(outer[GENEVE].payload) == bytes(from_web_1(packet, WEB_2)), "untouched on its segment"


def test_vxlan_is_as_scapy_reads_it(links):
    packet = v4("10.10.20.12", ttl=64) / UDP(sport=1000, dport=2000) / Raw(b"routed to another segment")
    outer = tunnelled(links, packet, VXLAN)
    assert (outer[UDP].dport, outer[VXLAN].vni, outer[VXLAN].flags) == (4789, 5002, 8)
    inner = outer[VXLAN].payload
    assert (inner.src, inner.dst, inner[IP].ttl) == (GATEWAY_MAC, DB_2, 63)
    assert inner[UDP].payload == packet[UDP].payload


def test_ipv6_within_geneve(links):
    packet = v6("2001:db8:10:10::12") / UDP(sport=1000, dport=2000) / Raw(b"six")
    outer = tunnelled(links, packet, GENEVE, to=WEB_2)
    assert bytes(outer[GENEVE].payload) == bytes(from_web_1(packet, WEB_2))


def test_the_source_port_of_a_tunnel_spreads_flows_and_keeps_each_together(links):
    ports = {}
    for flow in range(32):
        packet = v4("10.10.10.12") / UDP(sport=2000 + flow, dport=53) / Raw(b"flow")
        seen = {tunnelled(links, packet, GENEVE, to=WEB_2)[UDP].sport for _ in range(2)}
        assert len(seen) == 1, f"flow {flow} is spread over {seen}"
        ports[flow] = seen.pop()
    assert min(ports.values()) >= 49152, "dynamic ports (RFC 7348 section 5)"
    assert len(set(ports.values())) >= 24, f"32 flows share {len(set(ports.values()))} ports"


def test_tunnel_packets_that_scapy_makes_are_delivered(links):
    inner = Ether(src=WEB_2, dst=WEB_1) / IP(src="10.10.10.12", dst="10.10.10.11") / UDP(sport=1, dport=2) / Raw(b"geneve")
    outer = Ether(src=TEP_MAC, dst=UPLINK_MAC) / IP(src=TEP, dst="172.16.1.10") / UDP(sport=50000, dport=6081)
    links["fp-eth0"].send(outer / GENEVE(vni=5001, proto=0x6558) / inner)
    assert bytes(links["web-1"].expect(lambda frame: UDP in frame, "the inner frame")) == bytes(inner)
    inner = Ether(src=DB_2, dst=DB_1) / IP(src="10.10.20.12", dst="10.10.20.11") / UDP(sport=1, dport=2) / Raw(b"vxlan!!")
    outer[UDP].dport = 4789
    links["fp-eth0"].send(outer / VXLAN(vni=5002) / inner)
    assert bytes(links["db-1"].expect(lambda frame: UDP in frame, "the inner frame")) == bytes(inner)


def good_frames():
    inner = Ether(src=WEB_2, dst=WEB_1) / IP(src="10.10.10.12", dst="10.10.10.11") / UDP(sport=1, dport=2) / Raw(b"x" * 40)
    outer = Ether(src=TEP_MAC, dst=UPLINK_MAC) / IP(src=TEP, dst="172.16.1.10")
    return [
        ("web-1", from_web_1(v4("10.10.20.12") / UDP(sport=1, dport=2) / Raw(b"x" * 40))),
        ("web-1", from_web_1(v6("2001:db8:f::7") / TCP(sport=1, dport=2))),
        ("web-1", solicitation(WEB_1, "2001:db8:10:10::11", "2001:db8:10:10::12")),
        ("web-1", Ether(src=WEB_1, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=WEB_1, psrc="10.10.10.11", pdst="10.10.10.1")),
        ("fp-eth0", outer / UDP(sport=50000, dport=6081) / GENEVE(vni=5001, proto=0x6558) / inner),
        ("fp-eth0", outer / UDP(sport=50000, dport=4789) / VXLAN(vni=5002) / inner),
        ("fp-eth1", from_north(IP(src="192.0.2.7", dst="10.10.10.12") / ICMP())),
    ]


def test_cut_and_mutated_frames_leave_the_node_alive(links, node):
    rng = random.Random("sluice mutations")
    before = node.drops()
    for port, frame in good_frames():
        good = bytes(frame)
        for length in range(14, len(good)):
            links[port].send(good[:length])
        for _ in range(300):
            bad = bytearray(good)
            for _ in range(rng.randint(1, 4)):
                # Addresses stay, so that the frame is looked into.
                bad[rng.randrange(12, len(bad))] = rng.randrange(256)
            links[port].send(bad)
        links[port].receive(0.001)
    after = node.drops()
    reasons = {reason for reason, packets in after.items() if packets > before.get(reason, 0)}
    assert {"truncated", "malformed", "bad-checksum"} <= reasons, reasons
    for link in links.values():
        while link.receive(0.01) is not None:
            pass
    test_gateways_answer_echo_requests(links, "10.10.10.1")
    test_geneve_is_as_scapy_reads_it(links)
