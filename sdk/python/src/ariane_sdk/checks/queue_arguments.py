"""Queues, queue offsets and numbers that an application names: what is none is refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.message_queue import MessageQueue

QUEUE_OFFSET_END: Final = 1 << 63
"""Queue offsets are 64 bits, signed."""


def checked_queue(queue: object) -> MessageQueue:
    """Return a queue if it is one.

    Raises:
        IllegalArgument: It is none.
    """
    if isinstance(queue, MessageQueue):
        topic, broker_name, queue_id = queue
        texts: tuple[object, ...] = topic, broker_name
        if all(isinstance(text, str) for text in texts) and type(queue_id) is int:
            return queue
    raise IllegalArgument(f"queue {queue!r:.100}: a MessageQueue is expected")


def checked_queues(queues: object) -> set[MessageQueue]:
    """Return queues if all are.

    Raises:
        IllegalArgument: One is none, or they cannot be iterated.
    """
    if not isinstance(queues, Iterable) or isinstance(queues, str | bytes | MessageQueue):
        raise IllegalArgument(f"queues {queues!r:.100}: several of MessageQueue are expected")
    return set(map(checked_queue, queues))


def checked_offset(queue_offset: object) -> int:
    """Return a queue offset if it is one.

    Raises:
        IllegalArgument: It is none.
    """
    if type(queue_offset) is not int or not 0 <= queue_offset < QUEUE_OFFSET_END:
        raise IllegalArgument(
            f"queue offset {queue_offset!r:.100}: an integer of 0 or more, and of 63 bits at most"
        )
    return queue_offset


def checked_offsets(offsets: object) -> Mapping[MessageQueue, int]:
    """Return a table of queue offsets by queue if it is one.

    Raises:
        IllegalArgument: It is none.
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
    """Return a number of at least one if it is one.

    Raises:
        IllegalArgument: It is none.
    """
    if type(count) is not int or count < 1:
        raise IllegalArgument(f"{name} {count!r:.100}: an integer of 1 or more is expected")
    return count
