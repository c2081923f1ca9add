"""The packet formats, with scapy as the judge.

Three directions, over the same random frames:

- scapy builds a frame: our parsers must find the same fields in it, layer by layer;
- our emitters build it again from those fields: the frame must be the same, octet by octet;
- our emitters build a frame of fields that scapy had no part in: scapy must find those fields, and agree with every length
  and checksum that we filled in.
"""

import functools
import random

import frames
import judge
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

# Frames of each kind. Enough that every branch of the generators is taken many times, in a second or so.
COUNT = 100

KINDS = {
    "arp": lambda rng: frames.ethernet(rng) / frames.arp(rng),
    "ipv4_udp": lambda rng: frames.ethernet(rng) / frames.ipv4(rng) / frames.udp(rng),
    "ipv4_tcp": lambda rng: frames.ethernet(rng) / frames.ipv4(rng) / frames.tcp(rng),
    "ipv4_icmp": lambda rng: frames.ethernet(rng) / frames.ipv4(rng) / frames.icmpv4(rng),
    "ipv4_fragment": lambda rng: frames.ethernet(rng) / frames.ipv4_fragment(rng),
    "ipv6_udp": lambda rng: frames.ethernet(rng) / frames.ipv6(rng) / frames.udp(rng),
    "ipv6_tcp": lambda rng: frames.ethernet(rng) / frames.ipv6(rng) / frames.tcp(rng),
    "ipv6_icmp": lambda rng: frames.ethernet(rng) / frames.ipv6(rng) / frames.icmpv6(rng),
    "ipv6_neighbor": lambda rng: frames.ethernet(rng) / frames.ipv6(rng) / frames.neighbor(rng),
    "ipv6_extensions": lambda rng: frames.ethernet(rng) / frames.ipv6_extended(rng),
    "ipv6_authenticated": lambda rng: frames.ethernet(rng) / frames.ipv6_authenticated(rng),
    "ipv6_fragment": lambda rng: frames.ethernet(rng) / frames.ipv6_fragment(rng),
    "geneve": frames.geneve,
    "vxlan": frames.vxlan,
    "ipv4_bfd": lambda rng: frames.ethernet(rng) / frames.ipv4(rng) / frames.bfd(rng),
    "ipv6_bfd": lambda rng: frames.ethernet(rng) / frames.ipv6(rng) / frames.bfd(rng),
    "lacp": frames.lacp,
    "marker": frames.marker,
}


@functools.cache
def random_frames(kind):
    rng = random.Random(f"sluice {kind}")
    return [bytes(KINDS[kind](rng)) for _ in range(COUNT)]


def assert_same_layers(ours, theirs, frame):
    """Our layers are those of the judge; fields that only we show are left aside."""
    context = frame.hex()
    assert "error" not in ours, f"{ours['error']} in {context}"
    assert [layer["layer"] for layer in ours["layers"]] == [layer["layer"] for layer in theirs], context
    for our, their in zip(ours["layers"], theirs):
        assert {field: our.get(field) for field in their} == their, context


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_scapy_are_read_as_scapy_reads_them(wire, kind):
    for frame in random_frames(kind):
        assert_same_layers(wire.read(frame), judge.layers(frame), frame)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_read_builds_the_same_frame(wire, kind):
    compared = 0
    for frame in random_frames(kind):
        ours = wire.read(frame)
        assert "error" not in ours, frame.hex()
        # Behind a routing header our builder sums over the IPv6 destination, as its documentation says.
        if any(header["protocol"] == 43 for layer in ours["layers"] for header in layer.get("extension_headers", [])):
            continue
        assert wire.build(ours["layers"]).hex() == frame.hex()
        compared += 1
    assert compared > COUNT // 2


@pytest.mark.parametrize("kind", KINDS)
def test_padding_of_short_frames_is_left_out(wire, kind):
    for frame in random_frames(kind)[:30]:
        padded = frame + bytes(18)
        ours = wire.read(padded)
        assert ours["layers"] == wire.read(frame)["layers"], padded.hex()


@pytest.mark.parametrize("kind", ["ipv4_udp", "ipv4_tcp", "ipv4_icmp", "ipv6_udp", "ipv6_tcp", "ipv6_icmp", "ipv6_neighbor", "ipv4_bfd", "ipv6_bfd"])
def test_a_flipped_bit_is_seen_by_both(wire, kind):
    rng = random.Random(f"flip {kind}")
    for frame in random_frames(kind):
        ours = wire.read(frame)
        assert ours["layers"][-1].get("checksum_ok", True) and ours["layers"][2]["checksum_ok"], frame.hex()
        # The last octet belongs to the innermost checksum and to no length.
        damaged = bytearray(frame)
        damaged[-1] ^= 1 << rng.randrange(8)
        ours, theirs = wire.read(damaged), judge.layers(damaged)
        assert ours["layers"][2]["checksum_ok"] is False, damaged.hex()
        assert theirs[2]["checksum_ok"] is False, damaged.hex()


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_frames_are_refused_or_shorter(wire, kind):
    rng = random.Random(f"cut {kind}")
    for frame in random_frames(kind)[:60]:
        whole = wire.read(frame)["layers"]
        cut = wire.read(frame[: rng.randrange(len(frame))])
        # IP says how long a packet is, and ARP and the slow protocols have one length, so a missing end never goes unnoticed.
        assert "error" in cut, frame.hex()
        assert len(cut["layers"]) < len(whole), frame.hex()


