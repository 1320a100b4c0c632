"""Encodes columns of messages as one row: byte for byte the result of ``encode_rows``.

One Arrow kernel joins every record, piece by piece and row by row in C++::

    header | body | topic | length of the properties | properties ... | __CRC32#
    ------   ----   -----   ------------------------   ----------------------------
    numpy    given  same    numpy                      text kernels, constants between them

No Python statement runs once per message; the CRC of each body is one call of C from C.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.checksums.crc_algebra import row_crcs
from ariane_record.checksums.java_hash import tag_code
from ariane_record.checksums.record_sums import record_crcs_of_parts, without_last_property
from ariane_record.encoding.columns.arrow_texts import (
    binaries,
    bounds_of,
    constant,
    even_binaries,
    index_hashes,
    joined,
    lengths_of,
    octets_of,
    own_octets,
)
from ariane_record.encoding.columns.message_columns import MessageColumns
from ariane_record.encoding.record_table import (
    RECORD_CRCS_COUNT_MIN,
    RecordTable,
    headers_of,
    with_keys,
)
from ariane_record.errors import IllegalColumn, RecordTooLarge
from ariane_record.layout import (
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    EMPTY_CRC_PROPERTY,
    HEADER_BYTES,
    KEY_SEPARATOR,
    PRODUCER_PROPERTIES_BYTES_MAX,
    PROPERTY_NAME_END,
    PROPERTY_VALUE_END,
    ByteBuffer,
    PropertyName,
)
from ariane_record.single.counted_topic import counted_topic
from ariane_record.single.producer_sequence import EMPTY_SEQUENCE, SEQUENCE_BYTES

BLOCK_BYTES_MAX: Final = 0x7FFFFFFF
"""Arrow's limit of one array, as which a block is built."""

COPIED_BYTES_MAX: Final = 4096
"""Up to this average size, a copy of a body costs less than a view of it."""

_UNEVEN: Final = -1

_Width: TypeAlias = int | NDArray[np.int64]
"""Bytes of a piece in each record: one number if it is the same for all."""


def record_sizes(
    topic: str, messages: MessageColumns, *, unique_id_bytes: int
) -> NDArray[np.int64]:
    """Bytes of each record that ``encode_columns`` will make, without the sequence of a batch.

    Args:
        topic: Name of the topic.
        messages: The messages.
        unique_id_bytes: Length of the unique ids that each of them gets.
    """
    _, topic_part = counted_topic(topic)
    fixed = HEADER_BYTES + len(topic_part) + 2 + len(EMPTY_CRC_PROPERTY)
    fixed += len(_name_of(PropertyName.UNIQUE_ID)) + unique_id_bytes + 1
    return lengths_of(messages.body) + messages.property_bytes + fixed


def encode_columns(
    topic: str,
    messages: MessageColumns,
    *,
    unique_ids: Any,
    born_timestamp_ms: int,
    sequenced: bool = False,
) -> RecordTable:
    """Messages as one block.

    Args:
        topic: Name of the topic; more than 127 bytes make V2 records.
        messages: The messages.
        unique_ids: The id of each, a string array without nulls or empty texts.
        born_timestamp_ms: When they were made, milliseconds since the epoch.
        sequenced: Whether the first record gets room for a producer sequence, see
            ``RecordTable.with_sequence``.

    Raises:
        RecordTooLarge: More than 2 GiB, or a topic that does not fit into its length field.
    """
    magic, topic_part = counted_topic(topic)
    properties = _property_pieces(messages, unique_ids, sequenced=sequenced)
    count = len(messages)
    widths = [_width_of(piece) for piece in properties]
    property_bytes = np.zeros(count, np.int64)
    for width in widths:
        property_bytes += width
    if count and int(property_bytes.max()) > PRODUCER_PROPERTIES_BYTES_MAX:
        raise RecordTooLarge(f"properties of {int(property_bytes.max())} bytes")
    sizes = lengths_of(messages.body) + property_bytes
    sizes += HEADER_BYTES + len(topic_part) + 2
    if int(sizes.sum()) > BLOCK_BYTES_MAX:
        raise RecordTooLarge(
            f"{int(sizes.sum())} bytes; a block of columns takes {BLOCK_BYTES_MAX}"
        )
    body_crcs = _body_crcs(messages.body)
    headers = headers_of(
        count,
        size=sizes,
        magic=magic,
        body_crc=body_crcs & np.uint32(CRC_MASK),
        flag=0 if messages.flag is None else messages.flag,
        system_flag=0 if messages.system_flag is None else messages.system_flag,
        born_timestamp=born_timestamp_ms,
        body_length=lengths_of(messages.body),
    )
    property_lengths = even_binaries(property_bytes.astype(">i2"), 2)
    pieces = (topic_part, property_lengths, *properties)
    piece_widths = (len(topic_part), 2, *widths)
    tails = _laid_out(pieces, piece_widths, count)
    if tails is None:
        tails = _joined_pieces(pieces)
    heads = even_binaries(headers, HEADER_BYTES)
    records = own_octets(joined(heads, _binary(messages.body), tails)).data
    key_counts, key_hashes = _key_columns(topic, messages, unique_ids)
    record_sizes = sizes.astype(np.int32)
    return RecordTable.of(
        topic,
        records,
        sizes=record_sizes,
        tag_codes=_tag_codes(messages),
        key_counts=key_counts,
        key_hashes=key_hashes,
        crc32=crc32_of(records),
        record_crcs=_record_crcs(records, record_sizes, headers, body_crcs, tails),
    )


