"""What a server may say of a call that it does not answer, and what the client makes of it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
import raw_frames as raw
from grpc import StatusCode
from raw_frames import ACK, END_HEADERS, END_STREAM, Kind, RawPeer, frame

import ariane_wire

HEAD = raw.block([(":status", "200"), ("content-type", "application/grpc")])
TRAILERS = raw.block([("grpc-status", "14")])
INTERNAL_ERROR = 2


def goaway(last: int, code: int = raw.NO_ERROR) -> bytes:
    return frame(Kind.GOAWAY, 0, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big"))


def head(stream: int = 1) -> bytes:
    return frame(Kind.HEADERS, END_HEADERS, stream, HEAD)


def trailers(stream: int = 1) -> bytes:
    return frame(Kind.HEADERS, END_HEADERS | END_STREAM, stream, TRAILERS)


@asynccontextmanager
async def scripted_server(answer: bytes, *, greets: bool = True):
    """A server that answers the first call with some octets and hangs up; gives its address."""
    peers: list[RawPeer] = []

    def take() -> RawPeer:
        peers.append(RawPeer.of_server())
        serving.append(asyncio.create_task(serve(peers[-1])))
        return peers[-1]

    async def serve(peer: RawPeer) -> None:
        if greets:
            # The client says its SETTINGS first.
            await peer.until(lambda each: each.kind == Kind.SETTINGS)
            peer.write(raw.settings() + raw.SETTINGS_ACK)
            await peer.until(lambda each: bool(each.stream and each.flags & END_STREAM))
            peer.write(answer)
            peer.write(frame(Kind.PING, payload=b"all read"))
            await peer.until(lambda each: each.kind == Kind.PING and bool(each.flags & ACK))
        else:
            await peer.until(lambda each: each.kind == Kind.SETTINGS)
        await peer.close()

    serving: list[asyncio.Task[None]] = []
    listener = await asyncio.get_running_loop().create_server(take, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        for peer in peers:
            await peer.close()


async def failure_of(address: str) -> ariane_wire.CallFailed:
    """How a call fails."""
    async with ariane_wire.insecure_channel(address) as channel:
        with pytest.raises(ariane_wire.CallFailed) as caught:
            async with asyncio.timeout(30):
                await channel.unary_unary("/scripted.Scripted/Call")(b"x")
    return caught.value


NOT_PROCESSED = {
    "refused": raw.rst_stream(1, raw.REFUSED_STREAM),
    "beyond the last stream": goaway(0),
    "beyond the last stream, and gone at once": goaway(0, raw.ENHANCE_YOUR_CALM),
    "drained, and then beyond the last one": goaway((1 << 31) - 1) + goaway(0),
}
UNKNOWN = {
    "nothing": b"",
    "reset": raw.rst_stream(1, INTERNAL_ERROR),
    "reset without a fault": raw.rst_stream(1, raw.NO_ERROR),
    "within the last stream": goaway(1),
    "drained only": goaway((1 << 31) - 1),
    "a head": head(),
    "a head and then refused": head() + raw.rst_stream(1, raw.REFUSED_STREAM),
    "a head and then beyond the last stream": head() + goaway(0),
    "a response without a status": head() + frame(Kind.DATA, 0, 1, raw.message(b"y")),
    "a status": head() + trailers(),
    "a status alone": frame(
        Kind.HEADERS,
        END_HEADERS | END_STREAM,
        1,
        raw.block(
            [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "14")]
        ),
    ),
    "an answer of HTTP": frame(
        Kind.HEADERS, END_HEADERS | END_STREAM, 1, raw.block([(":status", "503")])
    ),
}


@pytest.mark.parametrize("answer", NOT_PROCESSED)
async def test_a_call_that_the_server_disowns_was_never_processed(answer):
    async with scripted_server(NOT_PROCESSED[answer]) as address:
        failure = await failure_of(address)
        assert failure.code() is StatusCode.UNAVAILABLE
        assert failure.never_processed


@pytest.mark.parametrize("answer", UNKNOWN)
async def test_of_a_call_that_the_server_has_taken_it_is_not_known(answer):
    async with scripted_server(UNKNOWN[answer]) as address:
        assert not (await failure_of(address)).never_processed


async def test_a_call_was_never_processed_if_there_was_no_connection():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        failure = await failure_of(f"127.0.0.1:{probe.getsockname()[1]}")
    assert failure.code() is StatusCode.UNAVAILABLE
    assert failure.never_processed


async def test_a_call_was_never_processed_if_the_server_never_greeted():
    async with scripted_server(b"", greets=False) as address:
        failure = await failure_of(address)
        assert failure.code() is StatusCode.UNAVAILABLE
        assert failure.never_processed


@pytest.mark.parametrize(
    ("seconds", "code"), [(100, StatusCode.CANCELLED), (-1, StatusCode.DEADLINE_EXCEEDED)]
)
async def test_a_server_that_gives_up_after_the_deadline_does_so_for_it(seconds, code):
    async with (
        scripted_server(raw.rst_stream(1, raw.CANCEL)) as address,
        ariane_wire.insecure_channel(address) as channel,
    ):
        call = channel.unary_unary("/scripted.Scripted/Call")(b"x", timeout=100)
        # The deadline has passed, and our own timer has yet to run.
        call.deadline_s = asyncio.get_running_loop().time() + seconds
        assert await call.code() is code
