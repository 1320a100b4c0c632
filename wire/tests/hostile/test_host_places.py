"""Which host a peer counts for, and how many places that has."""

from __future__ import annotations

import pytest

from ariane_wire.server.host_places import HostPlaces
from ariane_wire.transport.peers import host_of


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:192.0.2.7:40211", "192.0.2.7"),
        ("ipv6:%5B::ffff:192.0.2.7%5D:40211", "192.0.2.7"),
        ("ipv6:%5B::ffff:c000:207%5D:1", "192.0.2.7"),
        ("ipv6:%5B2001:db8:0:7:a:b:c:d%5D:1", "2001:db8:0:7::/64"),
        ("ipv6:%5B2001:db8:0:7::%5D:2", "2001:db8:0:7::/64"),
        ("ipv6:[2001:db8:0:8::1]:2", "2001:db8:0:8::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:2", "fe80::/64"),
        ("ipv6:%5B::1%5D:2", "::/64"),
        ("unix:/run/a:b#7", "unix:/run/a"),
        ("unix:#7", "unix"),
        ("ipv6:nonsense:2", "ipv6:nonsense"),
    ],
)
def test_the_host_of_a_peer(peer, host):
    assert host_of(peer) == host


def test_a_host_has_three_quarters_of_the_places_or_what_is_said():
    places = HostPlaces(24)
    assert [places.enter("a") for _ in range(19)] == [True] * 18 + [False]
    assert [places.enter("b") for _ in range(7)] == [True] * 6 + [False]
    assert (places.count, places.taken_by("a"), places.taken_by("c")) == (24, 18, 0)
    # Fewer places take none away, and nobody gets another one.
    places.change_count_max(8)
    places.leave("b")
    assert not places.enter("b")
    places.change_count_max(100, 2)
    assert not places.enter("a")
    assert [places.enter("c") for _ in range(3)] == [True, True, False]
    for host in "a" * 18 + "b" * 5 + "cc":
        places.leave(host)
    assert (places.count, places.taken_by("a")) == (0, 0)
    # Few places are anybody's: a share of 3 of 4 would be useless.
    few = HostPlaces(4)
    assert [few.enter("a") for _ in range(5)] == [True] * 4 + [False]
