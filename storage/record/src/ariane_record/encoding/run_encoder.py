"""A block of many plain messages of one tag, which differ only in body and unique id.

The result is byte for byte that of ``encode_rows``. The rows of a table are the records without
their bodies: copies of one row, in which the few octets that differ are then set by column. Small
bodies of one length have room in the rows, and are copied there by column, too. Other bodies stay
where they are, and C joins the pieces when a request is built::

    even      | header  body  tail |          uneven   | header | body | tail  header | body | ...
              | header  body  tail |                     ------   ----   ------------   ----
              | ...                |                      rows    given      rows       given

The first record may have a producer sequence, and is not part of the rows. No record is read for
its sum: CRC-32 is linear, so the sums are computed from the sums of the bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.checksums.crc_algebra import CrcFolder, shifted
from ariane_record.checksums.java_hash import index_hashes_of
from ariane_record.checksums.record_sums import (
    block_crc,
    even_record_crcs,
    record_crcs_of_parts,
)
from ariane_record.encoding.message_properties import (
    RECORD_END,
    EncodedProperties,
    TopicProperties,
)
from ariane_record.encoding.record_table import RECORD_CRCS_COUNT_MIN, RecordTable
from ariane_record.layout import (
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    HEADER,
    HEADER_BYTES,
    ByteBuffer,
    pack_unowned_header,
)
from ariane_record.single.message_id import UniqueIds
from ariane_record.single.producer_sequence import EMPTY_SEQUENCE, SEQUENCE_BYTES

EVEN_BODY_BYTES_MAX: Final = 3072
"""Larger bodies stay where they are, even if all have one length: a copy of them costs more."""

_SIZE_BYTES: Final = 4


def encode_run(
    topic: TopicProperties,
    properties: EncodedProperties,
    bodies: Sequence[bytes],
    body_lengths: NDArray[np.int32],
    unique_ids: UniqueIds,
    *,
    born_timestamp_ms: int,
    sequenced: bool,
    folder: CrcFolder,
) -> RecordTable:
    """Messages of one topic and tag, and nothing else, as one row.

    Args:
        topic: The topic.
        properties: Their properties, of ``TopicProperties.of_tag``.
        bodies: The body of each message; at least one.
        body_lengths: Bytes of each: int32[count].
        unique_ids: The id of each.
        born_timestamp_ms: When they were made, milliseconds since the epoch.
        sequenced: Whether the first record gets room for a producer sequence.
        folder: Adds up sums.
    """
    count = len(bodies)
    sizes = body_lengths + np.int32(properties.overhead_bytes)
    even = len(bodies[0]) <= EVEN_BODY_BYTES_MAX and bool((body_lengths == body_lengths[0]).all())
    body_crcs = np.fromiter(map(crc32_of, bodies), np.uint32, count)
    width = len(bodies[0]) if even else 0
    rows = _rows(topic, properties, width, unique_ids, born_timestamp_ms)
    headers: NDArray[np.void] = rows[:, :HEADER_BYTES].view(HEADER)[:, 0]
    headers["size"] = sizes
    headers["body_crc"] = body_crcs & np.uint32(CRC_MASK)
    headers["body_length"] = body_lengths
    tail_bytes = properties.overhead_bytes - HEADER_BYTES
    others: Sequence[ByteBuffer]
    if even:
        _put_bodies(rows[:, HEADER_BYTES:-tail_bytes], bodies)
        crcs = even_record_crcs(rows, body_crcs, unique_ids.pair_crcs, tail_bytes=tail_bytes)
        others = (rows[1:].reshape(-1).data,)
    else:
        crcs = record_crcs_of_parts(
            np.ascontiguousarray(rows[:, :HEADER_BYTES]),
            body_crcs,
            _tail_crcs(properties, unique_ids),
            body_bytes=body_lengths,
            tail_bytes=tail_bytes - CRC_PROPERTY_BYTES,
        )
        others = _pieces(rows[1:], bodies[1:])
    first = _first_record(properties, rows[0].tobytes(), bodies[0], sequenced=sequenced)
    first_bytes = b"".join(first)
    if sequenced:
        sizes[0] += SEQUENCE_BYTES
        crcs[0] = crc32_of(first_bytes[:-CRC_PROPERTY_BYTES])
    ends = np.cumsum(sizes, dtype=np.int64)
    return RecordTable(
        topics=(topic.name,),
        counts=(count,),
        # The sequence is a piece of its own: ``with_sequence`` puts another in its place.
        pieces=(*first, *others),
        sizes=sizes,
        tag_codes=np.full(count, properties.tag_code, np.int32),
        key_counts=np.ones(count, np.uint8),
        key_hashes=index_hashes_of(unique_ids.hash_words + np.uint32(topic.hash_before_id)),
        crc32=crc32_of(others[0], crc32_of(first_bytes)) if even else block_crc(crcs, ends, folder),
        record_crcs=crcs if count >= RECORD_CRCS_COUNT_MIN else None,
    )


def _rows(
    topic: TopicProperties,
    properties: EncodedProperties,
    body_bytes: int,
    unique_ids: UniqueIds,
    born_timestamp_ms: int,
) -> NDArray[np.uint8]:
    """The records, with zeros for bodies and for their lengths and sums in the headers."""
    header = pack_unowned_header(0, topic.magic, 0, 0, 0, born_timestamp_ms, 0, 0, 0)
    before_id = header + bytes(body_bytes) + properties.before_id
    id_end = len(before_id) + unique_ids.digit_count
    row = before_id + bytes(unique_ids.digit_count) + RECORD_END
    rows = np.frombuffer(bytearray(row) * len(unique_ids), np.uint8).reshape(-1, len(row))
    unique_ids.write(rows[:, len(before_id) : id_end])
    return rows


def _put_bodies(room: NDArray[np.uint8], bodies: Sequence[bytes]) -> None:
    """Copy bodies of one length into their room in the rows."""
    width = room.shape[1]
    if width:
        # As one element each, which numpy copies faster than octets.
        element = f"V{width}"
        room.view(element)[:, 0] = np.frombuffer(b"".join(bodies), element)


def _first_record(
    properties: EncodedProperties, row: bytes, body: bytes, *, sequenced: bool
) -> tuple[bytes, ...]:
    """The first record: before its sequence, the sequence, and after it; or all in one piece."""
    header, tail = row[:HEADER_BYTES], row[HEADER_BYTES - properties.overhead_bytes :]
    if not sequenced:
        return (header + body + tail,)
    size = int.from_bytes(header[:_SIZE_BYTES]) + SEQUENCE_BYTES
    header = size.to_bytes(_SIZE_BYTES) + header[_SIZE_BYTES:]
    behind = properties.behind_sequence + tail[len(properties.before_id) :]
    return header + body + properties.before_sequence, EMPTY_SEQUENCE, behind


def _tail_crcs(properties: EncodedProperties, unique_ids: UniqueIds) -> NDArray[np.uint32]:
    """The sum of the bytes between the body and the last property of each record."""
    pair_bytes = unique_ids.digit_count + 1
    return unique_ids.pair_crcs ^ np.uint32(shifted(crc32_of(properties.before_id), pair_bytes))


def _pieces(rows: NDArray[np.uint8], bodies: Sequence[bytes]) -> Sequence[bytes]:
    """Bodies, and the bytes around them: the tail of one record, the header of the next."""
    count, width = rows.shape
    if not count:
        return ()
    octets = rows.reshape(-1)
    last = len(octets) - width + HEADER_BYTES
    pieces = [b""] * (2 * count + 1)
    pieces[0] = octets[:HEADER_BYTES].tobytes()
    pieces[1::2] = bodies
    pieces[2:-1:2] = octets[HEADER_BYTES:last].view(f"V{width}").tolist()
    pieces[-1] = octets[last:].tobytes()
    return pieces
