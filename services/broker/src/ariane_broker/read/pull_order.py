"""The order of a pull, and the result for each queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.clients.client_id import check_client_id
from ariane_broker.filters.expression import FilterExpression
from ariane_broker.log.held_requests import HOLD_SECONDS_MAX
from ariane_broker.queue_key import QueueKey
from ariane_broker.read.replica_hints import ReplicaHint
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_storage.log.records.fields import Int64s

RECORD_COUNT_MAX: Final = 65536
RECORD_COUNT_DEFAULT: Final = 4096
SIZE_BYTES_MAX: Final = 32 << 20
SIZE_BYTES_DEFAULT: Final = 1 << 20
POSITIONS_MAX: Final = 8192

_NUMBERS: Final = ("queue.queue_id", "queue_offset", "record_count_max", "size_bytes_max")
_numbers_of: Final[Callable[[object], tuple[int, ...]]] = attrgetter(*_NUMBERS)

_NO_SIZES: Final = np.empty(0, np.int32)
_NO_OFFSETS: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Position:
    """Where to read one queue."""

    queue: QueueKey
    """The queue."""
    queue_offset: int
    """The first queue offset wanted."""
    record_count_max: int = 0
    """At most this many records of this queue; 0: no own limit."""
    size_bytes_max: int = 0
    """At most about this many bytes of this queue; 0: no own limit."""
    lock_epoch: int | None = None
    """Epoch of the consumer's lock of the queue; None without a lock."""
    log_epoch: int = 0
    """Epoch of the log in which the offset was learnt; 0 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOrder:
    """The order of a consumer: where to read, and how much."""

    consumer_group: str
    """The consumer's group."""
    positions: tuple[Position, ...]
    """Where to read, one entry for each queue."""
    filters: Mapping[str, FilterExpression] = field(default_factory=dict)
    """Which messages, by topic; a missing topic means all messages."""
    record_count_max: int = 0
    """At most this many records in all; 0 means the default."""
    size_bytes_max: int = 0
    """At most about this many bytes in all; 0 means the default."""
    hold_seconds: float = 0.0
    """How long to hold the pull when there are no messages."""
    hold_seconds_max: float | None = None
    """The rest of the call's deadline; None: no bound."""
    client_id: str = ""
    """The consumer's id."""
    bodies_suffice: bool = False
    """Whether bodies without the rest of the record are enough, where that is cheap."""
    exact: bool = False
    """Whether the broker compares tags; otherwise it compares their hashes, and the consumer the
    tags."""
    uploaded_filters_follow: bool = False
    """Whether the caller applies uploaded filters itself."""


# Never changed; not frozen, because making it would take more than twice as long.
@dataclass(slots=True)
class PulledQueue:
    """The result for one queue."""

    queue: QueueKey
    """The queue."""
    next_queue_offset: int
    """Where the next read begins."""
    min_queue_offset: int = 0
    """The oldest kept queue offset."""
    max_queue_offset: int = 0
    """Readable end, exclusive."""
    chunks: Sequence[memoryview] = ()
    """The records; adjacent ones share a chunk."""
    sizes: NDArray[np.int32] = field(default_factory=lambda: _NO_SIZES)
    """Bytes of each record."""
    error: ServiceError | None = None
    """Why there are no records."""
    bodies_suffice: bool = False
    """As in the order."""
    log_epoch: int = 0
    """The epoch of the log in which the queue was read."""
    replica: ReplicaHint | None = None
    """The replica from which to read on; None for this broker."""
    lost_offsets: Int64s = field(default_factory=lambda: _NO_OFFSETS)
    """Queue offsets before ``next_queue_offset`` whose messages are damaged."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all records."""
        return sum(map(len, self.chunks))

    @property
    def records(self) -> bytes:
        """The records, back to back, as a copy."""
        return b"".join(self.chunks)


def checked_order(order: PullOrder) -> PullOrder:
    """Check an order, and fill in its defaults.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    check_client_id(order.client_id, "client_id")
    if not 1 <= len(order.positions) <= POSITIONS_MAX:
        raise field_invalid("positions", f"must be 1 to {POSITIONS_MAX}", len(order.positions))
    if not 0 <= order.record_count_max <= RECORD_COUNT_MAX:
        rule = f"must be 0 to {RECORD_COUNT_MAX}"
        raise field_invalid("record_count_max", rule, order.record_count_max)
    if order.size_bytes_max < 0:
        raise field_invalid("size_bytes_max", "must be 0 or more", order.size_bytes_max)
    for place, numbers in enumerate(map(_numbers_of, order.positions)):
        if min(numbers) < 0:
            name = _NUMBERS[numbers.index(min(numbers))].rpartition(".")[2]
            raise field_invalid(f"positions[{place}].{name}", "must be 0 or more", min(numbers))
    if order.hold_seconds > HOLD_SECONDS_MAX:
        rule = f"must be at most {HOLD_SECONDS_MAX:.0f} s"
        raise field_invalid("hold_duration", rule, f"{order.hold_seconds:.0f} s")
    return replace(
        order,
        record_count_max=order.record_count_max or RECORD_COUNT_DEFAULT,
        size_bytes_max=min(order.size_bytes_max or SIZE_BYTES_DEFAULT, SIZE_BYTES_MAX),
        hold_seconds=order.hold_seconds
        if order.hold_seconds_max is None
        else min(order.hold_seconds, order.hold_seconds_max),
    )
