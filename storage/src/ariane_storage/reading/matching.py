"""Applies a filter to gathered records."""

from __future__ import annotations

import numpy as np

from ariane_record.decoding.columns import decode_columns
from ariane_storage.reading.filter import Filter
from ariane_storage.reading.read import Gathered, runs_of


def matching(found: Gathered, wanted: Filter, *, max_count: int, max_bytes: int) -> Gathered:
    """Select the gathered records that pass a filter.

    Args:
        found: At least one record.
        wanted: The filter.
        max_count: Messages at most.
        max_bytes: Bytes at most, but always one message if there is any.

    Returns:
        The selected records, up to the first that exceeds a limit.
    """
    joined = memoryview(found.chunks[0] if len(found.chunks) == 1 else b"".join(found.chunks))
    columns = decode_columns(joined, found.sizes.astype(np.int32))
    places = np.flatnonzero(wanted.records_mask(columns))
    total = np.cumsum(found.sizes[places[:max_count]])
    count = min(len(places), max(1, int(np.searchsorted(total, max_bytes, side="right"))))
    stopped_at = found.stopped_at
    if count < len(places):
        stopped_at = int(found.queue_offsets[places[count]])
    if count == len(found.sizes):
        return found
    taken = places[:count]
    starts, sizes = columns.starts[taken], found.sizes[taken]
    chunks = runs_of(joined, starts, sizes) if count else []
    return Gathered(chunks, found.queue_offsets[taken], sizes, stopped_at, found.expired_count)
