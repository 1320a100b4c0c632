"""A batch of plain messages that was encoded in one go."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import AppendResult
from ariane_record.encoding.loose_block import LooseBlock
from ariane_sdk.message import AcknowledgedLevel, MessageQueue
from ariane_sdk.net.timestamps import timestamp_ms
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.batches.send_results import SendResults, StoredBatch


class PlainBatch(SendBatch):
    """Travels like every batch, takes no more messages, and is waited for as a whole."""

    __slots__ = ("_id_digits", "_sizes")

    def __init__(
        self,
        queue: MessageQueue,
        block: LooseBlock,
        unique_ids: NDArray[np.uint8],
        *,
        choose_other: Callable[[Callable[[str], bool]], MessageQueue],
        sequenced: bool,
    ) -> None:
        """Be ready to travel.

        Args:
            queue: Where it goes at first.
            block: The records.
            unique_ids: The id of each, its digits as ASCII: uint8[count, digits].
            choose_other: As ``SendBatch``.
            sequenced: As ``SendBatch``; the block has room for the sequence.
        """
        super().__init__(queue, choose_other=choose_other, body_bytes_max=0, sequenced=sequenced)
        self.open = False
        self._block = block
        self._sizes = block.sizes
        self._id_digits = unique_ids

    @property
    def count(self) -> int:
        """Messages in it."""
        return len(self._sizes)

    def _results(self, result: AppendResult, broker_address: str) -> SendResults:
        """What its messages got."""
        ends = result.first_commit_log_offset + np.cumsum(self._sizes, dtype=np.int64)
        batch = StoredBatch(
            message_queue=self.queue,
            first_queue_offset=result.first_queue_offset,
            commit_log_offsets=ends - self._sizes,
            unique_ids=self._id_digits,
            acknowledged_level=AcknowledgedLevel(result.acknowledged_level),
            store_timestamp_ms=timestamp_ms(result.store_time),
            broker_address=broker_address,
            duplicate=result.duplicate,
        )
        return SendResults(batch, range(self.count))
