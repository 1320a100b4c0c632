"""Chunks of the log on the wire are what Protocol Buffers reads and writes."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError

from ariane.replication.v1.log_service_pb2 import FollowLogResponse, LogChunk, PrimaryHeartbeat
from ariane_broker.following.log_wire import log_response
from ariane_broker.rpc.servicers.replication_servicers import chunk_response

HEAD = LogChunk(commit_log_offset=7, epoch=3, log_crc32=0xFFFFFFFF)


@pytest.mark.parametrize("log_bytes", [b"x", b"record" * 50_000], ids=["one", "many"])
def test_a_chunk_is_the_same_either_way(log_bytes):
    raw = chunk_response(HEAD, memoryview(log_bytes))
    whole = LogChunk(log_bytes=log_bytes)
    whole.MergeFrom(HEAD)
    assert FollowLogResponse.FromString(raw) == FollowLogResponse(chunk=whole)
    found = log_response(FollowLogResponse(chunk=whole).SerializeToString())
    assert (found.message, found.log_bytes) == (FollowLogResponse(chunk=HEAD), log_bytes)
    assert log_response(raw) == found


def test_other_responses_and_broken_ones_are_read_as_they_are():
    heartbeat = FollowLogResponse(heartbeat=PrimaryHeartbeat(epoch=3))
    assert log_response(heartbeat.SerializeToString()) == (heartbeat, b"")
    assert log_response(b"") == (FollowLogResponse(), b"")
    for broken in (b"\x12", b"\x12\x05ab", chunk_response(HEAD, b"log")[:-1], b"\x12\x02\x7a\x09"):
        with pytest.raises(DecodeError):
            log_response(broken)
