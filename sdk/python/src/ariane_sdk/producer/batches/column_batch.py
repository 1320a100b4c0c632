"""A batch that was encoded from columns: no futures, no object for each message."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import AppendResult
from ariane_record.encoding.loose_block import LooseBlock
from ariane_sdk.checks.delay import AT_ONCE, AT_TIMES
from ariane_sdk.message import MessageQueue
from ariane_sdk.producer.batches.send_batch import (
    COLUMN_BYTES,
    DELIVERY_TIME_BYTES,
    KEY_HASH_BYTES,
    SendBatch,
)


class ColumnBatch(SendBatch):
    """Travels like every batch, and takes no more messages.

    Attributes:
        rows: Which rows of the table it holds, in its order: int64.
        unique_ids: The unique id of each, hex digits as ASCII: uint8[count, digits].
        first_queue_offset: Index of its first message in its queue, once it is stored.
    """

    __slots__ = ("_block_bytes", "_times_ms", "first_queue_offset", "rows", "unique_ids")

    def __init__(
        self,
        queue: MessageQueue,
        block: LooseBlock,
        *,
        rows: NDArray[np.int64],
        unique_ids: NDArray[np.uint8],
        choose_other: Callable[[Callable[[str], bool]], MessageQueue] | None,
        sequenced: bool,
        delivery_times_ms: NDArray[np.int64] | None = None,
    ) -> None:
        """Be ready to travel.

        Args:
            queue: Where it goes at first.
            block: The records.
            rows: See the class.
            unique_ids: See the class.
            choose_other: As ``SendBatch``.
            sequenced: As ``SendBatch``; the block has room for the sequence.
            delivery_times_ms: When each message is to be delivered; ``None``: at once.
        """
        super().__init__(
            queue,
            choose_other=choose_other,
            body_bytes_max=0,
            sequenced=sequenced,
            delay_kind=AT_ONCE if delivery_times_ms is None else AT_TIMES,
        )
        self._block = block
        self._block_bytes = block.size_bytes
        self._key_bytes = KEY_HASH_BYTES * (len(block.key_hashes) - block.count)
        self._times_ms = np.zeros(0, np.int64) if delivery_times_ms is None else delivery_times_ms
        self._key_bytes += DELIVERY_TIME_BYTES * len(self._times_ms)
        self.rows = rows
        self.unique_ids = unique_ids
        self.first_queue_offset = -1

    @property
    def count(self) -> int:
        """Messages in it."""
        return len(self.rows)

    @property
    def size_bytes(self) -> int:
        """Bytes of its records."""
        return self._block_bytes

    @property
    def wire_bytes(self) -> int:
        """Bytes that it takes on the wire: records and columns."""
        return self._block_bytes + COLUMN_BYTES * len(self.rows) + self._key_bytes

    @property
    def stored(self) -> bool:
        """Whether it was stored, as promised."""
        return self.first_queue_offset >= 0

    def _times_on_wire(self) -> bytes:
        """When each message is to be delivered."""
        return self._times_ms.astype("<i8", copy=False).tobytes()

    def settle(self, result: AppendResult, broker_address: str) -> None:
        """Remember where it was stored, and tell who waits.

        Args:
            result: What the broker says; without an error.
            broker_address: The broker, "host:port".
        """
        del broker_address
        self.first_queue_offset = result.first_queue_offset
        self.outcomes = []
        self._finish()
