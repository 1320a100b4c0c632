"""Kinds of messages, told from packed records."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.common.v1 import message_pb2 as message_pb
from ariane_broker.errors.public_errors import message_type_mismatch
from ariane_broker.topics.message_types import are_of_type, check_message_types, records_with
from ariane_broker.topics.topic_table import MESSAGE_TYPE_ATTRIBUTE, TopicConfig, TopicMessageType
from ariane_record.decoding.columns import decode_columns
from ariane_record.layout import HEADER_BYTES
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import ServiceError
from ariane_testkit.append_rows import row_of


def block_of(*messages):
    encoder = BlockEncoder("orders", size_bytes_max=1 << 20)
    for place, (body, options) in enumerate(messages):
        encoder.add(body, unique_id=f"id-{place}", born_timestamp_ms=1_700_000_000_000, **options)
    return encoder.finish()


def verdict(kind, block):
    attributes = {MESSAGE_TYPE_ATTRIBUTE: kind}
    config = TopicConfig(
        topic="orders", read_queue_count=1, write_queue_count=1, attributes=attributes
    )
    try:
        check_message_types(block, config)
    except ServiceError as error:
        return error.metadata["actual"]
    return ""


GROUPED = (b"a", {"message_group": "g"})
PLAIN = (b"b", {})
SLY = (b"__SHARDINGKEY\x01g\x02", {"properties": {"x": "__SHARDINGKEY"}})
LONGER = (b"c", {"properties": {"my__SHARDINGKEY": "g"}})


@pytest.mark.parametrize(
    ("kind", "messages", "expected"),
    [
        ("FIFO", [GROUPED, GROUPED], ""),
        ("FIFO", [GROUPED, PLAIN], "NORMAL"),
        ("FIFO", [SLY], "NORMAL"),
        ("FIFO", [LONGER], "NORMAL"),
        ("NORMAL", [PLAIN, SLY, LONGER], ""),
        ("NORMAL", [PLAIN, GROUPED], "FIFO"),
        ("MIXED", [PLAIN, GROUPED], ""),
        ("UNSPECIFIED", [PLAIN, GROUPED], ""),
        ("FIFO", [], ""),
    ],
)
def test_kinds(kind, messages, expected):
    assert verdict(kind, block_of(*messages)) == expected


system_names = ["DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TRAN_MSG"]
records = st.fixed_dictionaries(
    {},
    optional={
        "message_group": st.sampled_from(["", "g", "TRAN_MSG"]),
        "unique_id": st.sampled_from(["", "id"]),
        "properties": st.dictionaries(
            st.sampled_from([*system_names, "xDELAY", "DELAYx", "a"]),
            st.sampled_from(["1", "DELAY", "__SHARDINGKEY"]),
            max_size=1,
        ),
    },
)


@given(
    st.sampled_from(["NORMAL", "FIFO"]),
    st.lists(st.tuples(st.sampled_from([b"", b"\x02DELAY\x011\x02", SLY[0]]), records), min_size=1),
    st.sampled_from([1, 100]),
)
def test_as_each_record_by_itself_says(kind, messages, times):
    encoder = BlockEncoder("orders", size_bytes_max=1 << 22)
    for body, options in messages * times:
        encoder.add(body, born_timestamp_ms=1_700_000_000_000, **options)
    block = encoder.finish()
    expected = ""
    for record in decode_columns(block.records, block.sizes).iter_messages():
        named = [name for name in system_names if name in record.properties]
        if named:
            foreign = "TRANSACTION" if named == ["TRAN_MSG"] else "DELAY"
            expected = min(foreign, expected if expected in {"DELAY", "TRANSACTION"} else "Z")
        elif not expected and (record.message_group != "") is not (kind == "FIFO"):
            expected = "FIFO" if kind == "NORMAL" else "NORMAL"
    assert verdict(kind, block) == expected
    assert are_of_type(block.records, block.sizes, TopicMessageType[kind]) <= (not expected)


@pytest.mark.parametrize("count", [1, 100])
def test_records_that_are_not_what_they_say_are_left_to_the_store(count):
    block = block_of(*[PLAIN] * count)
    length_place = HEADER_BYTES + 1 + len("orders") + 2
    for records, sizes in (
        (block.records[:-1], block.sizes),
        (block.records, block.sizes[:-1]),
        (block.records, block.sizes - 1),
        (bytes(len(block.records)), block.sizes),
        (b"\x7f" * len(block.records), block.sizes),
        (block.records[:length_place] + b"\x7f" + block.records[length_place + 1 :], block.sizes),
    ):
        assert not are_of_type(records, sizes, TopicMessageType.NORMAL) or not len(sizes)
        assert verdict("NORMAL", replace(block, pieces=(records,), sizes=sizes)) == ""


class RawColumns:
    """Records that consist of properties alone, behind a byte each."""

    def __init__(self, texts):
        parts = [text.encode() for text in texts]
        self.records = b"".join(b"\x02" + part for part in parts)
        lengths = np.array([len(part) for part in parts], np.int64)
        self.properties_length = lengths
        self.properties_start = np.cumsum(lengths + 1) - lengths

    def __len__(self):
        return len(self.properties_length)


@pytest.mark.parametrize(
    "name", ["DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TRAN_MSG"]
)
def test_what_comes_later_or_never_is_found(name):
    columns = RawColumns(
        [f"a\x01b\x02{name}\x013\x02", "a\x01b\x02", f"{name}\x013", f"{name}\x01\x02"]
    )
    assert records_with(columns, name).tolist() == [True, False, True, False]


names = st.text("ab", min_size=1, max_size=3)
properties = st.dictionaries(names, st.text("ab", max_size=2), max_size=3)


@given(st.lists(properties, min_size=1, max_size=5), names)
def test_as_a_dictionary_says(messages, name):
    texts = ["".join(f"{k}\x01{v}\x02" for k, v in message.items()) for message in messages]
    expected = [bool(message.get(name)) for message in messages]
    assert records_with(RawColumns(texts), name).tolist() == expected


def test_real_records():
    block = block_of(GROUPED, SLY, PLAIN, GROUPED, LONGER)
    columns = decode_columns(block.records, block.sizes)
    assert records_with(columns, "__SHARDINGKEY").tolist() == [True, False, False, True, False]


async def test_a_packed_batch_of_another_kind_is_refused_whole(broker, reason_of):
    await broker.create_topic("orders", message_type=message_pb.MESSAGE_TYPE_FIFO)
    (result,) = await broker.append(broker.batch("orders", [b"a"]))
    assert reason_of(result.error) == "MESSAGE_TYPE_MISMATCH"
    block = block_of(GROUPED)
    (result,) = await broker.append(row_of(block))
    assert result.error is None
    assert await broker.bodies("orders") == [b"a"]


@pytest.mark.parametrize(
    ("expected", "actual", "advice"),
    [
        ("FIFO", "NORMAL", "set a message group on each message"),
        ("NORMAL", "FIFO", "send without a message group"),
        ("DELAY", "NORMAL", "set a delivery time"),
        ("TRANSACTION", "NORMAL", "send it in a transaction"),
    ],
)
def test_a_refusal_says_what_to_do(expected, actual, advice):
    error = message_type_mismatch("orders", expected, actual)
    assert str(error).startswith(f"topic 'orders' accepts {expected} messages, not {actual}: ")
    assert advice in str(error)
