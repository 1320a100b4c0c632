"""Records of the broker's own: written as any other would be that has the same in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ariane_record import RecordFields, decode_record, encode_block
from ariane_record.single.message import EMPTY_HOST
from ariane_storage import BlockRejected, IllegalQueue, StoreClosed
from ariane_storage.testing import block_of

HOSTS = [("127.0.0.1", 10911), ("2001:db8::7", 10911)]


@pytest.fixture(params=HOSTS, ids=["IPv4", "IPv6"])
def bench_at(request, bench):
    bench.config = replace(bench.config, store_host=request.param)
    return bench


def written(store):
    return store.copying.read(0, store.max_offset)


@pytest.mark.parametrize("topic", ["events", "t" * 200], ids=["V1", "V2"])
@pytest.mark.parametrize("size", [0, 1, 700])
def test_the_bytes_are_those_of_a_table(bench_class, bench_at, topic, size):
    own, other = bench_at.open(), bench_class(config=bench_at.config).open()
    for store in own, other:
        store.append(block_of("flights", [b"first"]), 0)
    body = bytes(range(256)) * 3
    fields = RecordFields(
        topic=topic,
        body=body[:size],
        properties={},
        born_timestamp_ms=bench_at.clock.time_ms,
    )
    for _ in range(2):
        begin, end = own.append_own(topic, 3, body[:size])
        appended = other.append(encode_block(topic, [fields]), 3, born_host=EMPTY_HOST)
        assert (begin, end) == tuple(appended.edges)
    assert written(own) == written(other)
    own.close()
    other.close()


def test_they_are_read_back_also_after_a_restart(bench):
    store = bench.open()
    places = [store.append_own("events", 0, b"%d" % number)[0] for number in range(3)]
    assert store.append_own("events", 0, b"3")[1] == store.max_offset
    store.close()
    store = bench.open()
    read = store.read_queue("events", 0, 0, max_count=9, max_bytes=1 << 20)
    assert read.count == 4
    assert [store.message_at(place).body for place in places] == [b"0", b"1", b"2"]
    record = store.copying.read(places[2], places[2] + (places[1] - places[0]))
    assert decode_record(record).queue_offset == 2
    store.close()


def test_they_fill_a_segment_and_begin_the_next(bench):
    store = bench.open()
    begin, end = store.append_own("events", 0, b"x" * 1000)
    while begin < bench.config.segment_bytes:
        begin, end = store.append_own("events", 0, b"x" * 1000)
    assert begin == bench.config.segment_bytes
    assert store.max_offset == end
    store.close()


def test_what_is_wrong_is_refused_and_nothing_written(bench):
    store = bench.open()
    with pytest.raises(BlockRejected, match="larger than"):
        store.append_own("events", 0, bytes(bench.config.record_bytes_max))
    with pytest.raises(IllegalQueue):
        store.append_own("../events", 0, b"x")
    assert store.max_offset == 0
    store.close()
    with pytest.raises(StoreClosed):
        store.append_own("events", 0, b"x")