def _body_crcs(body: Any) -> NDArray[np.uint32]:
    bounds = bounds_of(body)
    if int(bounds[-1] - bounds[0]) <= COPIED_BYTES_MAX * len(body):
        checksums = map(crc32_of, body.to_pylist())
    else:
        octets = octets_of(body).data
        spans = map(slice, bounds[:-1].tolist(), bounds[1:].tolist())
        checksums = map(crc32_of, map(octets.__getitem__, spans))
    return np.fromiter(checksums, np.uint32, len(body))


def _width_of(piece: Any) -> _Width:
    """Bytes of a piece: of bytes that all records share, or of an array."""
    return len(piece) if isinstance(piece, bytes) else lengths_of(piece)


def _joined_pieces(pieces: Sequence[Any]) -> Any:
    """The bytes after the bodies as an array: from shared bytes and from arrays."""
    merged: list[Any] = []
    for piece in pieces:
        if isinstance(piece, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += piece
        else:
            merged.append(piece)
    texts = [constant(piece) if isinstance(piece, bytes) else _binary(piece) for piece in merged]
    return joined(*texts)


def _laid_out(pieces: Sequence[Any], widths: Sequence[_Width], count: int) -> Any:
    """The same if all pieces are even, except in the first record; else None.

    Copying octets column by column costs a third of Arrow's way record by record.

    Args:
        pieces: As ``_joined_pieces``.
        widths: ``_width_of`` each piece.
        count: The number of records.
    """
    if count == 0:
        return None
    even = list(map(_even_width, widths))
    if _UNEVEN in even:
        return None
    first, template = [], []
    for piece, width in zip(pieces, even, strict=True):
        shared = isinstance(piece, bytes)
        first.append(piece if shared else own_octets(piece.slice(0, 1)).tobytes())
        template.append(piece if shared else bytes(width))
    begin = len(b"".join(first))
    octets = np.empty(begin + (count - 1) * sum(even), np.uint8)
    octets[:begin] = np.frombuffer(b"".join(first), np.uint8)
    rows = octets[begin:].reshape(count - 1, sum(even))
    rows[:] = np.frombuffer(b"".join(template), np.uint8)
    ends = accumulate(even)
    for piece, width, end in zip(pieces, even, ends, strict=True):
        if width and not isinstance(piece, bytes):
            rows[:, end - width : end] = own_octets(piece.slice(1)).reshape(-1, width)
    bounds = np.arange(count + 1) * sum(even)
    bounds[1:] += begin - sum(even)
    return binaries(octets, bounds)


def _even_width(width: _Width) -> int:
    """Bytes of a piece in all records except the first; below zero if they differ."""
    if isinstance(width, int):
        return width
    last = int(width[-1])
    return last if (width[1:] == last).all() else _UNEVEN


def _record_crcs(
    records: ByteBuffer,
    sizes: NDArray[np.int32],
    headers: NDArray[np.void],
    body_crcs: NDArray[np.uint32],
    tails: Any,
) -> NDArray[np.uint32] | None:
    """``RecordTable.record_crcs`` from the sums of the parts of the records."""
    count = len(sizes)
    if count < RECORD_CRCS_COUNT_MIN:
        return None
    lengths = lengths_of(tails)
    # The first may be longer, by the room for a producer sequence.
    width, first = int(lengths[-1]), int(lengths[0])
    if (lengths[1:] == width).all():
        later = row_crcs(own_octets(tails)[first:].reshape(-1, width))
        tail_crcs = np.concatenate((np.zeros(1, np.uint32), later))
        tail_bytes: int | NDArray[np.int64] = width
    else:
        tail_crcs = np.fromiter(map(crc32_of, tails.to_pylist()), np.uint32, count)
        tail_bytes = lengths
    crcs = record_crcs_of_parts(
        headers.view(np.uint8).reshape(-1, HEADER_BYTES),
        body_crcs,
        tail_crcs,
        body_bytes=headers["body_length"],
        tail_bytes=tail_bytes,
    )
    crcs = without_last_property(crcs)
    crcs[0] = crc32_of(records[: int(sizes[0]) - CRC_PROPERTY_BYTES])
    return crcs


def _binary(array: Any) -> Any:
    """Bytes or texts as bytes with 32-bit offsets; a slice of large ones is short enough."""
    if pa.types.is_large_binary(array.type):
        bounds = bounds_of(array)
        octets = octets_of(array)[int(bounds[0]) : int(bounds[-1])]
        return binaries(octets, bounds - bounds[0])
    return array if pa.types.is_binary(array.type) else array.cast(pa.binary())


def _property_pieces(messages: MessageColumns, unique_ids: Any, *, sequenced: bool) -> list[Any]:
    """The properties: shared bytes, and arrays of bytes that differ."""
    pieces: list[Any] = []
    count = len(messages)
    if sequenced and count:
        first = np.full(count + 1, SEQUENCE_BYTES, np.int32)
        first[0] = 0
        pieces.append(binaries(EMPTY_SEQUENCE, first))
    if messages.properties is not None:
        names, values = (_binary(child) for child in messages.properties.children)
        name_end, value_end = constant(PROPERTY_NAME_END), constant(PROPERTY_VALUE_END)
        pairs = joined(names, name_end, values, value_end)
        pieces.append(binaries(octets_of(pairs), bounds_of(pairs)[messages.properties.bounds]))
    if messages.keys is not None:
        bounds = pa.array(messages.keys.bounds.astype(np.int32))
        lists = pa.ListArray.from_arrays(bounds, messages.keys.children[0])
        pieces += _pair_pieces(PropertyName.KEYS, pc.binary_join(lists, KEY_SEPARATOR))
    if messages.tag is not None:
        pairs = [_pair(PropertyName.TAGS, name) for name in messages.tag.names.to_pylist()]
        pieces.append(pa.array(pairs, pa.binary()).take(pa.array(messages.tag.places)))
    pieces += _pair_pieces(PropertyName.UNIQUE_ID, unique_ids)
    if messages.message_group is not None:
        pieces += _pair_pieces(PropertyName.MESSAGE_GROUP, messages.message_group)
    return [*pieces, EMPTY_CRC_PROPERTY]


def _pair_pieces(name: str, values: Any) -> list[Any]:
    """One property of each record; records with an empty value do not have it."""
    present = lengths_of(values) > 0
    if present.all():
        return [_name_of(name), values, PROPERTY_VALUE_END]
    if not present.any():
        return []
    pairs = joined(constant(_name_of(name)), _binary(values), constant(PROPERTY_VALUE_END))
    return [pc.if_else(pa.array(present), pairs, constant(b""))]


def _name_of(name: str) -> bytes:
    return name.encode() + PROPERTY_NAME_END


def _pair(name: str, value: str) -> bytes:
    return _name_of(name) + value.encode() + PROPERTY_VALUE_END if value else b""


def _tag_codes(messages: MessageColumns) -> NDArray[np.int32]:
    if messages.tag is None:
        return np.zeros(len(messages), np.int32)
    names = messages.tag.names.to_pylist()
    return np.fromiter(map(tag_code, names), np.int32, len(names))[messages.tag.places]


def _key_columns(
    topic: str, messages: MessageColumns, unique_ids: Any
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The number of keys of each record, and the hashes of all, each record's unique id first."""
    if unique_ids.null_count:
        raise IllegalColumn("unique_ids", "null")
    own = index_hashes(topic, unique_ids)
    if messages.keys is None:
        return np.ones(len(own), np.uint8), own
    hashes = index_hashes(topic, messages.keys.children[0])
    return with_keys(own, messages.keys.counts, hashes)
