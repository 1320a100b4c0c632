"""Headers of proxies: those that are right, and whatever else comes."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_wire.protocol.proxy_header import (
    HEAD_OCTETS,
    REST_OCTETS_MAX,
    SIGNATURE,
    ProxyHeaderWrong,
    proxied_client,
    proxy_head,
)


def header(source, port, more=b"", command=0x21):
    """A header as a proxy sends it, of addresses by the standard library."""
    source = ipaddress.ip_address(source)
    other = ipaddress.ip_address("10.9.9.9" if source.version == 4 else "fd00::9")
    body = source.packed + other.packed + struct.pack(">HH", port, 443) + more
    family = 0x11 if source.version == 4 else 0x21
    return SIGNATURE + bytes((command, family)) + struct.pack(">H", len(body)) + body


def read(octets):
    """As a listener reads: first the head, then what it announces."""
    head = proxy_head(octets[:HEAD_OCTETS])
    return proxied_client(head, octets[HEAD_OCTETS : HEAD_OCTETS + head.rest_octets])


@given(st.ip_addresses(), st.integers(0, 65535), st.binary(max_size=300))
def test_the_client_is_the_one_that_the_proxy_names(source, port, more):
    told = ipaddress.ip_address(source)
    mapped = told.ipv4_mapped if told.version == 6 else None
    assert read(header(source, port, more) + b"PRI * HTTP/2.0") == (str(mapped or told), port)
    assert read(header(source, port, more, command=0x20)) is None


@given(st.ip_addresses(), st.data())
def test_a_header_that_is_changed_or_cut_names_nobody_or_an_address(source, data):
    octets = bytearray(header(source, 1, b"x" * 20))
    place = data.draw(st.integers(0, len(octets) - 1))
    octets[place] = data.draw(st.integers(0, 255))
    names_somebody(bytes(octets[: data.draw(st.integers(0, len(octets)))]))


@given(st.binary(max_size=80), st.booleans())
def test_whatever_comes_is_no_other_error(octets, signed):
    names_somebody((SIGNATURE if signed else b"") + octets)


def names_somebody(octets):
    try:
        client = read(octets)
    except ProxyHeaderWrong:
        return
    if client is not None:
        ipaddress.ip_address(client[0])
        assert 0 <= client[1] < 1 << 16


@pytest.mark.parametrize(
    "octets",
    [
        b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        SIGNATURE + b"\x11\x11\x00\x0c" + b"\0" * 12,
        SIGNATURE + b"\x22\x11\x00\x0c" + b"\0" * 12,
        SIGNATURE + b"\x21\x12\x00\x0c" + b"\0" * 12,
        SIGNATURE + b"\x21\x11\x00\x0b" + b"\0" * 11,
        SIGNATURE + b"\x21\x21\x00\x0c" + b"\0" * 12,
        SIGNATURE + b"\x21\x11" + struct.pack(">H", REST_OCTETS_MAX + 1),
        SIGNATURE[:-1],
        b"",
    ],
)
def test_no_other_header_is_taken(octets):
    with pytest.raises(ProxyHeaderWrong):
        read(octets)


def test_a_proxy_that_names_nobody_is_who_it_is():
    assert read(SIGNATURE + b"\x21\x00\x00\x00") is None
    assert read(SIGNATURE + b"\x20\x99\x00\x03abc") is None
    assert read(SIGNATURE + b"\x21\x31\x00\xd8" + b"/run/x".ljust(216, b"\0")) is None
