"""Strangers who fill a server with connections from some hosts keep out nobody from another."""

from __future__ import annotations

import asyncio
import gzip
import sys
from contextlib import asynccontextmanager
from types import SimpleNamespace

import grpc
import pytest
from raw_frames import (
    END_HEADERS,
    END_STREAM,
    PREFACE,
    Kind,
    block,
    frame,
    request_fields,
    settings,
)
from test_attacks import turns
from test_memory import connected

import ariane_wire
from ariane_wire import ServerOptions
from ariane_wire.server.host_places import SHARE_MIN
from ariane_wire.server.unproved import Unproved

NAME = "/test.Echo/Name"


class Watch:
    """Of connections: known is who has said a name."""

    def opened(self, _peer):
        return True

    def closed(self, _peer, _notes):
        """Nothing to count."""

    def is_stranger(self, identity):
        return "name" not in identity.notes


async def name(request, context):
    context.identity().notes["name"] = request
    return request


@asynccontextmanager
async def full(connections_max, watch, calls_max=None, octets_max=1 << 29):
    """A server that takes so many connections and calls, and holds so many octets."""
    options = ServerOptions(connections_max=connections_max, memory_octets_max=octets_max)
    server = ariane_wire.server(options=options, maximum_concurrent_rpcs=calls_max)
    handlers = {"Name": grpc.unary_unary_rpc_method_handler(name)}
    server.add_registered_method_handlers("test.Echo", handlers)
    if watch is not None:
        server.watch(watch)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield server, f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def left(connections):
    """How many of some connections the server has not closed."""
    count = 0
    for each in connections:
        try:
            # First come the settings of the server.
            while each.recv(1 << 12):
                pass
        except BlockingIOError:
            count += 1
        except ConnectionResetError:
            pass
    return count


def close(connections):
    for each in connections:
        each.close()


async def test_those_of_the_host_with_most_end_for_another():
    async with full(24, Watch()) as (server, address):
        strangers = [connected(address, 20, host) for host in ("127.0.0.2", "127.0.0.3")]
        await turns(50)
        assert [left(each) for each in strangers] == [16, 8]
        come = []
        for number in range(4, 10):
            come += connected(address, 1, f"127.0.0.{number}")
            await turns(50)
            # Who attacks gets nothing by coming again.
            again = connected(address, 3, "127.0.0.2")
            await turns(50)
            assert left(again) == 0
            close(again)
        assert left(come) == 6
        assert [left(each) for each in strangers] == [10, 8]
        assert server.statistics().connections == 24
        async with ariane_wire.insecure_channel(address) as channel:
            assert await channel.unary_unary(NAME)(b"anna", timeout=20) == b"anna"
        close([*come, *strangers[0], *strangers[1]])


async def test_who_is_known_keeps_its_connection():
    async with full(24, Watch()) as (server, address):
        # From this host are both the most connections and the oldest.
        channels = [ariane_wire.insecure_channel(address) for _ in range(12)]
        for channel in channels:
            assert await channel.unary_unary(NAME)(b"anna", timeout=20) == b"anna"
        strangers = connected(address, 20, "127.0.0.3")
        await turns(50)
        assert left(strangers) == 12
        others = connected(address, 20, "127.0.0.4")
        await turns(50)
        # Both hosts of strangers have as good as the same, and the known ones all they had.
        assert (left(strangers), left(others)) == (8, 4)
        for channel in channels:
            assert await channel.unary_unary(NAME)(b"anna", timeout=20) == b"anna"
            await channel.close()
        assert server.statistics().connections_begun == 24 + 4
        close([*strangers, *others])


async def test_who_is_known_no_more_is_a_stranger_once_the_server_asks_again():
    watch = Watch()
    async with full(8, watch) as (server, address):
        watch.is_stranger = lambda _identity: False
        first = connected(address, 8, "127.0.0.2")
        await turns(50)
        come = connected(address, 1, "127.0.0.3")
        await turns(50)
        assert (left(first), left(come)) == (8, 0)
        del watch.is_stranger
        server.ask_again(lambda identity: "127.0.0.3" in identity.peer)
        come += connected(address, 1, "127.0.0.3")
        await turns(50)
        assert (left(first), left(come)) == (8, 0)
        server.ask_again()
        server.ask_again()  # Each is there once.
        come += connected(address, 1, "127.0.0.3")
        await turns(50)
        assert (left(first), left(come)) == (7, 1)
        close([*first, *come])


async def test_a_stranger_that_the_server_asks_about_again_is_no_younger_for_it():
    async with full(8, Watch()) as (server, address):
        first = connected(address, 8, "127.0.0.2")
        await turns(50)
        oldest = "{}:{}".format(*first[0].getsockname())
        server.ask_again(lambda identity: oldest in identity.peer)
        come = connected(address, 1, "127.0.0.3")
        await turns(50)
        assert (left(first[:1]), left(first), left(come)) == (0, 7, 1)
        close([*first, *come])