def ethernet(rng):
    tag_types = rng.choice([[], [0x8100], [0x88A8, 0x8100]])
    tags = [
        {"ether_type": tag, "priority": rng.randrange(8), "drop_eligible": rng.random() < 0.5, "id": rng.randrange(4095)}
        for tag in tag_types
    ]
    return {"layer": "ethernet", "source": frames.mac(rng), "destination": frames.mac(rng), "tags": tags}


def ipv4(rng, protocol):
    return {
        "layer": "ipv4",
        "source": frames.address4(rng),
        "destination": frames.address4(rng),
        "protocol": protocol,
        "ttl": rng.randrange(256),
        "dscp": rng.randrange(64),
        "ecn": rng.randrange(4),
        "identification": rng.randrange(1 << 16),
        "reserved_flag": False,
        "dont_fragment": rng.random() < 0.5,
        "more_fragments": False,
        "fragment_offset": 0,
        # Router alert, then padding up to whole words.
        "options": rng.choice(["", "94040000", "01010100", "9404000001010101"]),
    }


def ipv6(rng, protocol):
    extensions = [
        {"protocol": 0, "body": "050200000100"},
        {"protocol": 60, "body": "010c" + "00" * 12},
        {"protocol": 44, "body": "00000000beef"},
    ]
    return {
        "layer": "ipv6",
        "source": frames.address6(rng),
        "destination": frames.address6(rng),
        "next_header": protocol,
        "hop_limit": rng.randrange(256),
        "dscp": rng.randrange(64),
        "ecn": rng.randrange(4),
        "flow_label": rng.randrange(1 << 20),
        "extension_headers": [header for header in extensions if rng.random() < 0.3],
    }


def udp(rng, destination_port=None):
    destination_port = destination_port or frames.port(rng)
    return {"layer": "udp", "source_port": frames.port(rng), "destination_port": destination_port}


def tcp(rng):
    return {
        "layer": "tcp",
        "source_port": frames.port(rng),
        "destination_port": frames.port(rng),
        "sequence": rng.randrange(1 << 32),
        "acknowledgment": rng.randrange(1 << 32),
        "flags": rng.randrange(512),
        "window": rng.randrange(1 << 16),
        "urgent_pointer": rng.randrange(1 << 16),
        "options": rng.choice(["", "020405b4", "0101080a0000000100000002", "020405b40402080a000000090000000001030307"]),
    }


def payload(rng):
    return {"layer": "payload", "data": rng.randbytes(rng.randrange(1, 90)).hex()}


def bfd(rng):
    state = rng.randrange(4)
    numbers = ["desired_min_tx", "required_min_rx", "required_min_echo_rx"]
    return {
        "layer": "bfd",
        "state": state,
        "diagnostic": rng.randrange(32),
        **{flag: rng.random() < 0.5 for flag in ("poll", "final", "control_plane_independent", "demand")},
        "detect_multiplier": rng.randrange(1, 256),
        "my_discriminator": rng.randrange(1, 1 << 32),
        "your_discriminator": rng.randrange(0 if state < 2 else 1, 1 << 32),
        **{number: rng.randrange(1 << 32) for number in numbers},
    }


def slow_protocol(rng):
    """The layers of an LACPDU or a Marker PDU."""
    header = {"layer": "ethernet", "source": frames.mac(rng), "destination": "01:80:c2:00:00:02", "tags": []}
    if rng.random() < 0.5:
        names = ["system_priority", "key", "port_priority", "port"]
        actor, partner = (
            {**{name: rng.randrange(1 << 16) for name in names}, "system": frames.mac(rng), "state": rng.randrange(256)}
            for _ in range(2)
        )
        delay = rng.randrange(1 << 16)
        return [header, {"layer": "lacp", "actor": actor, "partner": partner, "collector_max_delay": delay}]
    marker = {
        "layer": "marker",
        "response": rng.random() < 0.5,
        "requester_port": rng.randrange(1 << 16),
        "requester_system": frames.mac(rng),
        "requester_transaction": rng.randrange(1 << 32),
    }
    return [header, marker]


