"""Plain messages of many blocks in one go: byte for byte what the encoder makes of each block."""

from enum import Enum

from hypothesis import given
from hypothesis import strategies as st

from ariane_record import BlockEncoder, ProducerSequence
from ariane_record.encoding.plain_blocks import (
    PlainRun,
    encode_plain_run,
    encode_plain_runs,
)
from ariane_record.encoding.plain_topic import TAG_BYTES_MAX, TAGS_KEPT_MAX, PlainTopic
from ariane_record.single.message_id import IdRun, UniqueIds

BORN_MS = 1_700_000_000_000

messages = st.lists(
    st.tuples(st.binary(max_size=40), st.sampled_from(["", "created", "größe"])),
    min_size=1,
    max_size=8,
)


@given(
    blocks=st.lists(
        st.tuples(st.sampled_from(["orders", "t" * 127, "täglich"]), messages),
        min_size=1,
        max_size=6,
    ),
    repeats=st.sampled_from([1, 60]),
    sequenced=st.booleans(),
    width=st.sampled_from([32, 56]),
)
def test_they_are_what_the_encoder_makes(blocks, repeats, sequenced, width):
    count = sum(len(each) * repeats for _, each in blocks)
    unique_ids = UniqueIds([IdRun(f"{0xABCDEF:0{width - 4}X}", 0x12FC, 0x12FC + count)])
    texts = unique_ids.texts()
    topics = {topic: PlainTopic(topic, id_bytes=width) for topic, _ in blocks}
    place = 0
    runs, sequences, expected, one_by_one = [], [], [], []
    for number, (topic, each) in enumerate(blocks):
        encoder = BlockEncoder(topic, size_bytes_max=1 << 20, sequenced=sequenced)
        run = PlainRun(topics[topic], sequenced=sequenced)
        for body, tag in each * repeats:
            born_ms = BORN_MS + place
            size = encoder.add(body, tag=tag, unique_id=texts[place], born_timestamp_ms=born_ms)
            shape = run.topic.shapes.get(tag) or run.topic.shape_of(tag)
            assert run.add(body, shape, born_ms) == size
            place += 1
        assert run.size_bytes == encoder.size_bytes
        sequences.append(ProducerSequence(7, 1, 42 + number) if sequenced else None)
        expected.append(encoder.finish(sequences[-1]))
        runs.append(run)
        own_texts = texts[place - len(run.bodies) : place]
        one_by_one.append(encode_plain_run(run, sequences[-1], own_texts))

    found = list(encode_plain_runs(runs, sequences, unique_ids))

    assert len(found) == len(expected)
    for block, wanted in zip(found + one_by_one, expected * 2, strict=True):
        assert block.topic == wanted.topic
        assert block.records == wanted.records
        assert block.crc32 == wanted.crc32
        for name in ("sizes", "tag_codes", "key_counts", "key_hashes"):
            assert getattr(block, name).dtype == getattr(wanted, name).dtype
            assert getattr(block, name).tolist() == getattr(wanted, name).tolist()
        if wanted.record_crcs is None:
            assert block.record_crcs is None
        else:
            assert block.record_crcs.tolist() == wanted.record_crcs.tolist()


@given(each=messages, sequenced=st.booleans(), chosen=st.data())
def test_what_is_taken_back_was_never_there(each, sequenced, chosen):
    topic = PlainTopic("orders", id_bytes=32)
    position = chosen.draw(st.integers(0, len(each) - 1))

    def run_of(pairs):
        run = PlainRun(topic, sequenced=sequenced)
        for body, tag in pairs:
            run.add(body, topic.shape_of(tag), BORN_MS)
        return run

    whole, wanted = run_of(each), run_of(each[:position] + each[position + 1 :])
    before = whole.size_bytes

    assert whole.take_back(position) == before - wanted.size_bytes
    for name in PlainRun.__slots__:
        assert getattr(whole, name) == getattr(wanted, name)


@given(bodies=st.lists(st.binary(max_size=30), min_size=1), sequenced=st.booleans())
def test_messages_taken_together_are_as_if_they_came_one_by_one(bodies, sequenced):
    topic = PlainTopic("orders", id_bytes=32)
    shape = topic.shape_of("created")
    together, singly = (PlainRun(topic, sequenced=sequenced) for _ in range(2))
    for body in bodies * 2:
        singly.add(body, shape, BORN_MS)
    for _ in range(2):
        together.extend(bodies, shape, BORN_MS)

    for name in PlainRun.__slots__:
        assert getattr(together, name) == getattr(singly, name)


def test_a_member_of_an_enumeration_is_its_text():
    class Name(str, Enum):  # noqa: UP042 - those of StrEnum are formatted as their text.
        TAG = "created"
        TOPIC = "orders"

    def block_of(topic, tag):
        encoder = BlockEncoder(topic, size_bytes_max=1 << 20)
        encoder.add(b"x", tag=tag, message_group=tag, unique_id="7" * 32, born_timestamp_ms=BORN_MS)
        return encoder.finish()

    block, wanted = block_of(Name.TOPIC, Name.TAG), block_of("orders", "created")
    assert block.records == wanted.records
    assert block.key_hashes.tolist() == wanted.key_hashes.tolist()

    topic, plain = PlainTopic(Name.TOPIC, id_bytes=32), PlainTopic("orders", id_bytes=32)
    assert topic.hash_before_id == plain.hash_before_id
    assert topic.shape_of(Name.TAG) == plain.shape_of("created") == topic.shapes["created"]
    assert type(topic.shapes["created"].tag) is str


def test_what_is_not_plain_has_no_shape():
    topic = PlainTopic("orders", id_bytes=32)
    assert topic.shape_of("x" * TAG_BYTES_MAX) is None
    assert topic.shape_of("\ud800") is None
    assert PlainTopic("t" * 128, id_bytes=32).shape_of("") is None
    assert not topic.shapes


def test_shapes_are_forgotten_when_they_are_too_many():
    topic = PlainTopic("orders", id_bytes=32)
    for number in range(TAGS_KEPT_MAX + 1):
        topic.shape_of(f"tag-{number}")
    assert list(topic.shapes) == [f"tag-{TAGS_KEPT_MAX}"]