class Quotas(Watch):
    """One host may not come."""

    def opened(self, peer):
        return "127.0.0.9" not in peer


async def test_nobody_ends_for_one_that_is_refused():
    async with full(8, Quotas()) as (_, address):
        strangers = connected(address, 6, "127.0.0.2") + connected(address, 2, "127.0.0.5")
        await turns(50)
        refused = connected(address, 1, "127.0.0.9")
        await turns(50)
        assert (left(refused), left(strangers)) == (0, 8)
        come = connected(address, 1, "127.0.0.3")
        await turns(50)
        assert left(come) == 1
        close([*strangers, *refused, *come])


@pytest.mark.parametrize("watch", [None, Watch()])
async def test_hosts_with_as_many_take_nothing_from_each_other(watch):
    async with full(8, watch) as (_, address):
        first = connected(address, 6, "127.0.0.2") if watch is None else []
        await turns(50)
        hosts = [connected(address, 1, f"127.0.1.{number}") for number in range(20)]
        await turns(50)
        assert [left(each) for each in hosts] == [1] * (8 - len(first)) + [0] * (12 + len(first))
        close(first)
        for host in hosts:
            close(host)


def begun(address, count, host):
    """A connection with so many calls whose requests are never whole."""
    [one] = connected(address, 1, host)
    heads = (
        frame(Kind.HEADERS, END_HEADERS, 2 * number + 1, block(request_fields(NAME)))
        for number in range(count)
    )
    one.sendall(PREFACE + settings() + b"".join(heads))
    return one


async def test_strangers_of_some_hosts_have_half_of_all_calls_and_some_of_each_host():
    async with (
        full(100, Watch(), calls_max=128) as (server, address),
        ariane_wire.insecure_channel(address) as channel,
    ):
        ask = channel.unary_unary(NAME)
        assert await ask(b"anna", timeout=20) == b"anna"
        strangers = []
        for number in (2, 3):
            strangers.append(begun(address, 96, f"127.0.0.{number}"))
            await turns(50)
        # The first has half of them, the other what each host has.
        streams = server.statistics().streams
        assert streams == 64 + SHARE_MIN
        answers = await asyncio.gather(*(ask(b"anna", timeout=20) for _ in range(40)))
        assert answers == [b"anna"] * 40
        # Who comes from elsewhere has yet to prove who he is.
        come = begun(address, 3, "127.0.0.4")
        await turns(50)
        assert server.statistics().streams == streams + 3
        close([*strangers, come])


async def half_said(address, count, host):
    """A connection with so many octets of a message that is never whole."""
    return await said(address, b"\0" + (2 * count).to_bytes(4, "big") + bytes(count), host)


async def never_ended(address, count, host):
    """A connection with a whole message of so many octets, after which the call does not end."""
    return await said(address, b"\0" + count.to_bytes(4, "big") + bytes(count), host)


async def packed(address, count, host):
    """The same, with a message of which it sends a thousandth."""
    octets = gzip.compress(bytes(count))
    message = b"\1" + len(octets).to_bytes(4, "big") + octets
    return await said(address, message, host, ("grpc-encoding", "gzip"))


async def said(address, octets, host, *fields):
    """A connection of a call that has said some octets."""
    [one] = connected(address, 1, host)
    parts = (octets[at : at + 16_000] for at in range(0, len(octets), 16_000))
    head = frame(Kind.HEADERS, END_HEADERS, 1, block([*request_fields(NAME), *fields]))
    all_of_it = PREFACE + settings() + head
    all_of_it += b"".join(frame(Kind.DATA, 0, 1, part) for part in parts)
    await asyncio.get_running_loop().sock_sendall(one, all_of_it)
    return one


@pytest.mark.parametrize("say", [half_said, never_ended, packed])
async def test_strangers_who_fill_the_memory_are_ended_host_by_host_and_nobody_else_is_refused(say):
    async with (
        full(100, Watch(), octets_max=1 << 20) as (server, address),
        ariane_wire.insecure_channel(address) as channel,
    ):
        ask = channel.unary_unary(NAME)
        assert await ask(b"anna", timeout=20) == b"anna"
        for _ in range(5):
            strangers = [await say(address, 450_000, f"127.0.0.{n}") for n in (2, 3)]
            async with asyncio.timeout(60):
                while sum(map(left, ([each] for each in strangers))) == 2:
                    await turns(1)
                # More than three quarters, for which one of both is enough.
                while server.statistics().held_octets > 500_000:
                    await turns(1)
            assert await ask(bytes(300_000), timeout=20) == bytes(300_000)
            close(strangers)
            await turns(50)
        assert server.statistics().connections == 1


class KnownHosts(Watch):
    """Known is who comes from another host than 127.0.0.4."""

    def is_stranger(self, identity):
        return "127.0.0.4" in identity.peer


