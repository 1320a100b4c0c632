"""Applies a filter to gathered records."""

from __future__ import annotations

import numpy as np

from ariane_record.decoding.columns import decode_columns
from ariane_storage.reading.expiry import has_expired
from ariane_storage.reading.filter import Filter
from ariane_storage.reading.read import Gathered, runs_of


def matching(
    found: Gathered, wanted: Filter, *, max_count: int, max_bytes: int, now_ms: int
) -> Gathered:
    """Select the gathered records that pass a filter and have not expired.

    Args:
        found: At least one record, expired ones among them.
        wanted: The filter.
        max_count: Messages at most.
        max_bytes: Bytes at most, but always one message if there is any.
        now_ms: What passes and has expired by then is counted, milliseconds since the epoch; 0:
            nothing is.

    Returns:
        The selected records, up to the first that exceeds a limit.
    """
    joined = memoryview(found.chunks[0] if len(found.chunks) == 1 else b"".join(found.chunks))
    columns = decode_columns(joined, found.sizes.astype(np.int32))
    passed = wanted.records_mask(columns)
    expired = has_expired(joined, columns.starts, found.sizes, passed, now_ms) if now_ms else None
    places = np.flatnonzero(passed if expired is None else passed & ~expired)
    total = np.cumsum(found.sizes[places[:max_count]])
    count = min(len(places), max(1, int(np.searchsorted(total, max_bytes, side="right"))))
    stopped_at, looked_at = found.stopped_at, len(found.sizes)
    if count < len(places):
        looked_at = int(places[count])
        stopped_at = int(found.queue_offsets[looked_at])
    if count == len(found.sizes):
        return found
    taken = places[:count]
    starts, sizes = columns.starts[taken], found.sizes[taken]
    chunks = runs_of(joined, starts, sizes) if count else []
    expired_count = 0 if expired is None else int(expired[:looked_at].sum())
    return Gathered(chunks, found.queue_offsets[taken], sizes, stopped_at, expired_count)
