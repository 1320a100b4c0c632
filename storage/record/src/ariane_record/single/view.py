"""A received message: the body at hand, all other fields decoded on access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.counted import counted
from ariane_record.errors import RecordCorrupted
from ariane_record.layout import (
    HEADER_BYTES,
    HEADER_STRUCTS,
    HOST_FLAGS,
    MAGIC_V1,
    RECORD_BYTES_MIN,
    ByteBuffer,
    Host,
    PropertyName,
    SystemFlag,
)
from ariane_record.priority import priority_of
from ariane_record.single.compression import original_body
from ariane_record.single.counted_topic import counted_topic as counted_topic_of
from ariane_record.single.message import find_spans, split_keys
from ariane_record.single.message_id import encode_offset_message_id
from ariane_record.single.properties import decode_properties, property_finder

_find_keys = property_finder(PropertyName.KEYS)
_find_message_group = property_finder(PropertyName.MESSAGE_GROUP)
_find_priority = property_finder(PropertyName.PRIORITY)
_find_tag = property_finder(PropertyName.TAGS)
_find_unique_id = property_finder(PropertyName.UNIQUE_ID)

_COMPRESSED: Final = int(SystemFlag.COMPRESSED)
_LONG_WAY: Final = HOST_FLAGS | _COMPRESSED
"""Flags of records that are not decoded inline."""

_unpack_ipv4_header = HEADER_STRUCTS[False, False].unpack_from


@lru_cache(maxsize=1024)
def _address_text(octets: bytes) -> str:
    """A host's address as text: there are few hosts for many messages."""
    return str(ip_address(octets))


