"""All ways of appending write the same bytes, and refuse the same blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ariane_record import ProducerSequence, RecordFields, decode_record, encode_block, encode_record
from ariane_record.checksums.checksum import crc32, range_crcs
from ariane_record.checksums.crc_algebra import zero_shift
from ariane_record.encoding.record_table import RECORD_CRCS_COUNT_MIN
from ariane_record.layout import PropertyName
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import BlockRejected
from ariane_storage.testing import block_of
from ariane_storage.writing.append import Places, host_field
from ariane_storage.writing.few_records import FEW, FewRecords
from ariane_storage.writing.record_crcs import like_holes
from ariane_storage.writing.table_check import TableLimits, check_table
from storage.tests.writing.block_oracle import check_block

LIMITS = TableLimits(record_bytes_max=1 << 20, table_bytes_max=1 << 22)
HOSTS = (
    host_field(("10.1.2.3", 4711))
    + (1_700_000_000_001).to_bytes(8, "big")
    + host_field(("127.0.0.1", 10911))
)
PLACES = Places(1_000_000, (3,), (250,))

messages = st.tuples(
    st.binary(max_size=300),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=8),
)

sequences = st.sampled_from([None, ProducerSequence(7, 1, 42)])


def block_from(topic, rows, sequence=None):
    encoder = BlockEncoder(topic, size_bytes_max=1 << 22, sequenced=sequence is not None)
    for body, tag in rows:
        encoder.add(body, tag=tag, keys=("k",), unique_id="id", born_timestamp_ms=5)
    return encoder.finish(sequence)


def summed(block):
    """A block with the sums of its records, however few they are."""
    ends = np.cumsum(block.sizes, dtype=np.int64)
    crcs = range_crcs(memoryview(block.records), ends - block.sizes, ends - 20)
    return replace(block, record_crcs=crcs)


def placed(records, size):
    target = memoryview(bytearray(size + 64))
    starts, edges, entries = records.place(target, 32, HOSTS, PLACES)
    assert not any(target[:32])
    assert not any(target[32 + size :])
    return bytes(target[32 : 32 + size]), list(starts), list(edges), list(entries)


def packed(block):
    return check_table(block, LIMITS)


@given(
    st.lists(messages, min_size=1, max_size=30),
    st.booleans(),
    st.sampled_from(["t", "t" * 200]),
    sequences,
)
def test_sums_that_come_along_lead_to_the_bytes_that_counting_leads_to(rows, even, topic, sequence):
    counted = block_from(topic, [rows[0]] * len(rows) if even else rows, sequence)
    size = counted.size_bytes
    assert placed(packed(summed(counted)), size) == placed(packed(counted), size)


def test_encoders_send_the_sums_of_many_records():
    block = block_from("t", [(b"x" * place, "tag") for place in range(RECORD_CRCS_COUNT_MIN)])
    assert block.record_crcs.tolist() == summed(block).record_crcs.tolist()
    assert block_from("t", [(b"x", "tag")] * (RECORD_CRCS_COUNT_MIN - 1)).record_crcs is None


@given(
    st.lists(messages, min_size=1, max_size=20),
    st.booleans(),
    st.sampled_from(["t", "t" * 200]),
    sequences,
)
def test_one_by_one_and_by_column_write_the_same(rows, even, topic, sequence):
    block = block_from(topic, [rows[0]] * len(rows) if even else rows, sequence)
    few = FewRecords.of(block, LIMITS)
    assert few is not None
    assert placed(few, block.size_bytes) == placed(packed(block), block.size_bytes)


@given(st.lists(messages, min_size=1, max_size=20))
def test_forwarded_records_are_written_the_same_in_both_ways(rows):
    fields = [
        RecordFields(
            topic="t",
            body=body,
            properties={PropertyName.TAGS: tag} if tag else {},
            attempts=2,
            half_offset=7,
        )
        for body, tag in rows
    ]
    block = encode_block("t", fields)
    few = FewRecords.of(block, LIMITS)
    assert few is not None
    assert placed(few, block.size_bytes) == placed(packed(block), block.size_bytes)


@given(st.lists(messages, min_size=1, max_size=20), st.data())
@settings(max_examples=300)
def test_few_records_are_accepted_only_if_they_are_by_column(rows, data):
    block = block_from("t", rows)
    records = bytearray(block.records)
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(0, len(records) - 1))
        records[place] = data.draw(st.integers(0, 255))
    sizes = block.sizes.copy()
    sizes[0] += data.draw(st.sampled_from([0, 0, 0, 1, -5000, 1 << 30]))
    damaged = replace(block, pieces=(bytes(records),), sizes=sizes, crc32=crc32(bytes(records)))
    # The other way round it need not be: what is unusual goes by column.
    if FewRecords.of(damaged, LIMITS) is not None:
        assert is_sound(damaged)
    is_sound(damaged)
    is_sound(summed_as_said(damaged))


def summed_as_said(block):
    """The block with sums as if its first size were right, which they may not be."""
    return replace(block, record_crcs=np.zeros(block.count, np.uint32))


def is_sound(block):
    """Whether a table of one row is accepted, and as the oracle says: for the same reason."""
    verdicts = []
    for check in (check_table, check_block):
        try:
            check(block, LIMITS)
            verdicts.append(None)
        except BlockRejected as error:
            verdicts.append((error.reason, error.position))
    assert verdicts[0] == verdicts[1]
    return verdicts[0] is None


# With their sums along, all bodies of so few are looked at; of more, only some.
@given(messages, st.integers(2, 6), sequences, st.booleans(), st.data())
@settings(max_examples=300)
def test_records_of_one_size_are_judged_as_those_of_many(row, count, sequence, with_sums, data):
    even = block_from("t", [row] * count, sequence)
    odd = block_from("t", [*[row] * count, (b"x" * 301, "")], sequence)
    shared = even.size_bytes
    tail = odd.records[shared:]
    records = bytearray(even.records)
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.integers(0, shared - 1))
        records[place] = data.draw(st.integers(0, 255))
    blocks = [with_records(even, records), with_records(odd, bytes(records) + tail)]
    if with_sums:
        blocks = list(map(summed, blocks))
    verdicts = set(map(is_sound, blocks))
    assert len(verdicts) == 1


def with_records(block, records):
    return replace(block, pieces=(bytes(records),), crc32=crc32(bytes(records)))


MANY = summed(block_of("flights", [bytes([place]) * 50 for place in range(20)]))
STRIDE = int(MANY.sizes[0])


def with_owned(block, place, value):
    records = bytearray(block.records)
    records[place : place + len(value)] = value
    crcs = block.record_crcs.copy()
    crcs[place // STRIDE] = crc32(
        records[place // STRIDE * STRIDE : (place // STRIDE + 1) * STRIDE - 20]
    )
    return replace(with_records(block, records), record_crcs=crcs)


@pytest.mark.parametrize(
    ("block", "reason", "position"),
    [
        (replace(MANY, record_crcs=MANY.record_crcs[:3]), "columns differ", -1),
        (replace(MANY, record_crcs=MANY.record_crcs ^ np.uint32(1)), "came along", 0),
        (with_owned(MANY, 3 * STRIDE + 12, b"\x01"), "queue_id is the broker's", 3),
        (with_owned(MANY, 4 * STRIDE + 27, b"\x01"), "queue_offset is the broker's", 4),
        (with_owned(MANY, 4 * STRIDE + 30, b"\x01"), "commit_log_offset is the broker's", 4),
        (with_owned(MANY, 4 * STRIDE + 51, b"\x01"), "born_ip is the broker's", 4),
        (with_owned(MANY, 4 * STRIDE + 63, b"\x01"), "store_timestamp is the broker's", 4),
        (with_owned(MANY, 5 * STRIDE - 3, b"1"), "digits of its checksum", 4),
        (with_owned(MANY, 2 * STRIDE + 40, b"\x80"), "born before the epoch", 2),
        (with_owned(MANY, 2 * STRIDE + 75, b"\x01"), "attempts", 2),
        (with_owned(MANY, 2 * STRIDE + 83, b"\x01"), "half message", 2),
        (with_owned(MANY, 2 * STRIDE + 36, b"\x80"), "system flag", 2),
    ],
)
def test_blocks_with_sums_are_judged_as_strictly(store, block, reason, position):
    with pytest.raises(BlockRejected, match=reason) as caught:
        store.append(block, 0)
    assert caught.value.position == position
    assert store.max_offset == 0


def test_one_wrong_sum_of_many_is_named(store):
    crcs = MANY.record_crcs.copy()
    crcs[13] ^= 0x100
    with pytest.raises(BlockRejected, match="came along") as caught:
        store.append(replace(MANY, record_crcs=crcs), 0)
    assert caught.value.position == 13


@pytest.mark.parametrize("count", [1, FEW + 1])
@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [(40, b"\xff", "born before"), (75, b"\x02", "attempts"), (76, b"\x01", "half message")],
)
def test_fields_of_the_broker_are_refused_from_a_client(store, count, place, value, reason):
    sent = block_of("flights", [b"x"] * count)
    records = bytearray(sent.records)
    records[place : place + 1] = value
    with pytest.raises(BlockRejected, match=reason):
        store.append(with_records(replace(sent, record_crcs=None), records), 0)


@pytest.mark.parametrize("count", [1, 5, FEW + 1])
def test_properties_are_utf_8(bench, count):
    bench.config = replace(bench.config, segment_bytes=1 << 16)
    store = bench.open()
    rows = [(b"x" * place, "tág-日本") for place in range(count)]
    good = block_from("flights", rows)
    store.append(good, 0)
    records = bytearray(good.records)
    bad_place = records.rindex("日".encode())
    records[bad_place] = 0x61
    with pytest.raises(BlockRejected, match="UTF-8") as caught:
        store.append(with_records(replace(good, record_crcs=None), records), 0)
    assert caught.value.position == count - 1
    store.close()


def test_a_sequence_elsewhere_than_at_the_beginning_is_refused(store):
    once = block_from("flights", [(b"x", "tag")], ProducerSequence(7, 1, 42))
    columns = {
        name: np.tile(getattr(once, name), 2)
        for name in ("sizes", "tag_codes", "key_counts", "key_hashes")
    }
    twice = replace(with_records(once, once.records * 2), counts=(2,), **columns)
    assert FewRecords.of(once, LIMITS) is not None
    assert FewRecords.of(twice, LIMITS) is None
    with pytest.raises(BlockRejected, match="a producer sequence elsewhere"):
        store.append(twice, 0)


def cancelling(block, first, second):
    """Two wrong sums that cancel out: the shift of the first to the second is known to all."""
    crcs = block.record_crcs.copy()
    error = np.array([0x1234567], np.uint32)
    crcs[first] ^= error[0]
    distance = (second - first) * int(block.sizes[0])
    crcs[second] ^= zero_shift(error, distance)[0]
    return replace(block, record_crcs=crcs)


def test_a_lie_harms_the_liar_only(bench):
    store = bench.open()
    lying = cancelling(MANY, 3, 9)
    before = store.append(block_of("other", [b"before"]), 0)
    store.append(lying, 0)
    after = store.append(block_of("other", [b"after"]), 0)
    store = bench.reopen_after_kill()
    assert store.message_at(before.first_commit_log_offset).body == b"before"
    assert store.message_at(after.first_commit_log_offset).body == b"after"
    assert store.queue_bounds("other", 0) == (0, 2)
    assert len(store.damage) == 2
    store.close()


def test_a_record_hidden_in_a_body_with_a_false_checksum_is_never_read(bench):
    """The body of a record with a wrong sum holds a sound record of another topic."""
    bench.config = replace(bench.config, segment_bytes=1 << 16)
    store = bench.open()
    end = store.append(block_of("other", [b"before"]), 0).next_commit_log_offset
    place = end + 88  # Of the first body.
    forged = encode_record(RecordFields(topic="secret", body=b"x", commit_log_offset=place))
    bodies = [forged, *[b"y" * len(forged)] * 19]
    lying = cancelling(summed(block_of("flights", bodies)), 0, 1)
    store.append(lying, 0)
    store.append(block_of("other", [b"after"]), 0)
    store = bench.reopen_after_kill()
    assert store.queues() == [("flights", 0), ("other", 0)]
    assert store.queue_bounds("other", 0) == (0, 2)
    store.close()


def test_a_lie_about_what_looks_like_a_hole_is_found(bench):
    bench.config = replace(bench.config, segment_bytes=1 << 16)
    store = bench.open()
    hollow = summed(block_of("flights", [b"\x00" * 600] * 20))
    with pytest.raises(BlockRejected, match="came along"):
        store.append(cancelling(hollow, 0, 1), 0)
    assert store.append(hollow, 0).count == 20
    store.close()


@given(st.integers(0, 5000), st.integers(0, 3))
def test_records_like_holes_are_all_that_recovery_could_take_for_one(position, kind):
    length = (700, 90, 1500, 512)[kind]
    block = block_of("t", [b"\x00" * (length // 2) + b"x" * (length // 3)] * 6)
    starts = np.cumsum(block.sizes, dtype=np.int64) - block.sizes
    view = memoryview(bytearray(b"x" * position + block.records))
    found = set(like_holes(view, position, block.size_bytes, starts).tolist())
    for place, start in enumerate((starts + position).tolist()):
        end = min(start + int(block.sizes[place]) + 8, len(view))
        # As recovery asks: see Recovery._was_never_flushed.
        ends = range(start - start % 512 + 512, end + 1, 512)
        if any(not any(view[max(start, sector_end - 8) : sector_end]) for sector_end in ends):
            assert place in found


@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("topic", ["flights", "t" * 200])
@pytest.mark.parametrize("hosts", [(6, 4), (4, 6), (6, 6)])
def test_records_are_as_wide_as_their_hosts(bench, count, step, topic, hosts):
    addresses = {4: "10.1.2.3", 6: "2001:db8::7"}
    born_host, store_host = (addresses[hosts[0]], 4711), (addresses[hosts[1]], 10911)
    bench.config = replace(bench.config, store_host=store_host)
    store = bench.open()
    store.append(block_of(topic, [b"first"]), 1)
    bodies = [bytes([place]) * (40 + step * place) for place in range(count)]
    block = block_of(topic, bodies, tags=["a"] * count, keys=[["k"]] * count)
    extra = 12 * hosts.count(6)
    appended = store.append(block, 1, born_host=born_host)
    assert appended.next_commit_log_offset - appended.first_commit_log_offset == (
        block.size_bytes + extra * count
    )
    read = store.read_queue(topic, 1, 1, max_count=count, max_bytes=1 << 20)
    assert read.sizes.tolist() == (block.sizes + extra).tolist()
    records = b"".join(read.chunks)
    for place, begin in enumerate(appended.commit_log_offsets.tolist()):
        size = int(read.sizes[place])
        record = decode_record(records[:size])  # Its checksums are compared.
        records = records[size:]
        assert (record.body, record.tag, record.queue_id) == (bodies[place], "a", 1)
        assert (record.queue_offset, record.commit_log_offset) == (1 + place, begin)
        assert (record.born_host, record.store_host) == (born_host, store_host)
    assert [m.body for m in store.query_by_key(topic, "k")] == bodies[::-1]
    store = bench.reopen_after_kill()
    assert store.queue_bounds(topic, 1) == (0, count + 1)
    assert store.damage == ()
    assert store.message_at(appended.first_commit_log_offset).born_host == born_host
    store.close()


def test_a_block_too_wide_for_a_segment_is_refused(bench):
    bench.config = replace(bench.config, record_bytes_max=8192)
    store = bench.open()
    overhead = store.append(block_of("f", [b""]), 0).next_commit_log_offset
    fitting = bench.config.segment_bytes - overhead - 8
    block = block_of("f", [b"x" * fitting])
    with pytest.raises(BlockRejected, match="with IPv6 hosts"):
        store.append(block, 0, born_host=("::1", 1))
    assert store.append(block, 0).count == 1
    store.close()


def test_forwarded_messages_keep_what_clients_may_not_say(store):
    again = RecordFields(topic="flights", body=b"again", attempts=3, half_offset=9)
    appended = store.append(encode_block("flights", [again] * (FEW + 1)), 0)
    kept = store.message_at(appended.first_commit_log_offset)
    assert (kept.attempts, kept.half_offset) == (3, 9)
