"""Messages whose compressed bodies cannot be read, for consumers of columns.

A single message raises the error when its body is read. A column cannot: its consumer gets the
other rows, and the damaged messages are given up here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ariane_record.counted import are, counted
from ariane_sdk.consumer.delivery.failed_messages import FailedMessages
from ariane_sdk.consumer.delivery.message_returns import REJECTED, MessageReturns
from ariane_sdk.errors import BodyDamaged
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.log import logger


class BodiesDamaged(BodyDamaged):
    """Some bodies of a pull cannot be read."""

    def __init__(self, causes: Mapping[int, str], messages: Sequence[ReceivedMessage]) -> None:
        first = next(iter(causes.values()))
        super().__init__(f"bodies that cannot be read: {len(causes)}; the first: {first}")
        self.causes = causes
        """The errors, by row of the pull."""
        self.messages = messages
        """The damaged messages that pass the filter, in the order of the queue."""


class DamagedBodies:
    """Gives up messages whose bodies cannot be read.

    Another attempt would fail, too, so they become dead letters at once. Consumers that broadcast
    or are not members of a group skip them: they stay in their queue. The log has their offsets.
    """

    def __init__(self, returns: MessageReturns | None) -> None:
        """``returns`` is None if the consumer's group has no dead letters."""
        self._returns = returns
        self._return_id = "" if returns is None else returns.new_return_id()

    async def give_up(self, queue: MessageQueue, damage: BodiesDamaged) -> bool:
        """Turn damaged messages into dead letters.

        Returns:
            Whether the queue may go on behind them.
        """
        if not damage.messages:
            return True
        if self._returns is None:
            self._log(queue, damage, "passed over")
            return True
        failed = FailedMessages(damage.messages, f"BodyDamaged: {damage}", rejected=True)
        left = await self._returns.send_back(
            failed, queue, return_id=self._return_id, local_attempts=0, reason=REJECTED
        )
        if left:
            return False
        self._log(queue, damage, "now dead letters")
        return True

    def _log(self, queue: MessageQueue, damage: BodiesDamaged, fate: str) -> None:
        offsets = [message.queue_offset for message in damage.messages]
        logger.warning(
            "%s of %s with a body that cannot be read %s %s: at %s: %s",
            counted(len(offsets), "message"),
            queue,
            are(len(offsets)),
            fate,
            ", ".join(map(str, offsets[:10])) + (" ..." if len(offsets) > 10 else ""),
            damage,
        )