class MessageView:
    """One message out of many: cheap to make, as most listeners read the body and little else."""

    __slots__ = ("_encoded_properties", "_header", "_properties", "_stored_body", "body", "topic")

    topic: str
    """The topic."""
    body: bytes
    """The body, decompressed on first access if it is stored compressed, which may raise
    ``BodyDamaged`` or ``CodecMissing``."""
    _stored_body: bytes

    def __init__(
        self, topic: str, body: bytes, header: tuple[Any, ...], encoded_properties: bytes
    ) -> None:
        """Take the parts.

        Args:
            topic: The topic.
            body: The body; for a compressed one use ``compressed_view``.
            header: The values of ``layout.HEADER``, in its order; the addresses as bytes.
            encoded_properties: The properties as stored.
        """
        self.topic = topic
        self.body = body
        self._header = header
        self._encoded_properties = encoded_properties
        self._properties: dict[str, str] | None = None

    if not TYPE_CHECKING:  # Type checkers would accept any name as an attribute.

        def __getattr__(self, name: str) -> bytes:
            # Python calls this only for a slot that was never set, so other messages pay nothing.
            if name != "body" or not self._header[7] & _COMPRESSED:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.body = original_body(self._stored_body, self._header[7])
            return self.body

    @property
    def stored_body(self) -> bytes:
        """The body as stored; ``system_flag`` shows whether and how it is compressed."""
        return self._stored_body if self._header[7] & _COMPRESSED else self.body

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties, including those of the system, except those of the stored record only."""
        properties = self._properties
        if properties is None:
            properties = decode_properties(self._encoded_properties)
            properties.pop(PropertyName.CHECKSUM, None)
            properties.pop(PropertyName.PRODUCER_SEQUENCE, None)
            self._properties = properties
        return properties

    @property
    def tag(self) -> str:
        """The tag, or an empty text."""
        return _find_tag(self._encoded_properties)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys by which the message can be found."""
        return split_keys(_find_keys(self._encoded_properties))

    @property
    def message_group(self) -> str:
        """The ordering key, or an empty text."""
        return _find_message_group(self._encoded_properties)

    @property
    def priority(self) -> int:
        """The priority that its producer gave; 0 if the property is not a number."""
        return priority_of(_find_priority(self._encoded_properties)) or 0

    @property
    def unique_id(self) -> str:
        """The id that the producer gave, or an empty text."""
        return _find_unique_id(self._encoded_properties)

    @property
    def message_id(self) -> str:
        """The unique id that the producer gave, or else the offset message id."""
        return self.unique_id or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The message id with the record's place."""
        return encode_offset_message_id(self.store_host, self.commit_log_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of the record."""
        size: int = self._header[0]
        return size

    @property
    def queue_id(self) -> int:
        """The message queue within the topic and its broker."""
        queue_id: int = self._header[3]
        return queue_id

    @property
    def flag(self) -> int:
        """Free for the application."""
        flag: int = self._header[4]
        return flag

    @property
    def queue_offset(self) -> int:
        """Index of the message in its queue."""
        queue_offset: int = self._header[5]
        return queue_offset

    @property
    def commit_log_offset(self) -> int:
        """Byte position of the record in the commit log."""
        commit_log_offset: int = self._header[6]
        return commit_log_offset

    @property
    def system_flag(self) -> int:
        """Bits of ``SystemFlag``."""
        system_flag: int = self._header[7]
        return system_flag

    @property
    def born_timestamp_ms(self) -> int:
        """When the producer made the message."""
        born_timestamp_ms: int = self._header[8]
        return born_timestamp_ms

    @property
    def born_host(self) -> Host:
        """The producer, as the broker saw it."""
        return _address_text(self._header[9]), self._header[10]

    @property
    def store_timestamp_ms(self) -> int:
        """When the broker stored the message."""
        store_timestamp_ms: int = self._header[11]
        return store_timestamp_ms

    @property
    def store_host(self) -> Host:
        """The broker."""
        return _address_text(self._header[12]), self._header[13]

    @property
    def attempts(self) -> int:
        """How often the message was consumed before."""
        attempts: int = self._header[14]
        return attempts

    def __repr__(self) -> str:
        return (
            f"<MessageView {self.topic!r} queue {self.queue_id} at {self.queue_offset},"
            f" {counted(len(self.stored_body), 'byte')}>"
        )


def compressed_view(
    topic: str, stored_body: bytes, header: tuple[Any, ...], encoded_properties: bytes
) -> MessageView:
    """A message whose body is stored compressed.

    Args:
        topic: The topic.
        stored_body: The body as stored.
        header: As for ``MessageView``; its system flag has the compression of the body.
        encoded_properties: As for ``MessageView``.
    """
    view = MessageView(topic, b"", header, encoded_properties)
    del view.body
    view._stored_body = stored_body  # noqa: SLF001 - this makes it.
    return view


def iter_messages(
    records: ByteBuffer, sizes: NDArray[np.integer[Any]], topic: str = ""
) -> Iterator[MessageView]:
    """The messages of contiguous records, about 0.8 us each.

    Args:
        records: The records; anything but ``bytes`` is copied once.
        sizes: Bytes of each, an integer[count].
        topic: The topic that the first one likely has; it costs less then.

    Raises:
        RecordCorrupted: A record is malformed. Checksums are not compared.
    """
    if not isinstance(records, bytes):
        records = bytes(records)
    record_sizes: list[int] = sizes.tolist()
    if sum(record_sizes) != len(records):
        raise RecordCorrupted(f"{sum(record_sizes)} bytes announced, {len(records)} are there")
    counted_topic = b""
    if topic:
        magic, counted_name = counted_topic_of(topic)
        counted_topic = counted_name if magic == MAGIC_V1 else b""
    start = 0
    for position, size in enumerate(record_sizes):
        end = start + size
        # Most records are V1, have IPv4 hosts and the same topic as the one before: they are
        # decoded inline, and all others by the general functions.
        if counted_topic and size >= RECORD_BYTES_MIN:
            header = _unpack_ipv4_header(records, start)
            body_start = start + HEADER_BYTES
            body_end = body_start + header[16]
            properties_start = body_end + len(counted_topic) + 2
            if (
                header[0] == size
                and header[1] == MAGIC_V1
                and not header[7] & _LONG_WAY
                and body_start <= body_end
                and properties_start <= end
                and records.startswith(counted_topic, body_end)
                and records[properties_start - 2] << 8 | records[properties_start - 1]
                == end - properties_start
            ):
                yield MessageView(
                    topic,
                    records[body_start:body_end],
                    header,
                    records[properties_start:end],
                )
                start = end
                continue
        try:
            spans = find_spans(records, start, size)
            topic = str(records[spans.topic], "utf-8")
        except UnicodeDecodeError:
            raise RecordCorrupted("its topic is no UTF-8", position) from None
        except RecordCorrupted as error:
            raise RecordCorrupted(error.reason, position) from None
        counted_topic = records[spans.topic.start - 1 : spans.topic.stop]
        make = compressed_view if spans.header[7] & _COMPRESSED else MessageView
        yield make(topic, records[spans.body], spans.header, records[spans.properties])
        start = end
