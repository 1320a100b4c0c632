"""Records that a broker writes for itself: a body, and nothing beside it.

::

    header | body | topic | 20 | checksum of all before

Nothing of them comes from a client, so nothing is checked, and there are no columns: each is
encoded with all fields of the broker in one step.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ariane_record.checksums.checksum import crc32
from ariane_record.layout import (
    CRC_DIGITS,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    HEADER_BYTES,
    PROPERTY_VALUE_END,
    SystemFlag,
)
from ariane_record.single.counted_topic import counted_topic
from ariane_record.single.message import EMPTY_HOST
from ariane_storage.writing.append import IPV4_FIELD_BYTES, host_field

_PROPERTIES_LENGTH: Final = CRC_PROPERTY_BYTES.to_bytes(2, "big")
_CHECKSUM: Final = CRC_PROPERTY_PREFIX + b"%b" + PROPERTY_VALUE_END


class OwnRecords:
    """Encodes the records of one store."""

    def __init__(self, store_field: bytes) -> None:
        """``store_field`` is the store's host as a record has it."""
        born_field, width = host_field(EMPTY_HOST), len(store_field)
        self._fixed_bytes: Final = (
            HEADER_BYTES + width - IPV4_FIELD_BYTES + len(_PROPERTIES_LENGTH) + CRC_PROPERTY_BYTES
        )
        self._flag: Final = int(SystemFlag.STORE_HOST_IPV6) if width > IPV4_FIELD_BYTES else 0
        self._hosts: Final = born_field, store_field
        # Size, magic, body CRC, queue id, both offsets, system flag, born timestamp, born host,
        # store timestamp, store host, body length. The flag, attempts and half offset are zeros.
        self._pack_header: Final = Struct(f">iIIi4xqqiq{len(born_field)}sq{width}s12xi").pack

    def size_bytes(self, topic: str, body: bytes) -> int:
        """Bytes of the record of a body."""
        return self._fixed_bytes + len(counted_topic(topic)[1]) + len(body)

    def encoded(  # noqa: PLR0917 - the fields of a record.
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        queue_offset: int,
        commit_log_offset: int,
        timestamp_ms: int,
    ) -> bytes:
        """The record of a body at its place, made and stored at the same time.

        Args:
            topic: Its topic.
            queue_id: Its queue.
            body: The body.
            queue_offset: Its place in the queue.
            commit_log_offset: Its place in the log.
            timestamp_ms: When it is stored, milliseconds since the epoch.
        """
        magic, counted = counted_topic(topic)
        born_field, store_field = self._hosts
        header = self._pack_header(
            self._fixed_bytes + len(counted) + len(body),
            magic,
            crc32(body) & CRC_MASK,
            queue_id,
            queue_offset,
            commit_log_offset,
            self._flag,
            timestamp_ms,
            born_field,
            timestamp_ms,
            store_field,
            len(body),
        )
        summed = header + body + counted + _PROPERTIES_LENGTH
        # The digits are least significant first.
        digits = (b"%0*d" % (CRC_DIGITS, crc32(summed) & CRC_MASK))[::-1]
        return summed + _CHECKSUM % digits
