"""Encodes the messages of a table: row after row, each row for one queue, all of them in one go.

The result is byte for byte that of a ``BlockEncoder`` for each row. What is the same for all
messages of a topic and tag is known before; the rest is done by column::

    header | body | topic, length of the properties, sequence, pairs | id    | group, __CRC32#
    ------   ----   ------------------------------------------------   -----   ---------------
    numpy    given  the first of a row alone has the sequence          numpy   given

Of a few messages the columns would cost more than the messages: they are encoded one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, repeat
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_ordering import java_string_hash
from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.checksums.java_hash import index_hash, index_hashes_of, key_hash
from ariane_record.encoding.block import pack_unowned_header, record_crcs_of
from ariane_record.encoding.message_properties import EncodedProperties, TopicProperties
from ariane_record.encoding.record_table import RecordTable
from ariane_record.layout import CRC_MASK, HEADER, HEADER_BYTES, MAGIC_V1, ByteBuffer
from ariane_record.single.message_id import UniqueIds
from ariane_record.single.producer_sequence import (
    SEQUENCE_BYTES,
    ProducerSequence,
    encode_sequence,
)
from ariane_record.single.wire_fields import int32s

FEW: Final = 8
"""Fewer messages are encoded one by one."""

_before_of = attrgetter("before_id")
_behind_of = attrgetter("behind_id")
_overhead_of = attrgetter("overhead_bytes")
_code_of = attrgetter("tag_code")
_keys_of = attrgetter("key_hashes")
_own_id_of = attrgetter("unique_id")
_flag_of = attrgetter("flag")
_system_flag_of = attrgetter("system_flag")


class MessageRows(NamedTuple):
    """Messages to encode, row after row."""

    topics: Sequence[TopicProperties]
    """The topic of each row."""
    counts: Sequence[int]
    """The number of messages of each, 1 or more."""
    sequences: Sequence[ProducerSequence | None]
    """Each row's place in the stream of its producer; None for a row in no stream."""
    sizes_bytes: Sequence[int]
    """Bytes of the records of each row, with its sequence."""
    bodies: Sequence[bytes]
    """The body of each message."""
    properties: Sequence[EncodedProperties]
    """Its properties."""
    born_timestamps_ms: Sequence[int]
    """When each was made, milliseconds since the epoch."""


class EncodedRows(NamedTuple):
    """Encoded rows, one after the other. Columns on the wire are little-endian."""

    topics: Sequence[TopicProperties]
    """The topic of each row."""
    counts: Sequence[int]
    """The number of records of each."""
    records: bytes
    """All records."""
    sizes: Sequence[int]
    """Bytes of each record."""
    tag_codes: bytes
    """Hash of the tag of each: n x int32."""
    key_counts: bytes
    """The number of index keys of each: n x uint8."""
    key_hashes: bytes
    """Their hashes, the id first: int32 each."""
    crc32: int
    """CRC-32 of all records."""

    def table(self) -> RecordTable:
        """The same as a table of records, for what is sent with others or once more."""
        sizes = np.array(self.sizes, np.int32)
        return RecordTable(
            topics=[topic.name for topic in self.topics],
            counts=self.counts,
            pieces=(self.records,),
            sizes=sizes,
            tag_codes=np.frombuffer(self.tag_codes, "<i4"),
            key_counts=np.frombuffer(self.key_counts, np.uint8),
            key_hashes=np.frombuffer(self.key_hashes, "<i4"),
            crc32=self.crc32,
            record_crcs=record_crcs_of(self.records, sizes),
        )


def encode_rows(rows: MessageRows, unique_ids: UniqueIds) -> EncodedRows:
    """Encode messages.

    Args:
        rows: The messages, at least one.
        unique_ids: The id of each, for those that have none from elsewhere.
    """
    return _encode_few(rows, unique_ids) if len(unique_ids) < FEW else _encode(rows, unique_ids)


def _encode(rows: MessageRows, unique_ids: UniqueIds) -> EncodedRows:
    """Encode messages by column."""
    digits = unique_ids.digits
    count = len(digits)
    bodies, properties = rows.bodies, rows.properties
    befores = list(map(_before_of, properties))
    body_lengths = np.fromiter(map(len, bodies), np.int32, count)
    sizes = body_lengths + np.fromiter(map(_overhead_of, properties), np.int32, count)
    sequenced: list[int] = []
    firsts = accumulate(rows.counts[:-1], initial=0)
    for first, sequence, row_count, size_bytes in zip(
        firsts, rows.sequences, rows.counts, rows.sizes_bytes, strict=True
    ):
        if sequence is not None:
            befores[first] = _with_sequence(properties[first], sequence, row_count, size_bytes)
            sequenced.append(first)
    sizes[sequenced] += SEQUENCE_BYTES
    headers = _headers(rows, body_lengths, sizes)
    ids = digits.view(f"S{digits.shape[1]}").ravel().tolist()
    own_ids = [place for place, own_id in enumerate(map(_own_id_of, properties)) if own_id]
    for place in own_ids:
        ids[place] = b""
    # Not as a list: the garbage collector would scan each of them.
    pieces = zip(headers, bodies, befores, ids, map(_behind_of, properties), strict=True)
    records = b"".join(chain.from_iterable(pieces))
    hashes_before_ids = np.array([topic.hash_before_id for topic in rows.topics], np.uint32)
    id_hashes = index_hashes_of(unique_ids.hash_words + np.repeat(hashes_before_ids, rows.counts))
    if own_ids:
        topics = list(chain.from_iterable(map(repeat, rows.topics, rows.counts)))
        for place in own_ids:
            id_hashes[place] = key_hash(topics[place].name, properties[place].unique_id)
    key_counts, key_hashes = _with_keys(id_hashes, list(map(_keys_of, properties)))
    return EncodedRows(
        topics=rows.topics,
        counts=rows.counts,
        records=records,
        sizes=sizes.tolist(),
        tag_codes=np.fromiter(map(_code_of, properties), "<i4", count).tobytes(),
        key_counts=key_counts,
        key_hashes=key_hashes,
        crc32=crc32_of(records),
    )


