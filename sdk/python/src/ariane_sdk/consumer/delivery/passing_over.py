"""Passing over messages that a broadcasting consumer fails on: no broker takes them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ariane_record.counted import are, counted
from ariane_sdk.consumer.delivery.failed_messages import FailedMessages
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.log import logger

ATTEMPTS_MAX: Final = 3
"""How often a message is repeated, unless the consumer's settings say otherwise."""


class PassingOver:
    """Passes over messages after some attempts."""

    def __init__(self, attempts_max: int) -> None:
        """Repeat a message so often before; 0: the usual number of times."""
        self.count = 0
        """How many messages were passed over."""
        self._attempts_max = attempts_max or ATTEMPTS_MAX

    def is_last(self, tries: int) -> bool:
        """Whether the attempt after so many others was the last one."""
        return tries >= self._attempts_max

    def left(
        self, failed: FailedMessages, queue: MessageQueue, tries: int
    ) -> Sequence[ReceivedMessage]:
        """The messages to deliver again; none after their last attempt, or if rejected."""
        if not (failed.rejected or self.is_last(tries)):
            return failed.messages
        self.count += len(failed.messages)
        logger.error(
            "%s of %s %s passed over after %s, at %s: %s",
            counted(len(failed.messages), "message"),
            queue,
            are(len(failed.messages)),
            counted(tries + 1, "attempt"),
            ", ".join(str(message.queue_offset) for message in failed.messages[:10]),
            failed.cause,
        )
        return []