async def test_who_comes_while_known_ones_fill_the_memory_is_left_alone():
    async with full(100, KnownHosts(), octets_max=1 << 20) as (server, address):
        come = connected(address, 3, "127.0.0.4")
        known = [await half_said(address, 395_000, f"127.0.0.{n}") for n in (2, 3)]
        async with asyncio.timeout(60):
            while server.statistics().held_octets < 790_000:
                await turns(1)
        await turns(50)
        assert (left(come), left(known)) == (3, 2)
        # Until strangers hold too much themselves.
        more = await half_said(address, 100_000, "127.0.0.4")
        less = await half_said(address, 60_000, "127.0.0.4")
        async with asyncio.timeout(60):
            while left([more, less]):
                await turns(1)
        assert (left(come), left(known)) == (3, 2)
        close([*come, *known, more, less])


class CountedHosts(KnownHosts):
    """Counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def is_stranger(self, identity):
        self.asked += 1
        return super().is_stranger(identity)


async def parts_held(address, count, host):
    """A connection with so many messages that are never whole, each in a call of its own."""
    [one] = connected(address, 1, host)
    part = b"\0" + (1000).to_bytes(4, "big") + bytes(500)
    said = PREFACE + settings()
    for stream_id in range(1, 2 * count, 2):
        said += frame(Kind.HEADERS, END_HEADERS, stream_id, block(request_fields(NAME)))
        said += frame(Kind.DATA, 0, stream_id, part)
    await asyncio.get_running_loop().sock_sendall(one, said)
    return one


async def look_at_strangers(streams, idle):
    """Of one look while all hold too much: its calls, and how often it asked who is a stranger."""
    watch = CountedHosts()
    async with full(1_000, watch, octets_max=1 << 20) as (server, address), asyncio.timeout(60):
        waiting = connected(address, idle, "127.0.0.4")
        holding = await parts_held(address, streams, "127.0.0.4")
        async with asyncio.timeout(60):
            while server.statistics().held_octets < 500 * streams:
                await turns(1)
        known = [await half_said(address, 395_000, f"127.0.0.{n}") for n in (2, 3)]
        async with asyncio.timeout(60):
            while not server._is_crowded:
                await turns(1)
        watch.asked, calls = 0, [0]
        sys.setprofile(lambda *_: calls.__setitem__(0, calls[0] + 1))
        server._end_crowding()
        sys.setprofile(None)
        assert left([holding]) == 1
        close([*waiting, holding, *known])
    return calls[0], watch.asked


async def test_a_look_at_what_strangers_hold_asks_for_each_connection_once_and_not_for_streams():
    few, asked = await look_at_strangers(streams=1, idle=50)
    assert asked <= 3, "nobody is asked for connections that hold nothing"
    many, asked = await look_at_strangers(streams=90, idle=50)
    assert asked <= 3
    assert many <= few + 20
    more_idle, _ = await look_at_strangers(streams=1, idle=250)
    assert more_idle <= few + 20


async def test_the_more_connections_there_are_the_rarer_they_are_looked_at(monkeypatch):
    async with full(1_000, KnownHosts(), octets_max=1 << 20) as (server, address):
        crowd = connected(address, 200, "127.0.0.4")
        known = [await half_said(address, 395_000, f"127.0.0.{n}") for n in (2, 3)]
        async with asyncio.timeout(60):
            while not server._is_crowded:
                await turns(1)
        pauses = []
        monkeypatch.setattr(
            server, "_loop", SimpleNamespace(call_later=lambda s, _: pauses.append(s))
        )
        server._end_crowding()
        monkeypatch.undo()
        assert pauses == [pytest.approx(0.05 + 200 * 20e-6, abs=3 * 20e-6)]
        close([*crowd, *known])


class Nameless:
    """A connection, as far as what may give way asks."""

    identity = None


def test_choosing_who_gives_way_asks_for_each_known_one_once():
    unproved, asked = Unproved(), []
    known = [Nameless() for _ in range(500)]
    for life in known:
        unproved.add("many", life)
    others = [(f"host {number}", Nameless()) for number in range(500)]
    for host, life in others:
        unproved.add(host, life)

    def is_stranger(identity):
        asked.append(identity)
        return False

    assert unproved.give_way("new", is_stranger) is None
    assert len(asked) == 499
    for host, life in others:
        unproved.discard(host, life)
    assert unproved.give_way("new", lambda _: True) is None
    unproved.add("many", known[0])
    assert unproved.give_way("new", lambda _: True) is known[-1]


async def test_a_request_whose_call_does_not_end_is_counted_until_it_does():
    async with full(100, None, octets_max=1 << 20) as (server, address):
        held = [await never_ended(address, 300_000, "127.0.0.2") for _ in range(2)]
        while server.statistics().held_octets < 600_000:
            await turns(1)
        for each in held:
            each.sendall(frame(Kind.DATA, END_STREAM, 1, b""))
        while server.statistics().held_octets:
            await turns(1)
        close(held)
