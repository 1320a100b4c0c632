"""Messages that brokers have lost and pass over: told in the log, counted, and perhaps an error."""

from __future__ import annotations

from collections.abc import Sequence

from ariane.broker.v1.pull_service_pb2 import LostRun
from ariane_sdk.errors import MessagesLost
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.log import logger


class LostMessages:
    """Hears of lost messages.

    Attributes:
        count: How many this client has passed over.
    """

    def __init__(self, *, fails: bool) -> None:
        """``fails`` tells whether they are an error, instead of being passed over."""
        self._fails = fails
        self._told: dict[MessageQueue, int] = {}
        self.count = 0

    def hear(self, queue: MessageQueue, lost: Sequence[LostRun]) -> None:
        """Tell of messages that a broker has lost; of each once while reading goes forward.

        Raises:
            MessagesLost: They are an error.
        """
        if not lost:
            return
        runs = [(run.first_queue_offset, run.message_count) for run in lost]
        if self._fails:
            first, count = runs[0]
            raise MessagesLost(
                f"{queue}: {count} messages from queue offset {first} on are lost: their records"
                " are damaged in the broker. To pass over them, do not set fail_on_lost_messages",
                reason="MESSAGES_LOST",
                metadata={"queue_offset": str(first), "count": str(count)},
            )
        known_end = self._told.get(queue, 0)
        for first, count in runs:
            if first < known_end:
                continue  # Read again after a broken connection.
            self._told[queue] = first + count
            self.count += count
            logger.error(
                "%s: %d messages from queue offset %d on are lost: their records are damaged in"
                " the broker; they are passed over",
                queue,
                count,
                first,
            )
