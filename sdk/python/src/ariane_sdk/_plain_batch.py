"""A batch of plain messages that was encoded in one go."""

from __future__ import annotations

from collections.abc import Callable

from ariane_record.loose_block import LooseBlock
from ariane_sdk._message import MessageQueue
from ariane_sdk._send_batch import SendBatch


class PlainBatch(SendBatch):
    """Travels like every batch, takes no more messages, and is waited for as a whole."""

    __slots__ = ()

    def __init__(
        self,
        queue: MessageQueue,
        block: LooseBlock,
        unique_ids: list[str],
        *,
        choose_other: Callable[[Callable[[str], bool]], MessageQueue],
        sequenced: bool,
    ) -> None:
        """Be ready to travel.

        Args:
            queue: Where it goes at first.
            block: The records.
            unique_ids: The id of each.
            choose_other: As ``SendBatch``.
            sequenced: As ``SendBatch``; the block has room for the sequence.
        """
        super().__init__(queue, choose_other=choose_other, body_bytes_max=0, sequenced=sequenced)
        self.open = False
        self._block = block
        self._unique_ids = unique_ids
