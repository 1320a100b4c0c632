"""Steps of message traces as bytes, as RocketMQ's client lays them out."""

import pytest

from ariane_record.single.message_trace import (
    TraceDamaged,
    TraceKind,
    TraceStep,
    decode_steps,
    encode_steps,
)

COMMON = {"timestamp_ms": 1700, "group": "g", "keys": ("k1", "k2"), "client_id": "c"}
SENT = TraceStep(
    TraceKind.SEND,
    "ID",
    topic="orders",
    tag="t",
    store_host="h:1",
    body_bytes=3,
    cost_ms=4,
    message_type=3,
    trace_parent="00-a-b-01",
    **COMMON,
)
CONSUMED = {"topic": "orders", "request_id": "r", **COMMON}
BEGUN = TraceStep(TraceKind.CONSUME_BEGIN, "ID", attempts=2, **CONSUMED)
ENDED = TraceStep(TraceKind.CONSUME_END, "ID", cost_ms=9, successful=False, **CONSUMED)
DECIDED = TraceStep(
    TraceKind.END_TRANSACTION, "ID", topic="orders", state="COMMIT", message_type=1, **COMMON
)
RECALLED = TraceStep(TraceKind.RECALL, "ID", 1700, "g", "orders", client_id="c")


def test_what_is_told_is_read_back():
    steps = [SENT, BEGUN, ENDED, DECIDED, RECALLED]
    assert decode_steps(encode_steps(steps)) == steps
    assert decode_steps(b"") == []


def test_the_layout_is_that_of_rocketmq():
    rocketmq = (
        "Pub\x011700\x01DefaultRegion\x01g\x01orders\x01ID\x01t\x01k1 k2\x01h:1\x013\x014\x013"
        "\x017F\x01true\x02"
        "SubBefore\x011700\x01DefaultRegion\x01g\x01r\x01ID\x012\x01k1 k2\x02"
        "SubAfter\x01r\x01ID\x019\x01false\x01k1 k2\x010\x02"
        "SomethingNew\x011\x02"
    )
    sent, begun, ended = decode_steps(rocketmq.encode())

    assert sent == SENT._replace(client_id="", trace_parent="")
    assert begun == BEGUN._replace(client_id="", topic="")
    assert (ended.request_id, ended.cost_ms, ended.successful) == ("r", 9, False)
    ours = encode_steps([SENT]).decode()
    assert ours.startswith(rocketmq[: rocketmq.index("\x017F")])


@pytest.mark.parametrize(
    "body",
    [
        b"Pub\x01x\x02",
        b"Pub\x02",
        b"SubBefore\x01soon\x01\x01\x02",
        encode_steps([RECALLED._replace(timestamp_ms=1 << 60)]),
        encode_steps([RECALLED._replace(timestamp_ms=-1)]),
        encode_steps([BEGUN._replace(attempts=1 << 31)]),
        encode_steps([ENDED._replace(cost_ms=-(1 << 31))]),
    ],
)
def test_what_is_no_step_is_refused(body):
    with pytest.raises(TraceDamaged):
        decode_steps(body)


def test_of_a_large_message_only_steps_about_one_message_are_read():
    others = [BEGUN._replace(unique_id=f"O{n}", request_id=f"r{n}") for n in range(5)]
    body = encode_steps([*others, BEGUN, ENDED, *others, RECALLED]) + b"Pub\x01damaged\x02"
    assert decode_steps(body, about="ID") == [BEGUN, ENDED, RECALLED]
    assert decode_steps(body, about="ID", count_max=2) == [BEGUN, ENDED]
    with pytest.raises(TraceDamaged):
        decode_steps(body)
