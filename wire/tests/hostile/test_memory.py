"""What attackers may have us hold, in octets."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import tracemalloc

import pytest
from attacks import ATTACKS, ECHO
from raw_frames import (
    END_HEADERS,
    PREFACE,
    Kind,
    block,
    frame,
    request_fields,
    settings,
)
from test_attacks import attack_with, attacked, turns

import ariane_wire

MIB = 1 << 20
MESSAGE_OCTETS_MAX = 4 * MIB
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">IBI", 4, 0, 0)
SETTINGS_ACK = struct.pack(">IBI", 4, 1, 0)


@pytest.fixture
def traced():
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "octets_max"),
    [
        # A message may be as long as the limit, and the attacker's own octets are in this process.
        ("compressed bomb", 3 * MESSAGE_OCTETS_MAX),
        ("lying message lengths", 2 * MIB),
        ("lying frame length", 2 * MIB),
        ("table bomb", 2 * MIB),
        ("huge fields", 4 * MIB),
    ],
)
async def test_a_bomb_is_never_unpacked(name, octets_max, traced):
    attack = ATTACKS[name]
    attack.unit(0)  # Its octets are made once.
    # Threads of other tests may take memory meanwhile, but hardly each time.
    assert min([await octets_taken(attack) for _ in range(3)]) <= octets_max


async def octets_taken(attack):
    async with attacked() as (address, _, _):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        peer, _ = await attack_with(attack, address, units_max=5)
        async with peer:
            await turns(50)
            return tracemalloc.get_traced_memory()[1] - before


IDLE = 500
IDLE_OCTETS_MAX = 24 << 10
"""What one connection that does nothing may cost us; the kernel's buffers are not ours."""


async def held_by_idle_connections():
    async with attacked() as (address, _, echo):
        host, port = address.split(":")
        connections = [socket.create_connection((host, int(port))) for _ in range(IDLE)]
        await turns(50)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for each in connections:
            each.sendall(GREETING + SETTINGS_ACK)
        await turns(50)
        assert await echo(b"meanwhile") == b"meanwhile"
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
        for each in connections:
            each.close()
        return held


async def test_an_idle_connection_is_cheap(traced):
    # Threads that other tests left in this process take memory now and then.
    held = await held_by_idle_connections()
    if held / IDLE > IDLE_OCTETS_MAX:
        held = await held_by_idle_connections()
    assert held / IDLE <= IDLE_OCTETS_MAX


def connected(address, count, source="127.0.0.1"):
    host, port = address.split(":")
    made = [
        socket.create_connection((host, int(port)), source_address=(source, 0))
        for _ in range(count)
    ]
    for each in made:
        each.setblocking(False)  # noqa: FBT003 - the name of the method says it.
    return made


def refused(connections):
    """How many of some connections the server has closed; all are closed then."""
    count = 0
    for each in connections:
        try:
            count += each.recv(1) == b""
        except BlockingIOError:
            continue
        except ConnectionResetError:
            count += 1
        finally:
            each.close()
    return count


async def test_connections_beyond_the_limit_are_closed_at_once():
    options = ariane_wire.ServerOptions(connections_max=10)
    async with attacked(options=options) as (address, _, echo):
        connections = connected(address, 30)
        await turns(50)
        assert await echo(b"meanwhile") == b"meanwhile"
        # The honest client has one of the ten.
        assert refused(connections) == 30 - 9


async def test_one_host_does_not_have_all_connections():
    """Who has proved nothing may hold connections, too: others still find a place."""
    options = ariane_wire.ServerOptions(connections_max=24)
    async with attacked(options=options) as (address, _, echo):
        for _ in range(2):  # What is given back may be had again.
            here = connected(address, 40)
            await turns(50)
            elsewhere = connected(address, 10, "127.0.0.2")
            await turns(50)
            assert await echo(b"meanwhile") == b"meanwhile"
            # Of 24 a host has 18, and the honest client is one of the first host's.
            assert (refused(here), refused(elsewhere)) == (40 - 17, 10 - 6)
            await turns(50)


async def test_one_host_does_not_begin_all_calls():
    """A call whose request is never whole costs memory, and no handler knows of it."""
    async with attacked(maximum_concurrent_rpcs=24) as (address, _, echo):
        [elsewhere] = connected(address, 1, "127.0.0.2")
        begun = (
            frame(Kind.HEADERS, END_HEADERS, 2 * unit + 1, block(request_fields(ECHO)))
            for unit in range(40)
        )
        elsewhere.sendall(PREFACE + settings() + SETTINGS_ACK + b"".join(begun))
        await turns(50)
        for _ in range(3):
            assert await echo(b"meanwhile") == b"meanwhile"
        elsewhere.close()


async def test_the_connections_of_a_host_share_what_it_may_have_held():
    server = ariane_wire.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    address = f"127.0.0.1:{port}"
    held = [*connected(address, 2), *connected(address, 1, "127.0.0.2")]
    while server.statistics().connections < len(held):
        await turns(1)
    shares = [connection.share for connection in server._lives]
    assert len(set(map(id, shares))) == 2
    assert {each.octets_max for each in shares} == {384 * MIB}
    assert refused(held) == 0
    while server.statistics().connections:
        await turns(1)
    assert server._shares == {}
    await server.stop(None)


async def test_a_handshake_that_never_ends_is_ended():
    options = ariane_wire.ServerOptions(handshake_s=0.05)
    for said in (b"", GREETING[:10], GREETING[:24]):
        async with attacked(options=options) as (address, _, echo):
            peer, _ = await attack_with(
                ATTACKS["a connection that says nothing"], address, units_max=1
            )
            async with peer:
                peer.write(said)
                await peer.until_lost()
                assert await echo(b"meanwhile") == b"meanwhile"


STREAMS = 4


def octets_of_calls():
    """What is held that was made on the way of a call: threads of other tests take memory, too."""
    ways = [
        tracemalloc.Filter(inclusive=True, filename_pattern=pattern)
        for pattern in ("*/ariane_wire/*", "*/asyncio/*", "*/wire/tests/*")
    ]
    made = tracemalloc.take_snapshot().filter_traces(ways)
    return sum(trace.size for trace in made.traces)


async def test_idle_streams_keep_none_of_their_messages(traced, talking):
    """Neither end, and neither direction: each would keep its last one, however large."""
    never = asyncio.Event()

    async def echo(requests, _context):
        async for request in requests:
            yield request
            del request

    async def asked():
        yield bytes(MIB)
        yield bytes(MIB)
        await never.wait()

    async def heard(call, counts):
        async for response in call:
            counts.append(len(response))
            del response

    async with talking({"Echo": ("stream_stream", echo)}) as channel:
        before = octets_of_calls()
        counts = []
        calls = [channel.stream_stream("/test.Echo/Echo")(asked()) for _ in range(STREAMS)]
        hearing = [asyncio.create_task(heard(call, counts)) for call in calls]
        while counts != [MIB] * 2 * STREAMS:
            await turns(1)
        for _ in range(100):
            await turns(50)
            gc.collect()
            if octets_of_calls() - before < MIB:
                break
        # What is read from the transport, and a little for each call.
        assert octets_of_calls() - before < MIB
        for call in calls:
            call.cancel()
        await asyncio.gather(*hearing, return_exceptions=True)
