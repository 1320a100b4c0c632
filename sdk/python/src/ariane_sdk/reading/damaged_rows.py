"""Records with damaged bodies: the error of one, and the records around it."""

from __future__ import annotations

from ariane_record.decoding.columns import RecordColumns
from ariane_sdk.errors import BodyDamaged
from ariane_sdk.message_queue import MessageQueue


def body_damaged(queue: MessageQueue, queue_offset: int, cause: str) -> BodyDamaged:
    """The error of one message.

    Args:
        queue: Its queue.
        queue_offset: Its queue offset.
        cause: Why its body cannot be read.
    """
    return BodyDamaged(
        f"{queue} at {queue_offset}: {cause}", metadata={"queue_offset": str(queue_offset)}
    )


def some_rows(columns: RecordColumns, begin: int, end: int) -> memoryview:
    """The bytes of neighbouring records."""
    starts = [*columns.starts.tolist(), int(columns.sizes.sum())]
    return memoryview(columns.records)[starts[begin] : starts[end]]
