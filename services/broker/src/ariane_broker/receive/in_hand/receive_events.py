r"""Events of receiving in the log: one record for each call that changed something.

The body of a record of the topic is events, one behind the other, little-endian::

    int32 bytes of the event, these included
    uint8 kind   uint8 flags   uint16 bytes of group   uint16 of topic   uint16 of holder
    int32 queue_id   int32 n ranges   int32 m attempts
    int64 serial   int64 until_ms   int64 offset
    group   topic   holder
    n x (int64 first, int64 count)   m x int32

    kind        meaning                                                  offset is
    BEGIN       the group begins in the queue; all before it is void     where; serial: reset epoch
    HAND        messages were handed out                                 end of what was looked at
    SETTLE      messages are settled
    HIDE        messages are invisible until then
    FLOOR       the group stored an offset by itself                     that
    SECRET      the key that signs receipts is in the place of holder
    SHIFT       the clock was set: all times move by until_ms
    FORGET      the group was deleted, or its offsets of the topic if one
                is named: all before it is void

The same function applies events while serving and after a restart: ``ReceiveTable.apply``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.in_hand.ranges import Ranges

_HEAD: Final = struct.Struct("<iBBHHHiiiqqq")
_INT64: Final = np.dtype("<i8")
_INT32: Final = np.dtype("<i4")
_NO_QUEUE: Final = QueueKey("", 0)
_NO_RANGES: Final = np.empty((0, 2), np.int64)
_NO_ATTEMPTS: Final = np.empty(0, np.int32)


class EventKind:
    """The kind of an event; the table above explains each.

    Plain numbers, as the marks: each receive compares some, and to name a member of an enumeration
    is a call in Python 3.11.
    """

    BEGIN: Final = 1
    HAND: Final = 2
    SETTLE: Final = 3
    HIDE: Final = 4
    FLOOR: Final = 5
    SECRET: Final = 6
    SHIFT: Final = 7
    FORGET: Final = 8


_KINDS: Final = range(EventKind.BEGIN, EventKind.FORGET + 1)


class EventFlag:
    """Marks of an event."""

    NONE: Final = 0
    PASSED: Final = 1
    """HAND: messages that were looked at and not handed out are settled."""
    GIVEN_BACK: Final = 2
    """HIDE: the receipts are used up."""


class ReceiveEvent(NamedTuple):
    """One change; its kind determines which fields count."""

    kind: int
    """The kind."""
    group: str = ""
    """The consumer group."""
    queue: QueueKey = _NO_QUEUE
    """The queue."""
    flags: int = EventFlag.NONE
    """Its marks."""
    ranges: Ranges = _NO_RANGES
    """The messages, in ascending order."""
    serial: int = 0
    """The receipt's serial."""
    until_ms: int = 0
    """End of their invisible time."""
    offset: int = 0
    """See the table above."""
    attempts: NDArray[np.int32] = _NO_ATTEMPTS
    """Their attempts: one number for each, or one for all."""
    holder: bytes = b""
    """HIDE: the client for which the broker renews the invisible time; empty if a client has set
    the time. SECRET: the key that signs receipts."""


def encode_events(events: Iterable[ReceiveEvent]) -> bytes:
    """Encode events as the body of a record."""
    return b"".join(map(_encoded, events))


def decode_events(body: bytes) -> Iterator[ReceiveEvent]:
    """Decode the events of a body.

    Raises:
        ValueError: The body does not hold events.
    """
    place = 0
    while place < len(body):
        event, place = _decoded(body, place)
        yield event


def _encoded(event: ReceiveEvent) -> bytes:
    group, topic = event.group.encode(), event.queue.topic.encode()
    names = group + topic + event.holder
    ranges = event.ranges.astype(_INT64, copy=False).tobytes()
    attempts = event.attempts.astype(_INT32, copy=False).tobytes()
    head = _HEAD.pack(
        _HEAD.size + len(names) + len(ranges) + len(attempts),
        event.kind,
        event.flags,
        len(group),
        len(topic),
        len(event.holder),
        event.queue.queue_id,
        len(event.ranges),
        len(event.attempts),
        event.serial,
        event.until_ms,
        event.offset,
    )
    return b"".join((head, names, ranges, attempts))


def _decoded(body: bytes, begin: int) -> tuple[ReceiveEvent, int]:
    try:
        size, kind, flags, group_bytes, topic_bytes, holder_bytes, *numbers = _HEAD.unpack_from(
            body, begin
        )
    except struct.error as error:
        raise ValueError(f"an event is cut at byte {begin}") from error
    queue_id, range_count, attempt_count, serial, until_ms, offset = numbers
    topic_at = begin + _HEAD.size + group_bytes
    holder_at = topic_at + topic_bytes
    ranges_at = holder_at + holder_bytes
    attempts_at = ranges_at + 16 * range_count
    end = attempts_at + 4 * attempt_count
    if end != begin + size or end > len(body):
        raise ValueError(f"the event at byte {begin} is not as long as it says")
    if kind not in _KINDS:
        raise ValueError(f"the event at byte {begin} is of no kind: {kind}")
    ranges = np.frombuffer(body, "<i8", 2 * range_count, ranges_at).reshape(-1, 2)
    event = ReceiveEvent(
        kind,
        body[begin + _HEAD.size : topic_at].decode(),
        QueueKey(body[topic_at:holder_at].decode(), queue_id),
        flags,
        ranges.astype(np.int64),
        serial,
        until_ms,
        offset,
        np.frombuffer(body, "<i4", attempt_count, attempts_at).astype(np.int32),
        body[holder_at:ranges_at],
    )
    return event, end
