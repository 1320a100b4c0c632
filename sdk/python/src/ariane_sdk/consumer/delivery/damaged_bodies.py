"""Messages whose compressed bodies cannot be read, where columns of bodies are wanted.

A message that is handed out by itself says so when its body is asked for. A column has no such
place: whoever consumes columns gets the other rows, and these messages are given up here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ariane_sdk.consumer.delivery.failed_messages import FailedMessages
from ariane_sdk.consumer.delivery.message_returns import REJECTED, MessageReturns
from ariane_sdk.errors import BodyDamaged
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.log import logger


class BodiesDamaged(BodyDamaged):
    """Some bodies of a pull cannot be read.

    Attributes:
        causes: Why, by the row of the pull.
        messages: Those of them that are wanted, in the order of the queue.
    """

    def __init__(self, causes: Mapping[int, str], messages: Sequence[ReceivedMessage]) -> None:
        super().__init__(f"{len(causes)} bodies cannot be read: {next(iter(causes.values()))}")
        self.causes = causes
        self.messages = messages


class DamagedBodies:
    """Gives up messages whose bodies cannot be read.

    No other try would read them, so they become dead letters at once. Consumers that are no
    members of a group, or broadcast, pass them over: they stay in their queue. The log says where.
    """

    def __init__(self, returns: MessageReturns | None) -> None:
        """Have given up none yet.

        Args:
            returns: Sends messages back; nothing where no group has dead letters.
        """
        self._returns = returns
        self._return_id = "" if returns is None else returns.new_return_id()

    async def give_up(self, queue: MessageQueue, damage: BodiesDamaged) -> bool:
        """Make them dead letters.

        Args:
            queue: Their queue.
            damage: Which.

        Returns:
            Whether the queue may go on behind them.
        """
        if not damage.messages:
            return True
        if self._returns is None:
            self._tell(queue, damage, "passed over")
            return True
        failed = FailedMessages(damage.messages, f"BodyDamaged: {damage}", rejected=True)
        left = await self._returns.send_back(
            failed, queue, return_id=self._return_id, local_attempts=0, reason=REJECTED
        )
        if left:
            return False
        self._tell(queue, damage, "now dead letters")
        return True

    def _tell(self, queue: MessageQueue, damage: BodiesDamaged, fate: str) -> None:
        offsets = [message.queue_offset for message in damage.messages]
        logger.warning(
            "%d messages of %s have bodies that cannot be read and are %s: at %s: %s",
            len(offsets),
            queue,
            fate,
            ", ".join(map(str, offsets[:10])) + (" ..." if len(offsets) > 10 else ""),
            damage,
        )
