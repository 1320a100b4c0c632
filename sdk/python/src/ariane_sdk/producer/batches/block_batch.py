"""A batch of messages that were encoded in one go: plain messages, or rows of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import AppendResult
from ariane_record.encoding.loose_block import LooseBlock
from ariane_record.single.message_id import UniqueIds
from ariane_sdk.checks.delay import AT_ONCE, AT_TIMES
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.send_batch import (
    COLUMN_BYTES,
    DELIVERY_TIME_BYTES,
    KEY_HASH_BYTES,
    ChooseQueue,
    SendBatch,
)
from ariane_sdk.producer.batches.send_results import SendResults, StoredBatch


class BlockBatch(SendBatch):
    """A batch that was encoded as a whole: it takes no more messages and has one outcome.

    Attributes:
        unique_ids: The unique id of each message.
    """

    __slots__ = ("_block_bytes", "_sizes", "_times_ms", "unique_ids")

    def __init__(
        self,
        queue: MessageQueue,
        block: LooseBlock,
        unique_ids: UniqueIds,
        *,
        choose_other: ChooseQueue | None,
        sequenced: bool,
        delivery_times_ms: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(
            queue,
            choose_other=choose_other,
            body_bytes_max=0,
            sequenced=sequenced,
            delay_kind=AT_ONCE if delivery_times_ms is None else AT_TIMES,
        )
        self.open = False
        self.unique_ids = unique_ids
        self._block = block
        self._block_bytes = block.size_bytes
        self._sizes = block.sizes
        self._times_ms = np.zeros(0, np.int64) if delivery_times_ms is None else delivery_times_ms
        self._key_bytes = KEY_HASH_BYTES * (len(block.key_hashes) - block.count)
        self._key_bytes += DELIVERY_TIME_BYTES * len(self._times_ms)

    @property
    def count(self) -> int:
        """Number of messages in the batch."""
        return len(self._sizes)

    @property
    def size_bytes(self) -> int:
        """Size of the records in bytes."""
        return self._block_bytes

    @property
    def wire_bytes(self) -> int:
        """Size of records and columns on the wire, in bytes."""
        return self._block_bytes + COLUMN_BYTES * self.count + self._key_bytes

    @property
    def first_queue_offset(self) -> int:
        """Queue offset of the first message, once the batch is stored."""
        if not isinstance(self.outcomes, SendResults):
            raise TypeError("the batch is not stored")
        return self.outcomes.first_queue_offset

    def _times_on_wire(self) -> bytes:
        """Encode the delivery time of each message."""
        return self._times_ms.astype("<i8", copy=False).tobytes()

    def _results(self, result: AppendResult, broker_address: str) -> SendResults:
        """Make the result of each message."""
        batch = StoredBatch.of(self.queue, self._sizes, self.unique_ids, result, broker_address)
        return SendResults(batch, range(self.count))
