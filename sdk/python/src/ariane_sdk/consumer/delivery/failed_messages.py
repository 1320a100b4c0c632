"""What a listener said of messages that it was not done with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ariane_record.layout import PropertyName
from ariane_sdk.errors import MessagesFailed
from ariane_sdk.message import ReceivedMessage


@dataclass(frozen=True, slots=True)
class FailedMessages:
    """Messages of one delivery that are not done.

    Attributes:
        messages: In the order of the queue; at least one.
        cause: Why, for people.
        rejected: Whether another try is of no use.
        named: Whether the listener said which they are; else the fault may be of any of them.
    """

    messages: Sequence[ReceivedMessage]
    cause: str
    rejected: bool = False
    named: bool = False


def failed_messages(delivered: Sequence[ReceivedMessage], error: Exception) -> FailedMessages:
    """Which messages failed, as the error that a listener raised says it.

    If the error names messages that the listener did not get, all of them failed.
    """
    if isinstance(error, MessagesFailed):
        named = set(map(id, error.messages))
        left = [message for message in delivered if id(message) in named]
        if left and len(left) == len(named):
            return FailedMessages(left, str(error), error.rejected, named=True)
    cause = f"{type(error).__qualname__}: {error}"
    return FailedMessages(delivered, cause, named=len(delivered) == 1)


def restore_topics(messages: Sequence[ReceivedMessage]) -> None:
    """Give messages of a retry topic the topic that they were sent to."""
    for message in messages:
        message.topic = message.properties.get(PropertyName.RETRY_TOPIC) or message.topic
