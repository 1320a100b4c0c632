"""Adding messages of any kind to a batch: checked, compressed, encoded one by one."""

from __future__ import annotations

import asyncio
from typing import Final

from ariane_record.errors import RecordError
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk.checks.delay import check_delay, check_delivery_time, is_delayed
from ariane_sdk.checks.limits import check_body_size, checked_tag, refusal_of
from ariane_sdk.checks.property_names import check_property_names
from ariane_sdk.errors import MessageIllegal
from ariane_sdk.message import Message, RelayedMessage, SendResult
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.batches.sent_in import note_span
from ariane_sdk.producer.intake.body_packing import BodyPacking
from ariane_sdk.producer.sending.sending import Sending
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings

TAGS_REMEMBERED_MAX: Final = 4096
"""Tags that are known to be legal."""


class MessageAdding:
    """Adds messages to batches.

    Attributes:
        plain_bytes_max: Largest body in bytes that is stored without a try to compress it.
    """

    def __init__(
        self,
        sending: Sending,
        *,
        settings: ProducerSettings,
        clock: Clock,
        unique_ids: UniqueIdGenerator,
    ) -> None:
        self._sending = sending
        self._unsettled = sending.unsettled
        self._settings = settings
        self._clock = clock
        self._unique_ids = unique_ids
        self._packing = BodyPacking(settings)
        self._tags_seen: set[str] = set()
        self.plain_bytes_max = min(settings.body_bytes_max, self._packing.size_bytes_min - 1)

    def check(self, message: Message) -> None:
        """Check that a message breaks no rule.

        Raises:
            IllegalArgument: The message breaks a rule.
        """
        body_bytes_max = self._settings.body_bytes_max
        if len(message.body) > body_bytes_max:
            check_body_size(len(message.body), body_bytes_max)
        if message.tag not in self._tags_seen:
            if len(self._tags_seen) >= TAGS_REMEMBERED_MAX:
                self._tags_seen.clear()
            self._tags_seen.add(checked_tag(message.tag))
        if message.properties:
            check_property_names(message)
        if is_delayed(message):
            check_delay(message)
            check_delivery_time(message, self._clock.now_ms(), self._settings.delay_days_max)
        if isinstance(message.keys, str):
            raise MessageIllegal(f"keys {message.keys!r}: a tuple of texts is expected, not a text")

    def add(
        self, batch: SendBatch, message: Message, future: asyncio.Future[SendResult] | None
    ) -> None:
        """Add a checked message to an open batch; the first message of a batch has it sent.

        Raises:
            MessageIllegal: The record format cannot hold the message.
        """
        body, system_flag = message.body, 0
        if len(body) >= self._packing.size_bytes_min:
            body, system_flag = self._packing.packed(body)
        if isinstance(message, RelayedMessage):
            unique_id, born_timestamp_ms = message.unique_id, message.born_timestamp_ms
        else:
            unique_id, born_timestamp_ms = self._unique_ids.next_id(), self._clock.now_ms()
        try:
            self._unsettled.size_bytes += batch.add(
                message,
                unique_id,
                born_timestamp_ms,
                future,
                body=body,
                system_flag=system_flag,
            )
        except RecordError as error:
            raise refusal_of(error) from error
        if message.properties:
            note_span(batch, message)
        if batch.count == 1:
            self._sending.add(batch)
