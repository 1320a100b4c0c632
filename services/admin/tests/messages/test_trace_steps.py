"""Steps of traces: each in the name of its user, and nobody spoils those of others."""

from __future__ import annotations

import zlib

import pytest

from ariane.common.v1.message_pb2 import (
    COMPRESSION_LZ4,
    COMPRESSION_UNSPECIFIED,
    COMPRESSION_ZLIB,
    Message,
)
from ariane_admin.messages.message_traces import BODY_BYTES_MAX, STEPS_MAX, life_of, steps_about
from ariane_admin.servicers.message.messages import trace_of
from ariane_record.single.message_trace import TraceKind, TraceStep, encode_steps

BEGUN = TraceStep(TraceKind.CONSUME_BEGIN, "ID", 1700, "g", request_id="r", client_id="c")
ENDED = BEGUN._replace(kind=TraceKind.CONSUME_END, cost_ms=5)


def steps_of(*steps, user="", compression=COMPRESSION_UNSPECIFIED, body=None):
    properties = {"ariane.written_by": user} if user else {}
    body = encode_steps(steps) if body is None else body
    message = Message(body=body, properties=properties, compression=compression)
    return steps_about(message, "ID")


def test_a_trace_step_is_not_ended_by_another_client():
    false_end = ENDED._replace(successful=False, cost_ms=9)
    life = life_of(
        [
            *steps_of(BEGUN, user="anna"),
            *steps_of(ENDED, user="anna"),
            *steps_of(false_end, user="bert"),
        ]
    )
    assert [(step.user, step.successful, step.cost_ms) for step in life] == [("anna", True, 5)]
    assert life[0].row()["user"] == "anna"
    [waits] = life_of([*steps_of(BEGUN), *steps_of(ENDED, user="bert")])
    assert (waits.user, waits.successful, waits.cost_ms) == ("", False, None)


def test_a_step_that_names_no_topic_is_for_who_may_see_all_traces():
    """Clients of RocketMQ name none of deliveries; rights are judged by what is named here."""
    named, unnamed = life_of([*steps_of(BEGUN._replace(topic="orders")), *steps_of(BEGUN)])
    assert trace_of(named).topic == "orders"
    assert trace_of(unnamed).topic == "RMQ_SYS_TRACE_TOPIC"


@pytest.mark.parametrize(
    ("body", "compression"),
    [
        (b"no zlib at all", COMPRESSION_ZLIB),
        (b"no frame", COMPRESSION_LZ4),
        (zlib.compress(bytes(BODY_BYTES_MAX + 1)), COMPRESSION_ZLIB),
        (encode_steps([BEGUN._replace(timestamp_ms=10**300)]), COMPRESSION_UNSPECIFIED),
    ],
)
def test_what_is_damaged_or_too_large_has_no_steps(body, compression):
    assert steps_of(body=body, compression=compression) == []


def test_the_steps_of_one_message_are_bounded():
    steps = [BEGUN._replace(request_id=f"r{n}") for n in range(2 * STEPS_MAX)]
    assert len(steps_of(*steps)) == STEPS_MAX
    packed = zlib.compress(encode_steps([BEGUN]))
    assert steps_of(body=packed, compression=COMPRESSION_ZLIB) == [("", BEGUN)]
