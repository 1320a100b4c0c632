"""Batches that bring the checksums of their records along."""

from __future__ import annotations

import numpy as np
import pytest

from ariane_record.testing.block_encoder import record_crcs_of

COUNT = 200


def with_sums(batch):
    sizes = np.frombuffer(batch.record_sizes, "<i4")
    batch.record_crc32s = record_crcs_of(batch.records, sizes).astype("<u4").tobytes()
    return batch


async def test_a_batch_with_sums_is_stored_and_served_whole(broker):
    await broker.create_topic("flights")
    bodies = [b"body %d" % place for place in range(COUNT)]
    (result,) = await broker.append(with_sums(broker.batch("flights", bodies)))
    assert result.error is None, result.error
    assert await broker.bodies("flights") == bodies


@pytest.mark.parametrize("damage", [b"", b"\x01"], ids=["wrong", "no multiple of 4"])
async def test_sums_that_are_not_those_of_the_records_are_refused(broker, reason_of, damage):
    await broker.create_topic("flights")
    batch = with_sums(broker.batch("flights", [b"x"] * COUNT))
    batch.record_crc32s = damage + batch.record_crc32s[4:] + batch.record_crc32s[:4][::-1]
    (result,) = await broker.append(batch)
    assert reason_of(result.error) == "BLOCK_CORRUPTED"
    (pulled,) = await broker.pull(("flights", 0, 0))
    assert pulled.max_queue_offset == 0
