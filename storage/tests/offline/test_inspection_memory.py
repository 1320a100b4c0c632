"""An inspection holds a few bytes of each record, however many a store has."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest

from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import Store
from ariane_storage.disk.os_disk import OsDisk
from ariane_storage.index import index_file
from ariane_storage.offline import queue_inspection
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.offline.inspection import inspect
from ariane_storage.offline.record_starts import RecordStarts
from ariane_storage.testing import small_config

BATCH = 2000
BYTES_MAX = 12
"""Of one more record: four, and as much again while a segment's column grows."""


def batch():
    encoder = BlockEncoder("flights", size_bytes_max=4 << 20)
    for number in range(BATCH):
        encoder.add(b"m", keys=(f"key-{number}",), born_timestamp_ms=1)
    return encoder.finish()


def peak_of_inspection(root):
    # What is held at a time is small beside these stores, so that what grows with them shows.
    queue_inspection._HELD_MAX = 2 * BATCH
    index_file._CHUNK_BYTES = 1 << 16
    tracemalloc.start()
    with ClosedStore(root, OsDisk()) as store:
        found = inspect(store)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, found.records, found.findings, found.queue_spans


def test_one_more_record_costs_an_inspection_a_few_bytes(tmp_path):
    config = replace(
        small_config(),
        segment_bytes=1 << 20,
        consume_queue_file_entries=300_000,
        index_slots=4096,
        index_items=300_000,
    )
    counts, peaks = (12_000, 40_000), []
    # In a process of its own: threads that other tests left in this one take memory now and then.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        for count in counts:
            root = tmp_path / str(count)
            with Store.open(root, config) as store:
                for number in range(count // BATCH):
                    store.append(batch(), number % 2)
            peak, *found = alone.submit(peak_of_inspection, root).result(60)
            half = (0, count // 2)
            assert found == [count, [], {("flights", 0): half, ("flights", 1): half}]
            peaks.append(peak)
    assert (peaks[1] - peaks[0]) / (counts[1] - counts[0]) <= BYTES_MAX


@pytest.mark.parametrize("held_max", [1, 7, 1 << 18])
def test_differences_are_the_same_however_many_records_are_held(
    tmp_path, fill, monkeypatch, held_max
):
    monkeypatch.setattr(queue_inspection, "_HELD_MAX", held_max)
    root = tmp_path / "store"
    with Store.open(root, small_config()) as store:
        fill(store, blocks=30)
    (path, *_) = sorted((root / "consumequeue" / "flights" / "0").iterdir())
    with path.open("r+b") as file:
        for entry in (3, 4, 5, 7):
            file.seek(entry * 20 + 12)
            file.write(b"\x11" * 8)
    with ClosedStore(root, OsDisk()) as store:
        found = [(each.reason, each.begin, each.end) for each in inspect(store).findings]
    reason = "tag code differs from the record"
    assert found == [(reason, 3, 6), (reason, 7, 8)]


def test_starts_of_records_are_found_in_any_order_and_in_no_gap():
    starts = RecordStarts()
    assert (len(starts), starts.first, starts.last) == (0, -1, -1)
    starts.add(1000, np.array([1000, 1200]))
    starts.add(1000, np.array([1300]))
    starts.add(3000, np.array([3000]))
    assert (len(starts), starts.first, starts.last) == (4, 1000, 3000)
    asked = np.array([3000, 1200, 999, 1250, 1300, 1301, 2999, 9999, 1 << 40])
    assert starts.contain(asked).tolist() == [True, True, False, False, True, *[False] * 4]
    fewer = RecordStarts()
    assert starts.missing_in(fewer) == (4, 1000, 3000)
    fewer.add(1000, np.array([1000]))
    assert starts.missing_in(fewer) == (3, 1200, 3000)
    assert starts.missing_in(starts) == (0, -1, -1)
