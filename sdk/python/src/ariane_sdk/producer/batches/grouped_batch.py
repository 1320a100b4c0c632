"""A batch of messages that are in its queue because of their message groups."""

from __future__ import annotations

import asyncio

from ariane_record.encoding.plain_topic import PlainTopic
from ariane_record.layout import ByteBuffer
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk.errors import SendError
from ariane_sdk.message import Message, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.batches.singles_batch import NEVER_CUT, SinglesBatch


class GroupedBatch(SinglesBatch):
    """A batch that stays in its queue, but is taken apart if that queue disappears.

    For that the batch keeps its messages: their groups may then be divided among several queues,
    and a record cannot be moved within an encoded batch.
    """

    __slots__ = ("_messages",)

    def __init__(
        self,
        queue: MessageQueue,
        *,
        body_bytes_max: int,
        sequenced: bool,
        delay_kind: int,
        plain_topic: PlainTopic,
        unique_ids: UniqueIdGenerator,
    ) -> None:
        super().__init__(
            queue,
            choose_other=None,
            body_bytes_max=body_bytes_max,
            sequenced=sequenced,
            delay_kind=delay_kind,
            plain_topic=plain_topic,
            unique_ids=unique_ids,
            cut_count=NEVER_CUT,
        )
        self.run = None  # None of its messages is plain.
        self._messages: list[Message] = []

    def add(
        self,
        message: Message,
        unique_id: str,
        born_timestamp_ms: int,
        future: asyncio.Future[SendResult] | None,
        *,
        body: ByteBuffer,
        system_flag: int = 0,
    ) -> int:
        """Encode one more message, as ``SendBatch`` does."""
        # Skips ``SinglesBatch``, which would first encode a run of plain messages.
        size_bytes = SendBatch.add(
            self, message, unique_id, born_timestamp_ms, future, body=body, system_flag=system_flag
        )
        self._messages.append(message)
        return size_bytes

    def _take_back(self, position: int) -> bool:
        taken = super()._take_back(position)
        if taken:
            del self._messages[position]
        return taken

    def take_apart(self) -> list[tuple[Message, asyncio.Future[SendResult]]]:
        """Give the messages away; the batch is sent no more, and ends once they all have outcomes.

        Returns:
            Each message, and the future that will hold its outcome.
        """
        self.open = False
        loop = asyncio.get_running_loop()
        futures = [future or loop.create_future() for future in self._futures]
        messages, self._messages, self._futures = self._messages, [], []
        settled = asyncio.gather(*futures, return_exceptions=True)
        settled.add_done_callback(self._settle_apart)
        return list(zip(messages, futures, strict=True))

    def _settle_apart(
        self, settled: asyncio.Future[list[SendResult | SendError | BaseException]]
    ) -> None:
        # The outcome of a cancelled send is not read.
        self.outcomes = [
            SendError("cancelled", outcome_unknown=True)
            if not isinstance(outcome, SendResult | SendError)
            else outcome
            for outcome in settled.result()
        ]
        self._finish()