def packet(rng):
    """Layers from IP on, that scapy had no part in."""
    version4 = rng.random() < 0.5
    ip = ipv4 if version4 else ipv6
    choice = rng.randrange(4)
    if choice == 3:
        return [ip(rng, 17), udp(rng, 3784), bfd(rng)]
    if choice == 0:
        return [ip(rng, 17), udp(rng), payload(rng)]
    if choice == 1:
        return [ip(rng, 6), tcp(rng), payload(rng)]
    echo = {"kind": 8 if version4 else 128, "code": 0, "rest": rng.randbytes(4).hex()}
    return [ip(rng, 1 if version4 else 58), {"layer": "icmpv4" if version4 else "icmpv6", **echo}, payload(rng)]


def geneve(rng):
    options = [
        {"class": rng.randrange(1 << 16), "kind": rng.randrange(256), "data": rng.randbytes(4 * rng.randrange(4)).hex()}
        for _ in range(rng.randrange(4))
    ]
    return {"layer": "geneve", "vni": rng.randrange(1 << 24), "protocol": 0x6558, "control": False, "options": options}


def built_layers(rng):
    """The layers of a frame: plain, or in a tunnel."""
    tunnel = rng.choice([None, "geneve", "vxlan"])
    if tunnel is None and rng.random() < 0.3:
        return slow_protocol(rng)
    inner = [ethernet(rng), *packet(rng)]
    if tunnel is None:
        return inner
    ip = rng.choice([ipv4, ipv6])(rng, 17)
    if tunnel == "geneve":
        return [ethernet(rng), ip, udp(rng, 6081), geneve(rng), *inner]
    return [ethernet(rng), ip, udp(rng, 4789), {"layer": "vxlan", "vni": rng.randrange(1 << 24)}, *inner]


def without_derived(extension):
    return {"protocol": extension["protocol"], "body": extension["body"]}


def assert_scapy_finds(wanted, frame):
    found = judge.layers(frame)
    context = frame.hex()
    assert [layer["layer"] for layer in found] == [layer["layer"] for layer in wanted], context
    for want, have in zip(wanted, found):
        have = dict(have)
        if "extension_headers" in want:
            have["extension_headers"] = [without_derived(header) for header in have["extension_headers"]]
        if want["layer"] == "geneve":
            critical = any(option["kind"] & 0x80 for option in want["options"])
            assert have["critical"] is critical, context
            have["options"] = [{key: option[key] for key in ("class", "kind", "data")} for option in have["options"]]
        assert {field: have[field] for field in want} == want, context
        assert have.get("checksum_ok", True) is True, f"{have} in {context}"


@pytest.mark.parametrize("seed", range(4))
def test_frames_of_ours_are_what_scapy_finds(wire, seed):
    rng = random.Random(f"built {seed}")
    for _ in range(COUNT):
        wanted = built_layers(rng)
        assert_scapy_finds(wanted, wire.build(wanted))


@pytest.mark.parametrize("seed", range(4))
def test_scapy_fills_in_the_lengths_and_checksums_that_we_did(wire, seed):
    rng = random.Random(f"derived {seed}")
    for _ in range(COUNT):
        frame = wire.build(built_layers(rng))
        again = Ether(frame)
        layer = again
        while layer:
            for derived in ("len", "plen", "chksum", "cksum", "ihl", "dataofs", "optionlen"):
                if derived in layer.fields:
                    delattr(layer, derived)
            layer = layer.payload
        assert bytes(again).hex() == frame.hex()


def test_udp_checksum_of_zero_is_sent_as_ffff(wire):
    # The payload is chosen so that everything else needs a sum of ffff.
    layers = [
        {"layer": "ethernet", "source": "02:00:00:00:00:01", "destination": "02:00:00:00:00:02", "tags": []},
        {**ipv4(random.Random(1), 17), "source": "10.0.0.1", "destination": "10.0.0.2", "options": ""},
        {"layer": "udp", "source_port": 50_000, "destination_port": 50_001},
        {"layer": "payload", "data": "0000"},
    ]
    missing = Ether(wire.build(layers))[UDP].chksum
    layers[-1]["data"] = f"{missing:04x}"
    frame = wire.build(layers)
    assert Ether(frame)[UDP].chksum == 0xFFFF
    rebuilt = IP(frame[14:])
    del rebuilt[UDP].chksum
    assert bytes(rebuilt) == frame[14:]
    assert wire.read(frame)["layers"][2]["checksum_ok"] is True


def test_vlan_4095_and_other_reserved_values_are_refused(wire):
    frame = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", type=0x8100)
    answer = wire.read(bytes(frame) + bytes.fromhex("0fff0800"))
    assert answer["error"]["layer"] == "VLAN"
    assert wire.read(b"\x01\x02")["error"]["layer"] == "Ethernet"
