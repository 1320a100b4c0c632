"""From a message to what a row holds of it: checked, compressed, its properties encoded."""

from __future__ import annotations

from typing import Final

from ariane_record.encoding.message_properties import EncodedProperties, TopicProperties
from ariane_record.errors import RecordError
from ariane_record.layout import PropertyName, SystemFlag
from ariane_record.single.compression import BodyPacking
from ariane_sdk.checks.delay import (
    AFTER_DELAYS,
    AT_ONCE,
    check_delay,
    check_delivery_time,
    check_expiry,
    delay_ms,
    delivery_time_ms,
    expiry_ms,
    is_delayed,
)
from ariane_sdk.checks.limits import check_body_size, checked_tag, refusal_of
from ariane_sdk.checks.property_names import check_property_names
from ariane_sdk.errors import MessageIllegal
from ariane_sdk.message import Message, RelayedMessage
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings

TAGS_REMEMBERED_MAX: Final = 4096
"""Tags that are known to be legal."""


class MessageEncoding:
    """Checks and encodes messages."""

    def __init__(self, *, settings: ProducerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self.packing = BodyPacking(
            settings.compression,
            settings.compression_level,
            size_bytes_min=settings.compress_bytes_min,
        )
        """Compresses bodies."""
        self._tags_seen: set[str] = set()
        self.plain_bytes_max = min(settings.body_bytes_max, self.packing.size_bytes_min - 1)
        """Largest body in bytes that is stored without a try to compress it."""

    def check(self, message: Message) -> None:
        """Check that a message breaks no rule.

        Raises:
            IllegalArgument: The message breaks a rule.
        """
        body, body_bytes_max = message.body, self._settings.body_bytes_max
        size_bytes = len(body) if type(body) is bytes else memoryview(body).nbytes
        if size_bytes > body_bytes_max:
            check_body_size(size_bytes, body_bytes_max)
        if message.tag not in self._tags_seen:
            if len(self._tags_seen) >= TAGS_REMEMBERED_MAX:
                self._tags_seen.clear()
            self._tags_seen.add(checked_tag(message.tag))
        if message.properties:
            check_property_names(message)
        if is_delayed(message):
            check_delay(message)
            check_delivery_time(message, self._clock.now_ms(), self._settings.delay_days_max)
        if message.expire_after is not None:
            check_expiry(message, self._clock.now_ms())
        if isinstance(message.keys, str):
            raise MessageIllegal(f"keys {message.keys!r}: a tuple of texts is expected, not a text")

    def encode(self, topic: TopicProperties, message: Message) -> tuple[bytes, EncodedProperties]:
        """The stored body of a checked message, and its properties.

        Raises:
            MessageIllegal: The record format cannot hold the message.
        """
        body, system_flag = message.body, 0
        pairs = message.stored_properties
        unique_id = message.unique_id if isinstance(message, RelayedMessage) else ""
        if message.expire_after is not None:
            at_ms = self._clock.now_ms() + expiry_ms(message)
            pairs = {**pairs, PropertyName.EXPIRES_AT: str(at_ms)}
        if len(body) >= self.packing.size_bytes_min:
            body, system_flag = self.packing.packed(body)
        if message.expire_after is not None:
            system_flag |= SystemFlag.EXPIRES
        is_usual = message.keys == () and message.message_group == "" and message.flag == 0
        try:
            if is_usual and not (pairs or system_flag or unique_id):
                properties = topic.of_tag(message.tag)
            else:
                properties = topic.encode(
                    tag=message.tag,
                    keys=message.keys,
                    properties=pairs,
                    message_group=message.message_group,
                    flag=message.flag,
                    system_flag=system_flag,
                    unique_id=unique_id,
                )
        except RecordError as error:
            raise refusal_of(error) from error
        return body if type(body) is bytes else bytes(memoryview(body)), properties


def time_of(message: Message, kind: int, now_ms: int) -> int:
    """When a message is due, or how long it is delayed, in milliseconds; 0 without either.

    Args:
        message: The message.
        kind: Its kind of delay.
        now_ms: When its delay begins.
    """
    if kind >= AT_ONCE:
        return 0
    return delay_ms(message) if kind == AFTER_DELAYS else delivery_time_ms(message, now_ms)
