from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_ordering import java_string_hash
from ariane_record.checksums.checksum import crc32
from ariane_record.errors import IllegalMessageId
from ariane_record.single.message_id import (
    UniqueIdGenerator,
    decode_offset_message_id,
    encode_offset_message_id,
    id_hash_word,
    offset_message_ids,
)


def milliseconds(*when):
    return int(datetime(*when, tzinfo=UTC).timestamp() * 1000)


class SteppedClock:
    """A clock that shows what the test set."""

    def __init__(self, now_ms):
        self.now_ms = now_ms

    def __call__(self):
        return self.now_ms


@pytest.fixture
def clock():
    return SteppedClock(milliseconds(2026, 3, 1, 0, 0, 1))


@pytest.fixture
def generator(clock):
    return UniqueIdGenerator(clock, ip="127.0.0.1", pid=0x1007B, origin=0xCAFE)


def test_golden_offset_message_id():
    assert encode_offset_message_id(("127.0.0.1", 10911), 0) == "7F00000100002A9F0000000000000000"


@given(
    st.ip_addresses().map(str), st.integers(0, 65535), st.integers(0, (1 << 63) - 1), st.booleans()
)
def test_offset_message_id_round_trip(ip, port, commit_log_offset, lower):
    message_id = encode_offset_message_id((ip, port), commit_log_offset)

    assert len(message_id) == (56 if ":" in ip else 32)
    place = decode_offset_message_id(message_id.lower() if lower else message_id)
    assert place == ((ip, port), commit_log_offset)
    assert offset_message_ids((ip, port), [commit_log_offset]) == [message_id]


@pytest.mark.parametrize("text", ["", "7F", "x" * 32, "0" * 31, "0" * 34, "0" * 64, "é" * 32])
def test_what_is_no_offset_message_id(text):
    with pytest.raises(IllegalMessageId):
        decode_offset_message_id(text)


def test_unique_id_has_the_shape_of_the_field(generator):
    #                                 ip       pid  origin   ms of month counter
    assert generator.next_id() == "7F000001007B0000CAFE000003E80000"
    assert generator.next_id() == "7F000001007B0000CAFE000003E80001"


def test_unique_id_with_ipv6(clock):
    generator = UniqueIdGenerator(clock, ip="2001:db8::1", pid=1, origin=2)

    assert generator.next_id() == "20010DB8" + "0" * 23 + "1" + "000100000002000003E80000"


def test_time_goes_on_and_the_counter_with_it(generator, clock):
    generator.next_id()
    clock.now_ms += 0x10

    assert generator.next_id().endswith("000003F80001")


def test_ids_do_not_repeat_when_the_counter_starts_over(generator):
    ids = [generator.next_id() for _ in range(200_000)]

    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)


def test_ids_do_not_repeat_when_the_clock_steps_back(generator, clock):
    ids = []
    for step in (0, 0, 500, -400, 3, 0, -1, 900):
        clock.now_ms += step
        ids += [generator.next_id() for _ in range(70_000)]

    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("before", "after"),
    [((2026, 3, 31, 23, 59, 59), (2026, 4, 1)), ((2026, 12, 31, 23, 59, 59), (2027, 1, 1))],
)
def test_a_new_month_starts_at_zero(before, after):
    clock = SteppedClock(milliseconds(*before))
    generator = UniqueIdGenerator(clock, ip="127.0.0.1", pid=1, origin=0)
    days = before[2]
    last_second = (days * 86400 - 1) * 1000
    assert int(generator.next_id()[20:28], 16) == last_second

    clock.now_ms = milliseconds(*after) + 7

    assert int(generator.next_id()[20:28], 16) == 7


def test_generators_of_one_process_differ_by_origin(clock):
    first = UniqueIdGenerator(clock, ip="127.0.0.1", pid=1, origin=1)
    second = UniqueIdGenerator(clock, ip="127.0.0.1", pid=1, origin=2)

    assert first.next_id() != second.next_id()


@pytest.mark.parametrize("ip", ["127.0.0.1", "2001:db8::1"])
def test_many_ids_are_those_that_would_have_come_one_by_one(clock, ip):
    one_by_one = UniqueIdGenerator(clock, ip=ip, pid=1, origin=2)
    at_once = UniqueIdGenerator(clock, ip=ip, pid=1, origin=2)

    for count, step in ((3, 0), (70_000, 5), (65_536, -900), (1, 2000)):
        clock.now_ms += step
        expected = [one_by_one.next_id() for _ in range(count)]
        assert at_once.next_ids(count).texts() == expected
        assert at_once.next_id() == one_by_one.next_id()


def test_many_ids_at_the_end_of_a_month_are_all_different():
    clock = SteppedClock(milliseconds(2026, 4, 1) - 1)
    generator = UniqueIdGenerator(clock, ip="127.0.0.1", pid=1, origin=0)

    ids = generator.next_ids(150_000).texts()

    assert len(set(ids)) == len(ids)
    assert int(ids[-1][20:28], 16) == 1


@pytest.mark.parametrize("used_before", [0, 65_000])
def test_many_ids_have_the_hashes_and_sums_of_their_texts(used_before):
    generator = UniqueIdGenerator(lambda: 1_700_000_000_000, ip="10.0.0.1", pid=1, origin=2)
    if used_before:
        generator.next_ids(used_before)
    ids = generator.next_ids(1000)
    texts = ids.texts()
    assert [row.tobytes().decode() for row in ids.digits] == texts
    assert len(ids) == len(set(texts)) == 1000
    assert ids.hash_words.view(np.int32).tolist() == [java_string_hash(text) for text in texts]
    alone = np.array([id_hash_word(text) & 0xFFFFFFFF for text in texts[:99]], np.uint32)
    assert alone.tolist() == ids.hash_words[:99].tolist()
    assert ids.pair_crcs.tolist() == [crc32(text.encode() + b"\x02") for text in texts]


@pytest.mark.parametrize(
    ("begin", "end"), [(0, 1000), (3, 536), (500, 600), (536, 540), (999, 1000)]
)
def test_some_of_many_ids_are_those_between(begin, end):
    generator = UniqueIdGenerator(lambda: 1_700_000_000_000, ip="10.0.0.1", pid=1, origin=2)
    generator.next_ids(65_000)
    ids = generator.next_ids(1000)
    assert ids.part(begin, end).texts() == ids.texts()[begin:end]
