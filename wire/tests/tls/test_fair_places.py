"""Whoever fills the places of those who are not let in yet, from some hosts, keeps out no other."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack

import pytest
from test_connections import call, client_of, served, server_of

import ariane_wire
from ariane_wire.transport import fair_places, first_octets
from ariane_wire.transport.fair_places import FairPlaces


class Guests:
    """Tasks that stay until they are ended, and take a moment to leave then."""

    def __init__(self, *places):
        self.places = FairPlaces(asyncio.get_running_loop(), *places)
        self.inside = []
        self.most = 0
        self.all = []
        self.go = {}

    async def _stay(self, name, host):
        self.go[name] = asyncio.Event()
        taken = False
        try:
            await self.places.take(asyncio.current_task(), host)
            taken = True
            self.inside.append(name)
            self.most = max(self.most, len(self.inside))
            await self.go[name].wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        finally:
            if taken:
                self.inside.remove(name)

    async def come(self, *names):
        """Each from the host that the first letter of its name says."""
        for name in names:
            self.all.append(asyncio.create_task(self._stay(name, name[0])))
            await self.settle()

    async def leave(self, name):
        self.go[name].set()
        await self.settle()

    async def settle(self):
        for _ in range(10):
            await asyncio.sleep(0)

    async def close(self):
        for each in self.all:
            each.cancel()
        await asyncio.gather(*self.all, return_exceptions=True)


@pytest.fixture
async def guests(monkeypatch):
    monkeypatch.setattr(fair_places, "PATIENCE_S", 3600.0)
    made = []

    def of(*places):
        made.append(Guests(*places))
        return made[-1]

    yield of
    for each in made:
        await each.close()
        assert each.inside == []


async def test_a_host_with_few_takes_the_oldest_place_of_the_host_with_most(guests):
    it = guests(4)
    await it.come("a1", "a2", "a3", "b1")
    await it.come("c1")
    assert it.inside == ["a2", "a3", "b1", "c1"]
    await it.come("d1")
    assert it.inside == ["a3", "b1", "c1", "d1"]
    # Now all have as many: whoever comes waits, and those who have most do not come in first.
    await it.come("a4", "e1")
    assert it.inside == ["a3", "b1", "c1", "d1"]
    await it.leave("b1")
    assert it.inside == ["a3", "c1", "d1", "e1"]
    assert it.most == 4


async def test_hosts_that_wait_come_in_by_what_they_have_and_then_in_turn(guests):
    it = guests(2)
    await it.come("a1", "b1", "a2", "a3", "c1", "d1")
    assert it.inside == ["a1", "b1"]
    for leaving, inside in (
        ("b1", ["a1", "c1"]),
        ("c1", ["a1", "d1"]),
        ("d1", ["a1", "a2"]),
        ("a1", ["a2", "a3"]),
    ):
        await it.leave(leaving)
        assert it.inside == inside
    assert it.most == 2


async def test_a_host_whose_connections_end_at_once_does_not_go_before_others_again_and_again(
    guests,
):
    it = guests(1)
    await it.come("x1", "m1", "m2", "m3", "n1", "o1")
    for leaving, inside in (("x1", "m1"), ("m1", "n1"), ("n1", "o1"), ("o1", "m2"), ("m2", "m3")):
        await it.leave(leaving)
        assert it.inside == [inside]


async def test_one_more_than_there_are_places_and_hosts_waits_for_the_oldest_to_have_its_time(
    guests, monkeypatch
):
    it = guests(3)
    await it.come("a1", "b1", "c1")
    monkeypatch.setattr(fair_places, "PATIENCE_S", 0.01)
    for name, inside in (
        ("d1", ["b1", "c1", "d1"]),
        ("e1", ["c1", "d1", "e1"]),
        ("f1", ["d1", "e1", "f1"]),
    ):
        await it.come(name)
        async with asyncio.timeout(60):
            while name not in it.inside:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.005)
        # Who waits takes one place, and where nobody waits none is taken.
        assert it.inside == inside
        await asyncio.sleep(0.05)
        assert it.inside == inside
    assert it.most == 3


async def test_one_that_renews_its_places_keeps_nobody_waiting(guests, monkeypatch):
    """Of a host with most, the oldest is looked at: a young one does not hide the old of others."""
    monkeypatch.setattr(fair_places, "PATIENCE_S", 0.02)
    it = guests(3)
    await it.come("a1", "x1", "x2", "b1")
    number = 3
    async with asyncio.timeout(60):
        while "b1" not in it.inside:
            theirs = [name for name in it.inside if name[0] == "x"]
            if theirs:
                await it.leave(theirs[0])
            await it.come(f"x{number}")
            number += 1
            await asyncio.sleep(0.005)
    assert it.most == 3


async def test_a_task_that_is_over_before_it_has_a_place_takes_none(guests):
    it = guests(1)
    await it.come("a1")
    over = asyncio.create_task(asyncio.sleep(0))
    await over
    taken = asyncio.create_task(it.places.take(over, "b"))  # As the one that accepts does.
    await it.settle()
    await it.come("c1")
    await it.leave("a1")
    await taken
    assert it.inside == ["c1"]


async def test_many_of_one_host_wait_for_one_another(guests):
    it = guests(2)
    await it.come(*(f"a{number}" for number in range(20)))
    assert it.inside == ["a0", "a1"]
    for number in range(18):
        await it.leave(f"a{number}")
    assert it.inside == ["a18", "a19"]
    assert it.most == 2


async def test_who_is_ended_while_it_waits_takes_no_place(guests):
    it = guests(1)
    await it.come("a1", "b1", "c1")
    it.all[1].cancel()
    await it.settle()
    await it.leave("a1")
    assert it.inside == ["c1"]


async def test_one_that_has_had_its_time_makes_room_for_each_that_waits(guests, monkeypatch):
    it = guests(3)
    monkeypatch.setattr(fair_places, "PATIENCE_S", 0.01)
    await it.come("a1", "a2", "a3", "a4", "a5")
    async with asyncio.timeout(60):
        while it.inside != ["a3", "a4", "a5"]:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
    assert it.most == 3


async def test_a_connection_of_a_proxy_counts_for_the_host_that_it_names(guests):
    it = guests(3)
    await it.come("p1", "q1", "r1")
    for task in it.all:
        it.places.move(task, "a")
    await it.come("b1")
    assert it.inside == ["q1", "r1", "b1"]
    await it.come("c1")
    assert it.inside == ["r1", "b1", "c1"]


async def test_a_connection_of_a_proxy_that_waited_counts_for_the_host_that_it_names(guests):
    it = guests(4)
    await it.come("p1", "q1", "r1", "s1", "t1")
    for task in it.all:
        it.places.move(task, "a")  # The last one has no place yet.
    await it.leave("p1")
    assert it.inside == ["q1", "r1", "s1", "t1"]
    await it.come("b1")
    assert it.inside == ["r1", "s1", "t1", "b1"]
    await it.come("c1")
    assert it.inside == ["s1", "t1", "b1", "c1"]


async def test_of_too_many_that_wait_the_host_with_most_loses_its_youngest(guests):
    it = guests(2, 3)
    await it.come("a1", "b1", "a2", "a3", "b2")
    await it.come("a4")
    assert it.all[-1].done()
    await it.come("c1")
    assert [each.done() for each in it.all] == [*[False] * 3, True, False, True, False]
    for leaving, inside in (("b1", ["a1", "b2"]), ("b2", ["a1", "c1"]), ("a1", ["c1", "a2"])):
        await it.leave(leaving)
        assert it.inside == inside


async def test_where_hosts_have_as_many_that_wait_the_one_that_has_waited_longest_makes_room(
    guests,
):
    it = guests(2, 4)
    await it.come("a1", "b1", "c1", "d1", "c2", "d2", "e1")
    assert [each.done() for each in it.all] == [False, False, True, *[False] * 4]
    # Whose turn it was stands behind others, and has still waited longest.
    it = guests(2, 4)
    await it.come("a1", "b1", "c1", "c2", "d1")
    await it.leave("a1")
    assert it.inside == ["b1", "c1"]
    await it.come("e1", "f1", "g1")
    assert [each.done() for each in it.all] == [True, False, False, True, *[False] * 4]


async def test_who_comes_last_is_let_in_where_each_of_more_hosts_than_there_are_places_has_one(
    authority, monkeypatch
):
    monkeypatch.setattr(first_octets, "HALF_OPEN_MAX", 4)
    monkeypatch.setattr(first_octets, "WAITING_MAX", 4)
    monkeypatch.setattr(fair_places, "PATIENCE_S", 3600.0)
    with ExitStack() as opened:
        async with served(server_of(authority)) as it, asyncio.timeout(60):
            for number in range(8):
                stranger = opened.enter_context(socket.socket())
                stranger.bind((f"127.0.1.{number + 1}", 0))
                stranger.connect(("127.0.0.1", it.port))
            async with ariane_wire.secure_channel(it.address, client_of(authority)) as channel:
                assert await call(channel) == b"nobody"


@pytest.mark.parametrize("hosts", [3, 12])
@pytest.mark.parametrize("bound", ["HALF_OPEN_MAX", "HANDSHAKES_MAX"])
async def test_strangers_from_some_hosts_keep_out_nobody_from_another(
    authority, monkeypatch, bound, hosts
):
    """They have all places: who comes from elsewhere takes one of those with several at once.

    Where each has one, as many as there are places, a handshake waits for the oldest to have its
    time.
    """
    monkeypatch.setattr(first_octets, bound, 12)
    monkeypatch.setattr(fair_places, "PATIENCE_S", 3600.0 if hosts < 12 else 0.01)
    with ExitStack() as opened:
        async with served(server_of(authority)) as it, asyncio.timeout(60):
            strangers = []
            for number in range(12):
                stranger = opened.enter_context(socket.socket())
                stranger.bind((f"127.0.1.{number % hosts + 1}", 0))
                stranger.connect(("127.0.0.1", it.port))
                stranger.send(b"\x16\x03\x01")
                strangers.append(stranger)
            for _ in range(20):
                async with ariane_wire.secure_channel(it.address, client_of(authority)) as channel:
                    assert await call(channel) == b"nobody"
            assert it.server.statistics().connections_begun == 20
            if hosts == 12 and bound == "HANDSHAKES_MAX":
                strangers[0].settimeout(20)
                assert strangers[0].recv(1) == b""


async def test_nobody_waits_behind_strangers_who_come_all_the_time(authority, monkeypatch):
    """They have all places, and more of them are before him: no time of theirs has to end."""
    for bound in ("HALF_OPEN_MAX", "WAITING_MAX"):
        monkeypatch.setattr(first_octets, bound, 10, raising=False)
    monkeypatch.setattr(fair_places, "PATIENCE_S", 3600.0)
    with ExitStack() as opened:
        async with served(server_of(authority)) as it, asyncio.timeout(60):
            strangers = []
            for number in range(40):
                strangers.append(opened.enter_context(socket.socket()))
                strangers[-1].bind((f"127.0.1.{number % 2 + 1}", 0))
                strangers[-1].connect(("127.0.0.1", it.port))
            async with ariane_wire.secure_channel(it.address, client_of(authority)) as channel:
                assert await call(channel) == b"nobody"
            assert it.server.statistics().connections_begun == 1
