"""Delivery times of plain messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ariane.common.v1.message_pb2 import Message
from ariane_broker.delay.delay import Delay
from ariane_broker.errors.public_errors import message_illegal
from ariane_broker.rpc.translation.wire_time import milliseconds_of, seconds_of

_NANOS_OF_MS: Final = 1_000_000


def delay_of(messages: Sequence[Message]) -> Delay | None:
    """The delay of the messages of a call; None for none.

    Raises:
        ServiceError: MESSAGE_ILLEGAL if not all have the same kind of delay, or FIELD_INVALID.
    """
    ways = [
        (message.HasField("delivery_time"), message.HasField("delay"), message.delay_level)
        for message in messages
    ]
    timed, waits, level = ways[0]
    for position, way in enumerate(ways):
        if way != ways[0]:
            rule = (
                "the messages of a call share a delay level, or all have a delivery time, or all a "
                "delay, or none"
            )
            raise message_illegal(position, rule)
    if timed + waits + bool(level) > 1:
        raise message_illegal(0, "it has two of a delay level, a delivery time and a delay")
    if not (timed or waits):
        return Delay(level) if level else None
    time_of = _delay_ms if waits else delivery_time_ms
    times = [time_of(message, position) for position, message in enumerate(messages)]
    return Delay(times_ms=np.array(times, np.int64), after_arrival=waits)


def _delay_ms(message: Message, position: int) -> int:
    """The delay of a message, rounded up, so that it is not delivered early; at least 1."""
    delay = message.delay
    seconds_of(delay, f"messages[{position}].delay")  # Refuses what is none.
    return max(1, delay.seconds * 1000 - delay.nanos // -_NANOS_OF_MS)


def delivery_time_ms(message: Message, position: int) -> int:
    """The delivery time of a message, rounded up, so that it is not delivered early.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    field = f"messages[{position}].delivery_time"
    time_ms = milliseconds_of(message.delivery_time, field)
    # All times in the past are equivalent.
    return max(1, time_ms + bool(message.delivery_time.nanos % _NANOS_OF_MS))
