"""The delivery time that a sender gives to a message."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from ariane_sdk.checks.message_types import check_types
from ariane_sdk.errors import MessageIllegal
from ariane_sdk.message import Message

AT_ONCE: Final = 0
AT_TIMES: Final = -1
AFTER_DELAYS: Final = -2
"""Kinds of batches besides the delay levels, which start at 1: a batch has one kind."""

DELAY_LEVEL_MAX: Final = (1 << 31) - 1
"""The contract allows no higher level; brokers cut higher levels to their highest one."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS: Final = 86_400_000
_MILLISECOND: Final = timedelta(milliseconds=1)


def is_delayed(message: Message) -> bool:
    """Whether a message is to be delivered later."""
    return (
        message.deliver_at is not None
        or message.delay is not None
        or message.delay_level != AT_ONCE
    )


def check_delay(message: Message) -> None:
    """Refuse an illegal delay.

    Raises:
        MessageIllegal: The delay breaks a rule, which the error names.
    """
    check_types(message)
    ways = (message.deliver_at is not None) + (message.delay is not None)
    if ways + (message.delay_level != AT_ONCE) > 1:
        raise MessageIllegal("a message has one of deliver_at, delay and delay_level")
    if not AT_ONCE <= message.delay_level <= DELAY_LEVEL_MAX:
        raise MessageIllegal(f"delay level {message.delay_level}: 1 is the first, 18 mostly last")
    if message.message_group:
        raise MessageIllegal("a message of a message group stays in order: it cannot be delayed")
    if message.deliver_at is not None and message.deliver_at.utcoffset() is None:
        raise MessageIllegal(f"{message.deliver_at!r} has no time zone")


def check_delivery_time(message: Message, now_ms: int, days_max: float) -> None:
    """Refuse a delivery time that brokers would refuse: the whole batch would fail.

    Args:
        message: A message that ``check_delay`` has passed.
        now_ms: When its delay begins, milliseconds since the epoch.
        days_max: The longest time ahead.

    Raises:
        MessageIllegal: The delivery time is further ahead.
    """
    if delay_kind(message) >= AT_ONCE:
        return
    time_ms = delivery_time_ms(message, now_ms)
    if time_ms - now_ms > days_max * _DAY_MS:
        raise MessageIllegal(
            f"{message.delay or message.deliver_at} is more than {days_max:g} days ahead: the"
            " settings of producer and broker (delay_days_max) say how far it may be",
            reason="DELIVERY_TIME_TOO_LATE",
            metadata={"delivery_time_ms": str(time_ms), "limit_ms": f"{days_max * _DAY_MS:.0f}"},
        )


def delay_kind(message: Message) -> int:
    """The kind of batch that a message needs: a delay level, or one of the three constants."""
    if message.delay is not None:
        return AFTER_DELAYS
    return message.delay_level or (AT_ONCE if message.deliver_at is None else AT_TIMES)


def delay_ms(message: Message) -> int:
    """How long a message with a delay waits, rounded up to milliseconds; at least 1.

    The broker counts it from when it takes the message, by its own clock: the producer's may be
    wrong.
    """
    if message.delay is None:
        raise AssertionError("a message of another kind")
    return max(1, -(message.delay // -_MILLISECOND))


def delivery_time_ms(message: Message, now_ms: int) -> int:
    """When a message with a time is due, rounded up, in milliseconds since the epoch.

    Never fails for a message that ``check_delay`` has passed: its record is already in a batch.

    Args:
        message: The message.
        now_ms: When its delay begins.
    """
    if message.delay is not None:
        return max(1, now_ms + delay_ms(message))
    if message.deliver_at is None:
        raise AssertionError("a message of another kind")
    return max(1, -((_EPOCH - message.deliver_at) // _MILLISECOND))


def expiry_ms(message: Message) -> int:
    """How long a message with ``expire_after`` may be given to consumers, in milliseconds."""
    if message.expire_after is None:
        raise AssertionError("a message that does not expire")
    return message.expire_after // _MILLISECOND


def check_expiry(message: Message, now_ms: int) -> None:
    """Refuse a message that would expire before anybody could get it.

    Args:
        message: A message with ``expire_after``.
        now_ms: When it is sent, milliseconds since the epoch.

    Raises:
        MessageIllegal: It would.
    """
    check_types(message)
    if expiry_ms(message) < 1:
        raise MessageIllegal(f"expire_after {message.expire_after}: a millisecond at least")
    if is_timed(message) and delivery_time_ms(message, now_ms) >= now_ms + expiry_ms(message):
        raise MessageIllegal("the message would expire before its delivery")


def is_timed(message: Message) -> bool:
    """Whether a message has a time or a delay of its own, not that of a level."""
    return message.deliver_at is not None or message.delay is not None
