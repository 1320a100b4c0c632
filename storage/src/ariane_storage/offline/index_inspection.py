"""Inspection of a closed store's index: whether items point to records and can be found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ariane_record.counted import counted
from ariane_storage.errors import BytesUnreadable
from ariane_storage.index.index import ITEMS_UNKNOWN
from ariane_storage.index.index_file import IndexFile
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.offline.finding import Finding
from ariane_storage.offline.record_starts import RecordStarts


def check_index(store: ClosedStore, record_starts: RecordStarts) -> Iterator[Finding]:
    """Check that every item points to a record, kept or deleted, and is found by its key.

    After a crash the index may be behind the log, and parts of it may never have been written: the
    next start mends both.

    Args:
        store: The store.
        record_starts: Where all valid records begin.
    """
    if store.index_fault:
        yield Finding("index", store.index_fault, path=store.index_fault_path)
        return
    for file in store.index.files:
        try:
            yield from _check_file(store, file, record_starts)
        except BytesUnreadable as error:
            store.unreadable.note(error)
    reason = _shortfall(store)
    if reason and not store.crashed:
        yield Finding("index", reason, path="index")


def why_keys_may_be_missing(store: ClosedStore) -> str:
    """Why the index may miss records that have a key; empty if it does not."""
    if store.index_fault:
        return f"the index cannot be read: {store.index_fault}"
    if not store.index.files and store.log.segments:
        reason = "it has no files"
    elif store.crashed:
        return "the last run ended without a stop, and the index may be behind the log"
    else:
        reason = _shortfall(store)
    if not reason:
        return ""
    return f"the index is not whole: {reason}; ariane store rebuild builds it again"


def _shortfall(store: ClosedStore) -> str:
    """The items that the checkpoint counts and the index lacks; empty if they agree."""
    count = store.index.item_count
    if store.checkpoint is None or count == store.checkpoint.index_item_count:
        return ""
    known = store.checkpoint.index_item_count
    if known == ITEMS_UNKNOWN:
        return "some of it could not be read; it is built again at the next start"
    return f"{counted(count, 'item')}, but the checkpoint knows of {known}"


class _Stray(NamedTuple):
    """Some items that lead to no record: how many, their offsets, and the number of the first."""

    items: int
    lowest: int
    highest: int
    first_item: int


def _check_file(
    store: ClosedStore, file: IndexFile, record_starts: RecordStarts
) -> Iterator[Finding]:
    path = f"index/{file.path.name}"
    strays: list[_Stray] = []
    for first, offsets in file.offsets():
        is_stray = (offsets >= store.log.min_offset) & ~record_starts.contain(offsets)
        if bool(is_stray.any()):
            led, item = offsets[is_stray], first + int(np.argmax(is_stray))
            strays.append(_Stray(len(led), int(led.min()), int(led.max()), item))
    if strays:
        yield Finding(
            "index",
            f"{sum(stray.items for stray in strays)} items lead to no record",
            min(stray.lowest for stray in strays),
            max(stray.highest for stray in strays),
            path=path,
            position=file.item_position(strays[0].first_item),
        )
    unfound = 0 if store.crashed else file.count_unfound()
    if unfound:
        yield Finding("index", f"{unfound} items are not found by their keys", path=path)
