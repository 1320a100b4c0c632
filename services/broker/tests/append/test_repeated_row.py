"""Comparing a batch that comes again with the one in the log, whatever its hosts are."""

from pathlib import Path

import numpy as np
import pytest

from ariane_broker.append.repeated_row import first_result, is_stored_as
from ariane_broker.log.derived.producer_stream import StoredBatch
from ariane_record import ProducerSequence
from ariane_record.layout import CRC_PROPERTY_BYTES
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import Store
from ariane_storage.testing import FaultyDisk, FixedClock, small_config


def block_of(*bodies, **fields):
    encoder = BlockEncoder("orders", size_bytes_max=10_000, sequenced=True)
    for number, body in enumerate(bodies):
        options = {"unique_id": f"id-{number}", "born_timestamp_ms": 1, "tag": "t"} | fields
        encoder.add(body, **options)
    return encoder.finish(ProducerSequence(7, 0, 0))


@pytest.fixture(params=[("127.0.0.1", 5), ("::1", 5)], ids=["IPv4", "IPv6"])
def stored(request):
    store = Store.open(Path("/store"), small_config(), disk=FaultyDisk(), clock=FixedClock())
    store.append(block_of(b"before"), 0)
    appended = store.append(block_of(b"one", b"", b"three"), 0, born_host=request.param)
    batch = StoredBatch(
        0,
        3,
        int(appended.first_queue_offset),
        int(appended.first_commit_log_offset),
        int(appended.next_commit_log_offset),
        appended.store_timestamp_ms,
    )
    return store, batch, appended


def test_the_same_bytes_are_the_same_batch_with_the_same_result(stored):
    store, batch, appended = stored
    block = block_of(b"one", b"", b"three")
    assert is_stored_as(store, block, 0, batch, is_plain=False)
    again = first_result(batch, block)
    assert again.commit_log_offsets.tolist() == appended.commit_log_offsets.tolist()


@pytest.mark.parametrize(
    "other",
    [
        block_of(b"one", b"", b"threE"),
        block_of(b"onE", b"", b"three"),
        block_of(b"one", b"", b"three", tag="u"),
        block_of(b"one", b"", b"three", flag=1),
        block_of(b"one", b"", b"three", born_timestamp_ms=2),
        block_of(b"one", b"x", b"thre"),
        block_of(b"one", b"", b"three!"),
    ],
)
def test_other_bytes_are_another_batch(stored, other):
    store, batch, _ = stored
    assert not is_stored_as(store, other, 0, batch, is_plain=False)


def test_the_last_byte_before_the_checksum_counts(stored):
    store, batch, _ = stored
    block = block_of(b"one", b"", b"three")
    changed = bytearray(block.records)
    changed[int(block.sizes[0]) - CRC_PROPERTY_BYTES - 1] ^= 1
    block.pieces = (bytes(changed),)
    assert not is_stored_as(store, block, 0, batch, is_plain=False)


def test_of_plain_messages_the_bodies_count(stored):
    store, batch, _ = stored
    anew = block_of(b"one", b"", b"three", unique_id="id-x", born_timestamp_ms=2)
    assert is_stored_as(store, anew, 0, batch, is_plain=True)
    other = block_of(b"one", b"", b"threE")
    assert not is_stored_as(store, other, 0, batch, is_plain=True)


@pytest.mark.parametrize("sizes", [[1, 1, 1], [-5, 200, 200], [1 << 30] * 3])
def test_sizes_that_are_none_compare_with_nothing(stored, sizes):
    store, batch, _ = stored
    block = block_of(b"one", b"", b"three")
    block.sizes = np.array(sizes, np.int32)
    assert not is_stored_as(store, block, 0, batch, is_plain=False)
