"""The order of a receiving client, and the messages handed out from each queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_broker.clients.client_id import check_client_id
from ariane_broker.filters.expression import FilterExpression
from ariane_broker.log.held_requests import HOLD_SECONDS_MAX
from ariane_broker.queue_key import QueueKey
from ariane_servicekit.errors import field_invalid
from ariane_storage.log.records.fields import Int64s

COUNT_DEFAULT: Final = 32
COUNT_MAX: Final = 65536
PLAIN_COUNT_MAX: Final = 1024
SIZE_BYTES_DEFAULT: Final = 1 << 20
SIZE_BYTES_MAX: Final = 32 << 20
TOPICS_MAX: Final = 64
INVISIBLE_MS_DEFAULT: Final = 60_000
INVISIBLE_MS_MIN: Final = 1_000
INVISIBLE_MS_MAX: Final = 12 * 3600 * 1000
KEPT_MS: Final = 60_000
"""The invisible time that each renewal by the broker sets."""

_NO_OFFSETS: Final = np.empty(0, np.int64)
_NO_SIZES: Final = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveOrder:
    """The order of a client, which mostly repeats it: calls share it."""

    group: str
    """Its consumer group."""
    filters: Mapping[str, FilterExpression]
    """The filter expression of each topic."""
    client_id: str = ""
    """The client; may be empty."""
    count_max: int = 0
    """Messages at most; 0 means the default."""
    size_bytes_max: int = 0
    """Bytes of records at most, but always one; 0 means the default."""
    invisible_ms: int = INVISIBLE_MS_DEFAULT
    """Their invisible time."""
    hold_seconds: float = 0.0
    """How long to hold the call while there are no messages."""
    by_priority: bool = False
    """Whether messages of higher priority are handed out first."""
    several_of_a_group: bool = False
    """Whether messages of one message group in order may come together."""
    attempt_id: str = ""
    """Names this attempt; may be empty."""


class HandedOut(NamedTuple):
    """Messages of one queue that were handed out together."""

    queue: QueueKey
    """The queue."""
    serial: int
    """Their receipt's serial."""
    until_ms: int
    """End of their invisible time."""
    offsets: Int64s
    """Their queue offsets, ascending."""
    attempts: NDArray[np.int32]
    """Attempts of each message, this one included, int32[n]."""
    chunks: Sequence[memoryview]
    """Their records, back to back."""
    sizes: NDArray[np.int32] = _NO_SIZES
    """Bytes of each record, int32[n]."""
    lost_offsets: Int64s = _NO_OFFSETS

    @property
    def size_bytes(self) -> int:
        """Bytes of all records."""
        return sum(map(len, self.chunks))


class Look(NamedTuple):
    """The result of a look at some queues."""

    handed: list[HandedOut]
    """The messages that were handed out."""
    left: list[QueueKey]
    """Those of the queues that may have more, also if nothing was handed out: the turn had no time
    for them, or it lies behind messages that a filter has left out."""


def checked_order(order: ReceiveOrder, count_max: int = COUNT_MAX) -> ReceiveOrder:
    """Check an order, and fill in its defaults.

    Args:
        order: The client's order.
        count_max: The most messages that it may ask for.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    check_client_id(order.client_id, "order.client_id")
    if order.attempt_id:
        check_client_id(order.attempt_id, "order.attempt_id")
    if not 1 <= len(order.filters) <= TOPICS_MAX:
        rule = f"must be 1 to {TOPICS_MAX} different topics"
        raise field_invalid("order.subscriptions", rule, len(order.filters))
    if not 0 <= order.count_max <= count_max:
        rule = f"must be 0 to {count_max}"
        raise field_invalid("order.message_count_max", rule, order.count_max)
    if not 0 <= order.size_bytes_max <= SIZE_BYTES_MAX:
        rule = f"must be 0 to {SIZE_BYTES_MAX}"
        raise field_invalid("order.size_bytes_max", rule, order.size_bytes_max)
    if not INVISIBLE_MS_MIN <= order.invisible_ms <= INVISIBLE_MS_MAX:
        rule = "must be 1 s to 12 h"
        raise field_invalid("order.invisible_duration", rule, f"{order.invisible_ms / 1000:g} s")
    if not 0 <= order.hold_seconds <= HOLD_SECONDS_MAX:
        rule = f"must be at most {HOLD_SECONDS_MAX:.0f} s"
        raise field_invalid("order.hold_duration", rule, f"{order.hold_seconds:.0f} s")
    if order.count_max and order.size_bytes_max:
        return order
    return replace(
        order,
        count_max=order.count_max or COUNT_DEFAULT,
        size_bytes_max=order.size_bytes_max or SIZE_BYTES_DEFAULT,
    )
