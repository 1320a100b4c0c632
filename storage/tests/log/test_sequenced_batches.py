"""Batches of idempotent producers in the log: found again, and never there in part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ariane_record import ProducerSequence
from ariane_record.checksums.checksum import crc32
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import BlockRejected, DamageReason
from ariane_storage.log.sequenced_batches import sequenced_batches
from ariane_storage.testing import block_of


def batch_of(first, bodies, *, topic="flights", producer_id=7):
    encoder = BlockEncoder(topic, size_bytes_max=1 << 20, sequenced=True)
    for body in bodies:
        encoder.add(body, keys=["k"], born_timestamp_ms=1)
    return encoder.finish(ProducerSequence(producer_id, 0, first))


def found(store, begin=0, since_ms=0):
    begin = store.offset_before(since_ms) if begin is None else begin
    return [batch for stretch in store.stretches(begin) for batch in sequenced_batches(stretch)]


def test_batches_are_found_in_the_order_of_the_log(bench):
    store = bench.open()
    expected = []
    for number in range(40):
        store.append(block_of("flights", [b"plain" * 9]), 0)
        appended = store.append(batch_of(number * 2, [b"x" * number] * 2), number % 3)
        expected.append((number % 3, number * 2, appended))
    batches = found(store)
    assert store.max_offset > store.config.segment_bytes
    assert [
        (b.queue_id, b.sequence.first_sequence, b.first_queue_offset, b.commit_log_offset)
        for b in batches
    ] == [
        (queue_id, first, a.first_queue_offset, a.first_commit_log_offset)
        for queue_id, first, a in expected
    ]
    assert [b.next_commit_log_offset for b in batches] == [
        a.next_commit_log_offset for _, _, a in expected
    ]
    middle = batches[25].commit_log_offset
    assert found(store, middle) == batches[25:]
    assert found(store, store.max_offset) == []
    store.close()


def test_a_time_says_where_to_begin(bench):
    store = bench.open()
    for number in range(40):
        bench.clock.advance(1000)
        store.append(batch_of(number, [b"x" * 500]), 0)
    since = found(store)[30].store_timestamp_ms
    recent = found(store, None, since)
    assert recent[-10:] == found(store)[30:]
    assert 10 <= len(recent) < 30
    store.close()


def test_a_body_that_looks_like_a_sequence_is_none(bench):
    store = bench.open()
    body = bytes(batch_of(0, [b""]).records)
    store.append(block_of("flights", [body, b""]), 0)
    assert found(store) == []
    store.close()


@pytest.mark.parametrize("lost_record", [1, 2, 3])
def test_a_batch_that_power_loss_left_in_part_goes(bench, read_all, lost_record):
    store = bench.open()
    store.append(batch_of(0, [b"whole"] * 2), 0)
    store.flush_derived()
    block = batch_of(2, [b"torn"] * 4)
    torn = store.append(block, 0)
    bench.disk = bench.disk.kill()
    bench.disk.flip_bit(bench.segment_path(0), int(torn.commit_log_offsets[lost_record]) + 50, 0)
    # Nothing valid is behind it, as when the pages behind it were never written.
    for offset in torn.commit_log_offsets[lost_record + 1 :].tolist():
        bench.disk.flip_bit(bench.segment_path(0), offset + 50, 0)
    store = bench.open()
    assert store.recovery.cut_reason is DamageReason.BATCH
    assert store.max_offset == torn.first_commit_log_offset
    assert [message.body for message in read_all(store, "flights", 0)] == [b"whole"] * 2
    assert len(store.query_by_key("flights", "k")) == 2
    again = store.append(block, 0)
    assert again.first_queue_offset == 2
    store.close()
    store = bench.open()
    assert len(read_all(store, "flights", 0)) == 6
    assert len(store.query_by_key("flights", "k")) == 6
    store.close()


def test_the_keys_before_a_batch_that_goes_stay(bench):
    store = bench.open()
    store.append(batch_of(0, [b"flushed"] * 2), 0)
    store.flush_derived()
    store.append(batch_of(2, [b"whole"] * 2), 0)
    torn = store.append(batch_of(4, [b"torn"] * 4), 0)
    bench.disk = bench.disk.kill()
    for offset in torn.commit_log_offsets[1:].tolist():
        bench.disk.flip_bit(bench.segment_path(0), offset + 50, 0)
    store = bench.open()
    assert store.max_offset == torn.first_commit_log_offset
    found = [message.body for message in store.query_by_key("flights", "k")]
    assert found == [b"whole"] * 2 + [b"flushed"] * 2
    store.close()


def test_a_whole_batch_stays(bench, read_all):
    store = bench.open()
    store.append(batch_of(0, [b"1", b"2"]), 0)
    store = bench.reopen_after_kill()
    assert len(read_all(store, "flights", 0)) == 2
    assert store.recovery.cut_reason is None
    store.close()


def test_only_the_first_record_may_say_a_sequence(bench):
    store = bench.open()
    first, second = batch_of(0, [b"a"]), batch_of(1, [b"b"])
    encoder = BlockEncoder("flights", size_bytes_max=1 << 20)
    encoder.add(b"a", properties={"a": "b"}, born_timestamp_ms=1)
    plain = encoder.finish()
    for before in (first, plain):
        records = bytes(before.records) + bytes(second.records)
        forged = replace(
            first,
            counts=(2,),
            pieces=(records,),
            sizes=np.concatenate((before.sizes, second.sizes)),
            tag_codes=np.zeros(2, np.int32),
            key_counts=np.zeros(2, np.uint8),
            key_hashes=np.zeros(0, np.int32),
            crc32=crc32(records),
        )
        with pytest.raises(BlockRejected, match="producer sequence"):
            store.append(forged, 0)
    assert store.max_offset == 0
    store.close()
