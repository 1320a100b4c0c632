"""A single message of a request, which the broker encodes as a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ariane_broker.errors.public_errors import message_illegal
from ariane_broker.settings import BrokerSettings
from ariane_record import BlockEncoder, IllegalProperty, RecordTooLarge
from ariane_record.layout import BLANK_SIZE_MIN_BYTES

CALL_BYTES_MAX: Final = 32 << 20
"""Bytes of all records that the plain messages of one call may become."""


class PlainMessage(NamedTuple):
    """A message as a producer sent it; see ``BlockEncoder.add``."""

    body: bytes
    tag: str
    keys: tuple[str, ...]
    unique_id: str
    properties: Mapping[str, str]
    message_group: str
    flag: int
    system_flag: int
    born_timestamp_ms: int

    def add_to(self, encoder: BlockEncoder, position: int) -> None:
        """Add the message to a block.

        Args:
            encoder: The block's encoder.
            position: The message's position in the call, for errors.

        Raises:
            ServiceError: MESSAGE_ILLEGAL.
            BlockFull: The block has no room for the message.
        """
        try:
            encoder.add(
                self.body,
                tag=self.tag,
                keys=self.keys,
                unique_id=self.unique_id,
                properties=self.properties,
                message_group=self.message_group,
                flag=self.flag,
                system_flag=self.system_flag,
                born_timestamp_ms=self.born_timestamp_ms,
            )
        except (IllegalProperty, RecordTooLarge) as error:
            raise message_illegal(position, str(error)) from error


def call_bytes_of(settings: BrokerSettings) -> int:
    """Bytes that the records of one call's plain messages may have: they must fit a segment."""
    return min(settings.segment_bytes - BLANK_SIZE_MIN_BYTES, CALL_BYTES_MAX)
