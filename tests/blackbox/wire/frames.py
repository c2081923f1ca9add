"""Random frames that scapy builds: every format of the crate, with everything variable in it varied.

Each function takes a `random.Random` and returns a scapy packet or a part of one. Ports are chosen above those that scapy
takes for an application, so that what follows a transport header is payload for both sides.
"""

import ipaddress

from scapy.contrib.bfd import BFD
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.contrib.lacp import LACP, MarkerProtocol
from scapy.contrib.slowprot import SlowProtocol
from scapy.layers.inet import (
    ICMP,
    IP,
    IPOption,
    IPOption_NOP,
    IPOption_Router_Alert,
    IPOption_RR,
    TCP,
    UDP,
)
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RA,
    ICMPv6ND_RS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptMTU,
    ICMPv6NDOptPrefixInfo,
    ICMPv6NDOptSrcLLAddr,
    ICMPv6NDOptUnknown,
    ICMPv6PacketTooBig,
    ICMPv6ParamProblem,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    PadN,
    RouterAlert,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw


def mac(rng):
    return ":".join(f"{octet:02x}" for octet in [rng.randrange(256) & 0xFE, *rng.randbytes(5)])


def address4(rng):
    return str(ipaddress.IPv4Address(rng.randrange(1 << 32)))


def address6(rng):
    # Two zero words in a row now and then, so that the text forms are compared in their short form too.
    words = [rng.choice([0, 0, rng.randrange(1 << 16)]) for _ in range(7)]
    return str(ipaddress.IPv6Address(b"".join(word.to_bytes(2, "big") for word in [0x2001, *words])))


def port(rng):
    return rng.randrange(50_000, 60_000)


def data(rng, most=64):
    octets = rng.randbytes(rng.randrange(most))
    return Raw(octets) if octets else None


def stacked(packet, *parts):
    """`packet` with `parts` behind it; absent ones are left out."""
    for part in parts:
        if part is not None:
            packet = packet / part
    return packet


def ethernet(rng):
    """An Ethernet header with no tag, an 802.1Q tag, or QinQ."""
    frame = Ether(src=mac(rng), dst=mac(rng))

    def fields():
        return {"prio": rng.randrange(8), "dei": rng.randrange(2), "vlan": rng.randrange(4095)}

    tags = rng.randrange(3)
    if tags == 1:
        frame = frame / Dot1Q(**fields())
    if tags == 2:
        frame = frame / rng.choice([Dot1AD, Dot1Q])(**fields()) / Dot1Q(**fields())
    return frame


def arp(rng):
    return ARP(op=rng.randrange(1, 4), hwsrc=mac(rng), hwdst=mac(rng), psrc=address4(rng), pdst=address4(rng))


def ipv4_options(rng):
    # No source routes: the transport checksum is then over the route's end, which our parsers do not look for. Edges drop
    # such packets (RFC 7126 §4.3).
    choices = [
        lambda: IPOption_NOP(),
        lambda: IPOption_Router_Alert(),
        lambda: IPOption_RR(pointer=4, routers=[address4(rng) for _ in range(rng.randrange(1, 4))]),
        lambda: IPOption(copy_flag=1, optclass=2, option=30, value=rng.randbytes(rng.randrange(5))),
    ]
    return [rng.choice(choices)() for _ in range(rng.randrange(3))]


def ipv4(rng, **fields):
    return IP(
        src=address4(rng),
        dst=address4(rng),
        tos=rng.randrange(256),
        id=rng.randrange(1 << 16),
        ttl=rng.randrange(256),
        options=ipv4_options(rng),
        **{"flags": rng.choice([0, 2]), **fields},
    )


def ipv4_fragment(rng):
    """A part of a packet: the first, one in the middle, or the last."""
    more, offset = rng.choice([(1, 0), (1, rng.randrange(1, 8192)), (0, rng.randrange(1, 8192))])
    header = ipv4(rng, flags=more | rng.choice([0, 4]), frag=offset, proto=rng.choice([1, 6, 17, 50]))
    return header / Raw(rng.randbytes(8 * rng.randrange(1, 8)))


def ipv6(rng):
    return IPv6(
        src=address6(rng),
        dst=address6(rng),
        tc=rng.randrange(256),
        fl=rng.randrange(1 << 20),
        hlim=rng.randrange(256),
    )


def options6(rng):
    """Options of a hop-by-hop or destination options header."""
    return [rng.choice([RouterAlert(), PadN(optdata=bytes(rng.randrange(12)))]) for _ in range(rng.randrange(3))]


def extensions(rng):
    """Extension headers in an order that RFC 8200 §4.1 recommends, each of them there or not."""
    found = []
    if rng.random() < 0.4:
        found.append(IPv6ExtHdrHopByHop(options=options6(rng)))
    if rng.random() < 0.4:
        found.append(IPv6ExtHdrDestOpt(options=options6(rng)))
    if rng.random() < 0.3:
        found.append(IPv6ExtHdrRouting(addresses=[address6(rng) for _ in range(rng.randrange(3))], segleft=0))
    if rng.random() < 0.3:
        found.append(IPv6ExtHdrFragment(offset=0, m=0, id=rng.randrange(1 << 32)))
    return found


