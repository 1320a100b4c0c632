"""Requests of HTTP that are no calls of gRPC, and frames on streams that have ended."""

from __future__ import annotations

import pytest
import raw_frames as raw
from both_ends import serving
from interop_service import serving_interop
from raw_frames import END_HEADERS, END_STREAM, Frame, Kind, RawPeer, frame

import ariane_wire

EMPTY_CALL = "/grpc.testing.TestService/EmptyCall"
STREAM_CLOSED = 5
GET = [(":method", "GET"), *raw.request_fields("/")[1:]]
WITHOUT_TYPE = raw.request_fields(EMPTY_CALL)[:-1]


def code_of(fault: Frame | None) -> int:
    """What an RST_STREAM or a GOAWAY says."""
    assert fault is not None, "the connection ended without a word"
    return int.from_bytes(
        fault.payload[-4:] if fault.kind == Kind.RST_STREAM else fault.payload[4:8]
    )


def is_fault(each: Frame) -> bool:
    return each.kind in {Kind.RST_STREAM, Kind.GOAWAY}


@pytest.mark.parametrize(
    ("fields", "status"), [(GET, "405"), (WITHOUT_TYPE, "415")], ids=["GET", "POST"]
)
async def test_a_request_that_is_no_call_is_answered_as_http_when_it_is_whole(fields, status):
    async with serving(ariane_wire) as address, await RawPeer.introduced(address) as peer:
        peer.write(frame(Kind.HEADERS, END_HEADERS, 1, raw.block(fields)))
        peer.write(frame(Kind.DATA, 0, 1, b"name=value"))
        peer.write(frame(Kind.PING, payload=b"are you?"))
        await peer.until(lambda each: each.kind == Kind.PING)
        assert [each for each in peer.frames if each.stream] == []
        peer.write(frame(Kind.DATA, END_STREAM, 1, b"&more"))
        text = await peer.until(lambda each: each.kind == Kind.DATA)
        [head] = [each for each in peer.frames if each.kind == Kind.HEADERS]
        assert peer.fields(head)[":status"] == status
        assert b"application/grpc" in text.payload
        assert text.flags & END_STREAM


async def test_a_body_that_is_not_as_long_as_it_said_is_a_fault():
    async with serving(ariane_wire) as address, await RawPeer.introduced(address) as peer:
        fields = [*GET, ("content-length", "3")]
        peer.write(frame(Kind.HEADERS, END_HEADERS, 1, raw.block(fields)))
        peer.write(frame(Kind.DATA, END_STREAM, 1, b"1234"))
        assert code_of(await peer.until(is_fault)) == raw.PROTOCOL_ERROR


async def test_a_window_of_one_octet_lets_the_text_through_by_octets():
    async with (
        serving(ariane_wire) as address,
        await RawPeer.introduced(address, (raw.INITIAL_WINDOW_SIZE, 1)) as peer,
    ):
        peer.write(frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, raw.block(GET)))
        first = await peer.until(lambda each: each.kind == Kind.DATA)
        assert len(first.payload) == 1
        peer.write(raw.window_update(1, 1_000))
        await peer.until(lambda each: each.kind == Kind.DATA and each.flags & END_STREAM)


@pytest.mark.parametrize("fields", [GET, raw.request_fields(EMPTY_CALL)], ids=["GET", "call"])
@pytest.mark.parametrize(
    "late",
    [
        frame(Kind.DATA, END_STREAM, 1, b"x"),
        frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, raw.block(GET)),
    ],
    ids=["DATA", "HEADERS"],
)
async def test_frames_of_a_client_that_has_ended_its_stream_are_faults(fields, late):
    async with serving_interop(ariane_wire) as address, await RawPeer.introduced(address) as peer:
        peer.write(frame(Kind.HEADERS, END_HEADERS, 1, raw.block(fields)))
        peer.write(frame(Kind.DATA, END_STREAM, 1, raw.message(b"")))
        await peer.until(lambda each: bool(each.stream and each.flags & END_STREAM))
        peer.write(late)
        assert code_of(await peer.until(is_fault)) == STREAM_CLOSED


@pytest.mark.parametrize(
    "late", [frame(Kind.DATA, 0, 1, b"x"), raw.call_head(1, EMPTY_CALL)], ids=["DATA", "HEADERS"]
)
async def test_frames_after_the_client_s_own_reset_are_faults(late):
    async with serving_interop(ariane_wire) as address, await RawPeer.introduced(address) as peer:
        peer.write(raw.call_head(1, EMPTY_CALL) + raw.rst_stream(1) + late)
        assert code_of(await peer.until(is_fault)) == STREAM_CLOSED
