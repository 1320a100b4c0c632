"""The messages of many rows in one go: byte for byte what the encoder makes of each row."""

from enum import Enum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record import ProducerSequence
from ariane_record.checksums.checksum import crc32
from ariane_record.encoding.message_properties import TAGS_KEPT_MAX, TopicProperties
from ariane_record.encoding.row_encoder import MessageRow, encode_rows
from ariane_record.errors import IllegalProperty, RecordTooLarge
from ariane_record.layout import PRODUCER_PROPERTIES_BYTES_MAX
from ariane_record.single.message_id import IdRun, UniqueIds
from ariane_record.single.producer_sequence import SEQUENCE_BYTES
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_record.testing.strategies import message_arguments, topic_names

BORN_MS = 1_700_000_000_000
ID = "7" * 32

usual = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=40),
        "born_timestamp_ms": st.integers(0, 1 << 42),
        "tag": st.sampled_from(["", "created", "größe"]),
    }
)


def ids_of(count, width=32):
    return UniqueIds([IdRun(f"{0xABCDEF:0{width - 4}X}", 0x12FC, 0x12FC + count)])


def rows_of(rows, sequences):
    """Rows, each of a topic and the arguments of its messages, to be encoded."""
    made = []
    for (topic, messages), sequence in zip(rows, sequences, strict=True):
        row = MessageRow()
        row.topic_properties, row.messages, row.sequence = topic, [], sequence
        row.size_bytes = 0 if sequence is None else SEQUENCE_BYTES
        for arguments in messages:
            own = {**arguments}
            body, born_ms = own.pop("body"), own.pop("born_timestamp_ms")
            properties = topic.encode(**own)
            row.messages.append((body, properties, born_ms, "whatever else"))
            row.size_bytes += len(body) + properties.overhead_bytes
        made.append(row)
    return made


@given(
    rows=st.lists(
        st.tuples(
            topic_names(),
            st.lists(usual | message_arguments(), min_size=1, max_size=6)
            | st.lists(usual, min_size=1, max_size=6),
        ),
        min_size=1,
        max_size=5,
    ),
    repeats=st.sampled_from([1, 60]),
    streams=st.lists(st.booleans(), min_size=5, max_size=5),
    width=st.sampled_from([32, 56]),
)
def test_rows_are_encoded_as_the_block_encoder_would(rows, repeats, streams, width):
    rows = [(topic, messages * repeats) for topic, messages in rows]
    unique_ids = ids_of(sum(len(messages) for _, messages in rows), width)
    texts = iter(unique_ids.texts())
    expected, sequences = [], []
    for number, ((topic, messages), sequenced) in enumerate(zip(rows, streams, strict=False)):
        encoder = BlockEncoder(topic, size_bytes_max=1 << 24, sequenced=sequenced)
        for arguments in messages:
            text = next(texts)
            encoder.add(**{**arguments, "unique_id": arguments.get("unique_id") or text})
        sequence = ProducerSequence(7, 1, 42 + number) if sequenced else None
        sequences.append(sequence)
        expected.append(encoder.finish(sequence))

    topics = {topic: TopicProperties(topic, id_bytes=width, sequenced=True) for topic, _ in rows}
    table = rows_of([(topics[topic], messages) for topic, messages in rows], sequences)
    found = encode_rows(table, unique_ids)

    assert found.records == b"".join(block.records for block in expected)
    for name in ("sizes", "tag_codes", "key_counts", "key_hashes"):
        columns = [getattr(block, name) for block in expected]
        assert getattr(found, name).dtype == columns[0].dtype
        assert getattr(found, name).tolist() == np.concatenate(columns).tolist()
    assert found.crc32 == crc32(found.records)
    each = found.rows()
    for row, wanted in zip(each, expected, strict=True):
        check_same(row, wanted)
    for number, (row, sequence) in enumerate(zip(each, sequences, strict=True)):
        if sequence is None:
            continue
        elsewhere = ProducerSequence(8, 2, number)
        check_same(row.with_sequence(elsewhere), expected[number].with_sequence(elsewhere))


def check_same(block, wanted):
    assert block.topic == wanted.topic
    assert bytes(block.records) == bytes(wanted.records)
    assert block.crc32 == wanted.crc32
    for name in ("sizes", "tag_codes", "key_counts", "key_hashes"):
        assert getattr(block, name).dtype == getattr(wanted, name).dtype
        assert getattr(block, name).tolist() == getattr(wanted, name).tolist()