def ipv6_extended(rng):
    """A packet with extension headers and a transport header behind them."""
    return stacked(ipv6(rng), *extensions(rng), rng.choice([udp, tcp])(rng))


def ipv6_authenticated(rng):
    """A packet with an AH. Scapy finds AH right behind the IPv6 header only, and sums no transport checksum behind it."""
    # AH is a multiple of 8 octets in IPv6 (RFC 4302 §3.3.3.2.1); its length counts words less 2.
    icv = rng.randbytes(rng.choice([12, 20]))
    fields = {"spi": rng.randrange(1 << 32), "seq": rng.randrange(1 << 32), "icv": icv}
    return ipv6(rng) / AH(nh=253, payloadlen=len(icv) // 4 + 1, **fields) / Raw(rng.randbytes(20))


def ipv6_fragment(rng):
    """A part of a packet behind a hop-by-hop header or none."""
    more, offset = rng.choice([(1, 0), (1, rng.randrange(1, 8192)), (0, rng.randrange(1, 8192))])
    before = IPv6ExtHdrHopByHop(options=options6(rng)) if rng.random() < 0.5 else None
    fragment = IPv6ExtHdrFragment(offset=offset, m=more, id=rng.randrange(1 << 32), nh=rng.choice([6, 17, 58]))
    return stacked(ipv6(rng), before, fragment, Raw(rng.randbytes(8 * rng.randrange(1, 8))))


def udp(rng):
    return stacked(UDP(sport=port(rng), dport=port(rng)), data(rng))


def tcp(rng):
    choices = [
        lambda: ("NOP", None),
        lambda: ("MSS", rng.randrange(1 << 16)),
        lambda: ("WScale", rng.randrange(15)),
        lambda: ("SAckOK", b""),
        lambda: ("SAck", tuple(rng.randrange(1 << 32) for _ in range(2))),
        lambda: ("Timestamp", (rng.randrange(1 << 32), rng.randrange(1 << 32))),
        lambda: (254, rng.randbytes(4)),
    ]
    header = TCP(
        sport=port(rng),
        dport=port(rng),
        seq=rng.randrange(1 << 32),
        ack=rng.randrange(1 << 32),
        flags=rng.randrange(512),
        window=rng.randrange(1 << 16),
        urgptr=rng.randrange(1 << 16),
        options=[rng.choice(choices)() for _ in range(rng.randrange(4))],
    )
    return stacked(header, data(rng))


def icmpv4(rng):
    kind = rng.choice([0, 3, 5, 8, 11, 12, 13])
    fields = {
        0: {"id": rng.randrange(1 << 16), "seq": rng.randrange(1 << 16)},
        3: {"code": rng.randrange(14), "nexthopmtu": rng.randrange(1 << 16)},
        5: {"code": rng.randrange(2), "gw": address4(rng)},
        8: {"id": rng.randrange(1 << 16), "seq": rng.randrange(1 << 16)},
        11: {"code": rng.randrange(2)},
        12: {"ptr": rng.randrange(256)},
        13: {"id": rng.randrange(1 << 16), "seq": rng.randrange(1 << 16)},
    }[kind]
    if kind in (3, 5, 11, 12):
        quoted = IP(bytes(ipv4(rng) / udp(rng)))
        return ICMP(type=kind, **fields) / Raw(bytes(quoted)[:quoted.ihl * 4 + 8])
    return stacked(ICMP(type=kind, **fields), data(rng) if kind != 13 else None)


def icmpv6(rng):
    quoted = bytes(ipv6(rng) / udp(rng))[:48]
    choices = [
        lambda: ICMPv6DestUnreach(code=rng.randrange(7)) / Raw(quoted),
        lambda: ICMPv6PacketTooBig(mtu=rng.randrange(1280, 1 << 32)) / Raw(quoted),
        lambda: ICMPv6TimeExceeded(code=rng.randrange(2)) / Raw(quoted),
        lambda: ICMPv6ParamProblem(code=rng.randrange(3), ptr=rng.randrange(1 << 32)) / Raw(quoted),
        lambda: ICMPv6EchoRequest(id=rng.randrange(1 << 16), seq=rng.randrange(1 << 16), data=rng.randbytes(20)),
        lambda: ICMPv6EchoReply(id=rng.randrange(1 << 16), seq=rng.randrange(1 << 16), data=rng.randbytes(21)),
    ]
    return rng.choice(choices)()


def neighbor(rng):
    messages = [
        lambda: ICMPv6ND_RS(),
        lambda: ICMPv6ND_RA(
            chlim=rng.randrange(256),
            M=rng.randrange(2),
            O=rng.randrange(2),
            prf=0,
            routerlifetime=rng.randrange(1 << 16),
            reachabletime=rng.randrange(1 << 32),
            retranstimer=rng.randrange(1 << 32),
        ),
        lambda: ICMPv6ND_NS(tgt=address6(rng)),
        lambda: ICMPv6ND_NA(R=rng.randrange(2), S=rng.randrange(2), O=rng.randrange(2), tgt=address6(rng)),
    ]
    options = [
        lambda: ICMPv6NDOptSrcLLAddr(lladdr=mac(rng)),
        lambda: ICMPv6NDOptDstLLAddr(lladdr=mac(rng)),
        lambda: ICMPv6NDOptMTU(mtu=rng.randrange(1 << 32)),
        lambda: ICMPv6NDOptPrefixInfo(
            prefix=address6(rng),
            prefixlen=rng.randrange(129),
            L=rng.randrange(2),
            A=rng.randrange(2),
            validlifetime=rng.randrange(1 << 32),
            preferredlifetime=rng.randrange(1 << 32),
        ),
        lambda: ICMPv6NDOptUnknown(type=253, data=rng.randbytes(rng.choice([6, 14]))),
    ]
    return stacked(rng.choice(messages)(), *(rng.choice(options)() for _ in range(rng.randrange(4))))


def transport4(rng):
    return rng.choice([udp, tcp, icmpv4])(rng)


def transport6(rng):
    return rng.choice([udp, tcp, icmpv6, neighbor])(rng)


def inner(rng):
    """What a tunnel carries: a whole frame of another kind each time."""
    choices = [
        lambda: arp(rng),
        lambda: ipv4(rng) / transport4(rng),
        lambda: ipv6(rng) / transport6(rng),
    ]
    return ethernet(rng) / rng.choice(choices)()


def outer(rng, destination_port):
    """A tunnel's outer headers up to UDP, with a checksum or without."""
    below = rng.choice([ipv4, ipv6])(rng)
    checksum = rng.choice([{}, {"chksum": 0}])
    return ethernet(rng) / below / UDP(sport=port(rng), dport=destination_port, **checksum)


def geneve(rng):
    options = [
        GeneveOptions(
            classid=rng.randrange(1 << 16),
            type=rng.randrange(256),
            # Two of the longest would not fit into 63 words.
            data=rng.randbytes(4 * rng.choice([0, 1, 2, 30])),
        )
        for _ in range(rng.randrange(3))
    ]
    payload = rng.choice([
        lambda: inner(rng),
        lambda: ipv4(rng) / transport4(rng),
        lambda: ipv6(rng) / transport6(rng),
    ])()
    header = GENEVE(
        vni=rng.randrange(1 << 24),
        oam=rng.randrange(2),
        critical=int(any(option.type & 0x80 for option in options)),
        options=options,
    )
    return outer(rng, 6081) / header / payload


def vxlan(rng):
    return outer(rng, 4789) / VXLAN(flags=8, vni=rng.randrange(1 << 24)) / inner(rng)


def bfd(rng):
    """A control packet that every check of reception lets pass: no authentication, no zero where none is allowed."""
    state = rng.randrange(4)
    packet = BFD(
        diag=rng.randrange(32),
        sta=state,
        flags="".join(flag for flag in "DCFP" if rng.random() < 0.5),
        detect_mult=rng.randrange(1, 256),
        my_discriminator=rng.randrange(1, 1 << 32),
        your_discriminator=rng.randrange(0 if state < 2 else 1, 1 << 32),
        min_tx_interval=rng.randrange(1 << 32),
        min_rx_interval=rng.randrange(1 << 32),
        echo_rx_interval=rng.randrange(1 << 32),
    )
    return UDP(sport=port(rng), dport=3784) / packet


def slow_protocols():
    """The Ethernet header of a frame of the slow protocols."""
    return Ether(src="02:00:00:00:00:01", dst="01:80:c2:00:00:02")


def lacp(rng):
    def info(role):
        return {
            f"{role}_system_priority": rng.randrange(1 << 16),
            f"{role}_system": mac(rng),
            f"{role}_key": rng.randrange(1 << 16),
            f"{role}_port_priority": rng.randrange(1 << 16),
            f"{role}_port_number": rng.randrange(1 << 16),
            f"{role}_state": rng.randrange(256),
        }

    packet = LACP(**info("actor"), **info("partner"), collector_max_delay=rng.randrange(1 << 16))
    return slow_protocols() / SlowProtocol(subtype=1) / packet


def marker(rng):
    packet = MarkerProtocol(
        marker_type=rng.randrange(1, 3),
        requester_port=rng.randrange(1 << 16),
        requester_system=mac(rng),
        requester_transaction_id=rng.randrange(1 << 32),
        # The default is a number, which scapy does not fill up to the field's length.
        reserved=bytes(90),
    )
    return slow_protocols() / SlowProtocol(subtype=2) / packet
