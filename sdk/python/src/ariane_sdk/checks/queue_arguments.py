"""Checks of queues, queue offsets and numbers from an application; errors name the value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.message_queue import MessageQueue

QUEUE_OFFSET_END: Final = 1 << 63
"""Queue offsets are 64 bits, signed."""


def checked_queue(queue: object) -> MessageQueue:
    """Return the value if it is a queue.

    Raises:
        IllegalArgument: It is not a queue.
    """
    if isinstance(queue, MessageQueue):
        topic, broker_name, queue_id = queue
        texts: tuple[object, ...] = topic, broker_name
        if all(isinstance(text, str) for text in texts) and type(queue_id) is int:
            return queue
    raise IllegalArgument(f"queue {queue!r:.100}: a MessageQueue is expected")


def checked_queues(queues: object) -> set[MessageQueue]:
    """Return the values as a set if all are queues.

    Raises:
        IllegalArgument: One is not a queue, or they cannot be iterated.
    """
    if not isinstance(queues, Iterable) or isinstance(queues, str | bytes | MessageQueue):
        raise IllegalArgument(f"queues {queues!r:.100}: several of MessageQueue are expected")
    return set(map(checked_queue, queues))


def checked_offset(queue_offset: object) -> int:
    """Return the value if it is a queue offset.

    Raises:
        IllegalArgument: It is not a queue offset.
    """
    if type(queue_offset) is not int or not 0 <= queue_offset < QUEUE_OFFSET_END:
        raise IllegalArgument(
            f"queue offset {queue_offset!r:.100}: an integer of 0 or more, and of 63 bits at most"
        )
    return queue_offset


def checked_offsets(offsets: object) -> Mapping[MessageQueue, int]:
    """Return the value if it is a table of queue offsets by queue.

    Raises:
        IllegalArgument: It is not such a table.
    """
    if not isinstance(offsets, Mapping):
        raise IllegalArgument(
            f"offsets {offsets!r:.100}: queue offsets by MessageQueue are expected"
        )
    return {
        checked_queue(queue): checked_offset(queue_offset)
        for queue, queue_offset in offsets.items()
    }


def checked_count(name: str, count: object) -> int:
    """Return the value if it is an integer of at least one.

    Raises:
        IllegalArgument: It is not.
    """
    if type(count) is not int or count < 1:
        raise IllegalArgument(f"{name} {count!r:.100}: an integer of 1 or more is expected")
    return count
