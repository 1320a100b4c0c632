from __future__ import annotations

import pytest

from ariane_servicekit.security.caller import Caller, CallerKind, MemberKind, address_of_peer

GATEWAY = Caller(
    CallerKind.MEMBER, "ipv4:10.0.0.7:4000", "g1", member_kind=MemberKind.GATEWAY, cluster="c"
)


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:127.0.0.1:40211", "127.0.0.1"),
        ("ipv6:[::1]:40211", "::1"),
        ("ipv6:%5Bfe80::1%25eth0%5D:40211", "fe80::1"),
        ("unix:/run/a.sock", ""),
        ("", ""),
    ],
)
def test_the_address_of_a_peer(peer, address):
    assert address_of_peer(peer) == address


@pytest.mark.parametrize(
    ("caller", "text"),
    [
        (Caller(CallerKind.ANONYMOUS, ""), "nobody known"),
        (Caller(CallerKind.USER, "", "anna"), "user anna"),
        (GATEWAY, "gateway g1"),
        (Caller(CallerKind.USER, "", "anna", acting=GATEWAY), "user anna by gateway g1"),
    ],
)
def test_callers_are_named_for_people(caller, text):
    assert str(caller) == text
