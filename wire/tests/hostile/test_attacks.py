"""What attackers cost, counted: frames until they are cut off, handlers, messages, octets."""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest
from attacks import ATTACKS, ECHO, STREAMS_MAX
from both_ends import serving
from probe import PIECE, Probe, wire_objects
from raw_frames import ENHANCE_YOUR_CALM, Kind, RawPeer

import ariane_wire

CHUNK = 50
"""Units that are said at once; a bound is held to within as many."""
UNITS_MAX = 3_000
TURNS = 6
"""Of the loop: what was written has been read by then, for both ends run on it."""
PATIENCE_S = 60.0


async def turns(count: int = TURNS) -> None:
    """Let the loop go round."""
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def attacked(**options):
    """A server with the probe, and an honest client; afterwards nothing may be left."""
    # What other tests have left is a hundred times what is looked through here, several times.
    gc.freeze()
    probe = Probe()
    async with (
        serving(ariane_wire, probe, **options) as address,
        grpc.aio.insecure_channel(address) as honest,
    ):
        echo = honest.unary_unary(ECHO)
        assert await echo(b"before") == b"before"
        before = wire_objects()
        yield address, probe, echo
        async with asyncio.timeout(PATIENCE_S):
            # Each of these calls lets the loop go round.
            while (left := wire_objects() - before) or probe.live:
                assert await echo(b"after") == b"after"
        assert not left


async def attack_with(attack, address, *, units_max=UNITS_MAX) -> tuple[RawPeer, int]:
    """Say units until the server ends the connection or all are said; how many were said."""
    if attack.introduces:
        peer = await RawPeer.introduced(address, *attack.settings)
    else:
        peer = await RawPeer.connect(address)
    if not attack.reads:
        peer.stop_reading()
    peer.write(attack.opening)
    await turns()
    said = 0
    while said < units_max and not peer.is_lost:
        chunk = min(CHUNK, units_max - said)
        peer.write(b"".join(attack.unit(said + number) for number in range(chunk)))
        said += chunk
        await turns()
    return peer, said


ENDED = {name: attack for name, attack in ATTACKS.items() if attack.ends_within is not None}


@pytest.mark.parametrize("name", ENDED)
async def test_the_attacker_is_cut_off_within_the_bound(name, caplog):
    attack = ENDED[name]
    async with attacked() as (address, _, _):
        peer, said = await attack_with(attack, address)
        async with peer:
            assert said <= attack.ends_within + CHUNK, f"{said} units"
            if attack.reads:
                async with asyncio.timeout(PATIENCE_S):
                    await peer.until_lost()
                says_why = any(each.kind == Kind.GOAWAY for each in peer.frames)
                assert says_why or peer.was_reset or not attack.introduces, peer.frames[-3:]
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


BORNE = [name for name, attack in ATTACKS.items() if attack.ends_within is None]


@pytest.mark.parametrize("name", BORNE)
async def test_what_is_borne_leaves_nothing_behind(name, caplog):
    attack = ATTACKS[name]
    units = max(5, min(1_500, attack.per_s // 10))
    async with attacked() as (address, probe, echo):
        peer, _ = await attack_with(attack, address, units_max=units)
        async with peer:
            assert await echo(b"meanwhile") == b"meanwhile"
            assert probe.live_max <= STREAMS_MAX
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


async def test_calls_beyond_the_limit_are_refused_and_never_begun():
    attack = ATTACKS["half-closed flood"]
    async with attacked() as (address, probe, _):
        peer, said = await attack_with(attack, address, units_max=2 * STREAMS_MAX)
        async with peer:
            refused = [each for each in peer.frames if each.kind == Kind.RST_STREAM]
            assert probe.begun["Hang"] == STREAMS_MAX
            assert len(refused) == said - STREAMS_MAX


async def test_rapid_reset_begins_no_more_handlers_than_may_be_open():
    attack = ATTACKS["rapid reset"]
    async with attacked() as (address, probe, _):
        peer = await RawPeer.introduced(address)
        async with peer:
            peer.write(b"".join(map(attack.unit, range(10_000))))
            async with asyncio.timeout(PATIENCE_S):
                await peer.until_lost()
            assert probe.live_max <= STREAMS_MAX
            assert probe.begun["Hang"] <= attack.ends_within
            goaway = await peer.until(lambda each: each.kind == Kind.GOAWAY)
            assert goaway is not None
            assert int.from_bytes(goaway.payload[4:8], "big") == ENHANCE_YOUR_CALM


KERNEL_OCTETS_MAX = 16 << 20
"""What the buffers of both sockets may hold, by far."""


async def test_who_does_not_read_gets_no_more_than_windows_and_buffers_hold():
    attack = ATTACKS["slow reader"]
    async with attacked() as (address, probe, echo):
        peer, _ = await attack_with(attack, address, units_max=5)
        async with peer:
            given = -1
            while given != probe.given:
                given = probe.given
                for _ in range(20):
                    assert await echo(b"meanwhile") == b"meanwhile"
            # A message for each handler lies in our own streams, and the rest in the kernel.
            assert given * len(PIECE) <= KERNEL_OCTETS_MAX + 100 * len(PIECE)


async def test_a_closed_window_lets_no_handler_run_ahead():
    attack = ATTACKS["windows opened octet by octet"]
    async with attacked() as (address, probe, echo):
        peer, _ = await attack_with(attack, address, units_max=500)
        async with peer:
            assert await echo(b"meanwhile") == b"meanwhile"
            assert probe.given == 0
            octets = sum(len(each.payload) for each in peer.frames if each.kind == Kind.DATA)
            assert octets <= 500
