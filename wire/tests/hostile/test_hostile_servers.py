"""What a hostile server may cost a client: the same floods, counted the same way."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import asynccontextmanager

import pytest
import raw_frames as raw
from attacks import CONTINUATIONS_MAX, IDLE_END, bomb, in_pieces, table_bomb
from grpc import StatusCode
from raw_frames import END_HEADERS, END_STREAM, Kind, RawPeer, frame
from test_attacks import CHUNK, PATIENCE_S, UNITS_MAX, turns

import ariane_wire

GZIP = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-encoding", "gzip")]
HEAD = frame(Kind.HEADERS, END_HEADERS, 1, raw.block(GZIP))
INFORMATIONAL = frame(Kind.HEADERS, END_HEADERS, 1, raw.block([(":status", "100")]))


@asynccontextmanager
async def called():
    """A client with one call, a stream, at a server that is us; gives our end and the call."""
    peers: list[RawPeer] = []

    def take() -> RawPeer:
        peers.append(RawPeer.of_server())
        return peers[-1]

    listener = await asyncio.get_running_loop().create_server(take, "127.0.0.1", 0)
    address = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    before = len(asyncio.all_tasks())
    try:
        async with ariane_wire.insecure_channel(address) as channel:
            call = channel.unary_stream("/hostile.Hostile/Stream")(b"x")
            while not peers:
                await turns()
            [peer] = peers
            await peer.until(lambda each: each.kind == Kind.SETTINGS)
            peer.write(raw.settings() + raw.SETTINGS_ACK)
            await peer.until(lambda each: bool(each.stream and each.flags & END_STREAM))
            yield peer, call
            call.cancel()
    finally:
        listener.close()
        for each in peers:
            await each.close()
    await turns()
    assert len(asyncio.all_tasks()) <= before


FLOODS = {
    "PING": (b"", frame(Kind.PING, payload=bytes(8)), IDLE_END),
    "SETTINGS": (b"", raw.settings(), IDLE_END),
    "SETTINGS answers": (b"", raw.SETTINGS_ACK, IDLE_END),
    "PRIORITY": (b"", frame(Kind.PRIORITY, 0, 1, bytes(5)), IDLE_END),
    "WINDOW_UPDATE": (b"", raw.window_update(0, 1), IDLE_END),
    "WINDOW_UPDATE on the stream": (b"", raw.window_update(1, 1), IDLE_END),
    "unknown frames": (b"", frame(99, 0, 1, b"what?"), IDLE_END),
    "empty DATA": (HEAD, frame(Kind.DATA, 0, 1), IDLE_END),
    "CONTINUATION": (
        frame(Kind.HEADERS, 0, 1, b"\x88"),
        frame(Kind.CONTINUATION, 0, 1, b"\x00\x01a\x01b"),
        CONTINUATIONS_MAX + 1,
    ),
    "PUSH_PROMISE": (b"", frame(Kind.PUSH_PROMISE, END_HEADERS, 1, bytes(4)), 1),
    "window beyond its end": (b"", raw.window_update(0, (1 << 31) - 1), 2),
    "table bomb": (b"", in_pieces(1, b"\x88" + table_bomb()), 1),
    "heads before the response's": (b"", INFORMATIONAL, IDLE_END),
    "lying frame length": (HEAD, raw.frame_head((1 << 24) - 1, Kind.DATA, 0, 1), 1),
}


@pytest.mark.parametrize("name", FLOODS)
async def test_a_flood_ends_the_connection_within_the_bound(name):
    opening, unit, units_max = FLOODS[name]
    async with called() as (peer, call):
        peer.write(opening)
        said = 0
        while said < UNITS_MAX and not peer.is_lost:
            peer.write(unit * CHUNK)
            said += CHUNK
            await turns()
        assert said <= units_max + CHUNK
        async with asyncio.timeout(PATIENCE_S):
            await peer.until_lost()
            assert await call.code() is StatusCode.UNAVAILABLE


async def test_a_bomb_of_a_server_is_not_unpacked():
    octets = HEAD
    message = raw.message(bomb(), compressed=True)
    for at in range(0, len(message), 16_384):
        octets += frame(Kind.DATA, 0, 1, message[at : at + 16_384])
    async with called() as (peer, call):
        tracemalloc.start()
        peer.write(octets)
        async with asyncio.timeout(PATIENCE_S):
            assert await call.code() is StatusCode.RESOURCE_EXHAUSTED
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak <= 12 << 20


def window_of(peer: RawPeer) -> int:
    """The first window of the client's streams."""
    first = next(each.payload for each in peer.frames if each.kind == Kind.SETTINGS)
    pairs = [first[at : at + 6] for at in range(0, len(first), 6)]
    key = raw.INITIAL_WINDOW_SIZE.to_bytes(2, "big")
    return next(int.from_bytes(pair[2:], "big") for pair in pairs if pair[:2] == key)


async def test_a_stream_that_nobody_reads_is_held_back_by_its_window():
    """The server sends what the windows allow, and no window opens before the caller reads."""
    async with called() as (peer, call):
        peer.write(HEAD)
        window = window_of(peer)
        piece = frame(Kind.DATA, 0, 1, raw.message(bytes(1_019)))
        for _ in range(window // 1_024):
            peer.write(piece)
            await turns(2)
        sent = [
            each for each in peer.frames if each.kind == Kind.WINDOW_UPDATE and each.stream == 1
        ]
        granted = sum(int.from_bytes(each.payload, "big") for each in sent)
        # Only what stands before each message is read at once.
        assert granted <= 5 * (window // 1_024)
        assert await call.read() == bytes(1_019)