def _encode_few(rows: MessageRows, unique_ids: UniqueIds) -> EncodedRows:
    """Encode messages one by one."""
    pieces: list[ByteBuffer] = []
    sizes: list[int] = []
    key_counts: list[int] = []
    hashes: list[int] = []
    messages = zip(
        rows.bodies, rows.properties, rows.born_timestamps_ms, unique_ids.texts(), strict=True
    )
    by_row = zip(rows.topics, rows.counts, rows.sequences, rows.sizes_bytes, strict=True)
    for topic, count, sequence, size_bytes in by_row:
        for place in range(count):
            body, properties, born_ms, unique_id = next(messages)
            size = len(body) + properties.overhead_bytes
            before_id = properties.before_id
            if sequence is not None and not place:
                size += SEQUENCE_BYTES
                before_id = _with_sequence(properties, sequence, count, size_bytes)
            header = pack_unowned_header(
                size,
                topic.magic,
                crc32_of(body) & CRC_MASK,
                properties.flag,
                properties.system_flag,
                born_ms,
                len(body),
            )
            if properties.unique_id:
                pieces += (header, body, before_id, properties.behind_id)
                hashes.append(key_hash(topic.name, properties.unique_id))
            else:
                pieces += (header, body, before_id, unique_id.encode(), properties.behind_id)
                hashes.append(index_hash(topic.hash_before_id + java_string_hash(unique_id)))
            sizes.append(size)
            key_counts.append(1 + len(properties.key_hashes))
            hashes += properties.key_hashes
    records = b"".join(pieces)
    return EncodedRows(
        topics=rows.topics,
        counts=rows.counts,
        records=records,
        sizes=sizes,
        tag_codes=int32s(list(map(_code_of, rows.properties))),
        key_counts=bytes(key_counts),
        key_hashes=int32s(hashes),
        crc32=crc32_of(records),
    )


def _with_sequence(
    properties: EncodedProperties, sequence: ProducerSequence, count: int, size_bytes: int
) -> bytes:
    """The bytes between body and id of the first message of a row."""
    encoded = encode_sequence(sequence, count, size_bytes)
    return properties.before_sequence + encoded + properties.behind_sequence


def _headers(
    rows: MessageRows, body_lengths: NDArray[np.int32], sizes: NDArray[np.int32]
) -> list[bytes]:
    """The fixed part of each record, with zeros in the fields that the broker owns."""
    count = len(sizes)
    crcs = np.fromiter(map(crc32_of, rows.bodies), np.uint32, count)
    headers: NDArray[np.void] = np.zeros(count, HEADER)
    headers["size"] = sizes
    headers["magic"] = MAGIC_V1
    if any(topic.magic != MAGIC_V1 for topic in rows.topics):
        headers["magic"] = np.repeat([topic.magic for topic in rows.topics], rows.counts)
    headers["body_crc"] = crcs & np.uint32(CRC_MASK)
    headers["flag"] = np.fromiter(map(_flag_of, rows.properties), np.int32, count)
    headers["system_flag"] = np.fromiter(map(_system_flag_of, rows.properties), np.int32, count)
    headers["born_timestamp"] = rows.born_timestamps_ms
    headers["body_length"] = body_lengths
    encoded: list[bytes] = headers.view(f"V{HEADER_BYTES}").tolist()
    return encoded


def _with_keys(
    id_hashes: NDArray[np.int32], keys: Sequence[tuple[int, ...]]
) -> tuple[bytes, bytes]:
    """The number of keys of each message, and the hashes of all, each message's id first."""
    if not any(keys):
        return b"\x01" * len(keys), id_hashes.astype("<i4", copy=False).tobytes()
    counts = np.fromiter(map(len, keys), np.int64, len(keys)) + 1
    hashes = np.empty(int(counts.sum()), "<i4")
    is_key = np.ones(len(hashes), np.bool_)
    is_key[np.cumsum(counts) - counts] = False
    hashes[~is_key] = id_hashes
    hashes[is_key] = list(chain.from_iterable(keys))
    return counts.astype(np.uint8).tobytes(), hashes.tobytes()