REFUSED = {
    "a control character": {"tag": "a\nb"},
    "no text": {"tag": "\ud800"},
    "a separator in a value": {"properties": {"a": "b\x02c\x01d"}},
    "an empty value": {"properties": {"a": ""}},
    "a property of its own": {"properties": {"TAGS": "a"}},
    "a key with a space": {"keys": ("a b",)},
    "too many keys": {"keys": [str(number) for number in range(255)]},
    "too large a tag": {"tag": "x" * PRODUCER_PROPERTIES_BYTES_MAX},
    "too large a group": {"message_group": "x" * PRODUCER_PROPERTIES_BYTES_MAX},
    "a group with a control character": {"message_group": "\x01"},
    "hosts of its own": {"system_flag": 1 << 4},
    "a flag of many bits": {"flag": 1 << 31},
    "one text as keys": {"keys": "key"},
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("sequenced", [False, True])
def test_the_block_encoder_and_the_row_encoder_refuse_alike(arguments, sequenced):
    encoder = BlockEncoder("orders", size_bytes_max=1 << 20, sequenced=sequenced)
    topic = TopicProperties("orders", id_bytes=len(ID), sequenced=sequenced)
    with pytest.raises(Exception) as expected:  # noqa: PT011 - whichever it is.
        encoder.add(b"x", unique_id=ID, born_timestamp_ms=BORN_MS, **arguments)
    with pytest.raises(type(expected.value)):
        topic.encode(**arguments)


@pytest.mark.parametrize("sequenced", [False, True])
def test_properties_have_the_room_that_the_encoder_gives_them(sequenced):
    def fits(length):
        encoder = BlockEncoder("orders", size_bytes_max=1 << 20, sequenced=sequenced)
        topic = TopicProperties("orders", id_bytes=len(ID), sequenced=sequenced)
        outcomes = []
        for encode in (
            lambda: encoder.add(b"", tag="x" * length, unique_id=ID, born_timestamp_ms=BORN_MS),
            lambda: topic.of_tag("x" * length),
        ):
            try:
                encode()
            except RecordTooLarge:
                outcomes.append(False)
            else:
                outcomes.append(True)
        assert len(set(outcomes)) == 1
        return outcomes[0]

    most = next(length for length in range(31_743, 31_500, -1) if fits(length))
    assert not fits(most + 1)
    assert fits(most - 1)


def test_a_member_of_an_enumeration_is_its_text():
    class Name(str, Enum):  # noqa: UP042 - those of StrEnum are formatted as their text.
        TAG = "created"
        TOPIC = "orders"

    def block_of(topic, tag):
        encoder = BlockEncoder(topic, size_bytes_max=1 << 20)
        encoder.add(b"x", tag=tag, message_group=tag, unique_id=ID, born_timestamp_ms=BORN_MS)
        return encoder.finish()

    block, wanted = block_of(Name.TOPIC, Name.TAG), block_of("orders", "created")
    assert block.records == wanted.records
    assert block.key_hashes.tolist() == wanted.key_hashes.tolist()

    topic, plain = (
        TopicProperties(name, id_bytes=32, sequenced=True) for name in (Name.TOPIC, "orders")
    )
    assert topic.hash_before_id == plain.hash_before_id
    assert topic.of_tag(Name.TAG) == plain.of_tag("created") == topic.of_tags["created"]
    assert [type(tag) for tag in topic.of_tags] == [str]
    grouped = {"message_group": Name.TAG, "tag": Name.TAG}
    assert topic.encode(**grouped) == plain.encode(message_group="created", tag="created")


def test_a_tag_that_breaks_a_rule_is_not_kept():
    topic = TopicProperties("orders", id_bytes=32, sequenced=False)
    with pytest.raises(IllegalProperty):
        topic.of_tag("\ud800")
    with pytest.raises(RecordTooLarge):
        topic.of_tag("x" * 40_000)
    assert topic.of_tag("x" * 300).tag_code
    assert not topic.of_tags


def test_properties_of_tags_are_forgotten_when_they_are_too_many():
    topic = TopicProperties("orders", id_bytes=32, sequenced=False)
    for number in range(TAGS_KEPT_MAX + 1):
        topic.of_tag(f"tag-{number}")
    assert list(topic.of_tags) == [f"tag-{TAGS_KEPT_MAX}"]
