"""Where the batches of a bundle were stored, when all is well with all of them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, methodcaller
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import AppendResult, AppendTableResult
from ariane_sdk.net.timestamps import timestamp_ms

_is_error = methodcaller("HasField", "error")
_places_of = attrgetter(
    "first_queue_offset", "first_commit_log_offset", "acknowledged_level", "duplicate"
)


class BundlePlaces(NamedTuple):
    """What a broker says of the batches of a bundle.

    Attributes:
        queue_offsets: Queue offset of the first message of each.
        commit_log_offsets: Where the first record of each starts.
        level: How safe all are, as the contract names it.
        store_timestamp_ms: When all were stored.
    """

    queue_offsets: NDArray[np.int64]
    commit_log_offsets: NDArray[np.int64]
    level: int
    store_timestamp_ms: int


def row_places(results: Sequence[AppendResult], count: int) -> BundlePlaces | None:
    """What the results of some batches have in common; None if it is not all that they say.

    Args:
        results: One for each batch, if the broker has them all.
        count: How many batches there are, 1 or more.
    """
    results = list(results)  # Each is looked at twice.
    if len(results) != count or any(map(_is_error, results)):
        return None
    firsts, log_firsts, levels, duplicates = zip(*map(_places_of, results), strict=True)
    store_time = results[0].store_time
    # Which never goes back from one batch to the next.
    if any(duplicates) or len(set(levels)) > 1 or results[-1].store_time != store_time:
        return None
    return BundlePlaces(np.array(firsts), np.array(log_firsts), levels[0], timestamp_ms(store_time))


def table_places(result: AppendTableResult, count: int) -> BundlePlaces:
    """What the result of a table says.

    Args:
        result: What the broker answered.
        count: How many batches there are.

    Raises:
        ValueError: It is of another number of batches.
    """
    offsets, places = result.first_queue_offsets, result.first_commit_log_offsets
    queue_offsets, log_offsets = np.frombuffer(offsets, "<i8"), np.frombuffer(places, "<i8")
    if not len(queue_offsets) == len(log_offsets) == count:
        text = f"{len(queue_offsets)} queue offsets and {len(log_offsets)} commit-log offsets"
        raise ValueError(f"{text} in the answer to a table of {count} batches")
    return BundlePlaces(
        queue_offsets, log_offsets, result.acknowledged_level, timestamp_ms(result.store_time)
    )
