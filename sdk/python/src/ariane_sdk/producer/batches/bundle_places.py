"""Where the batches of a bundle were stored, when all is well with all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import AppendTableResult
from ariane_sdk.net.timestamps import timestamp_ms


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
