"""An oracle: the check of one block as it was before tables; what it judges, tables must, too.

The block is from the network, and nothing in it is trusted: every length is checked before its use,
and every column is compared with the records.

Most blocks are valid, so each check first tests all records at once; only a block that fails is
checked field by field, to find the fault and the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import RecordTable, SystemFlag
from ariane_record.checksums.checksum import crc32, range_crcs
from ariane_record.checksums.crc_algebra import CrcFolder
from ariane_record.control_characters import properties_hold_control_character
from ariane_record.decoding.columns import gather_headers
from ariane_record.layout import (
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    EMPTY_CRC_PROPERTY,
    HEADER,
    HEADER_BYTES,
    PROPERTIES_BYTES_MAX,
    PROPERTY_VALUE_END,
    RECORD_BYTES_MIN,
)
from ariane_record.single.counted_topic import counted_topic
from ariane_record.single.producer_sequence import SEQUENCE_BYTES, SEQUENCE_PREFIX
from ariane_storage.errors import BlockRejected
from ariane_storage.log.records.fields import FIELD_STARTS, ByteBuffer, FieldColumn, Int64s
from ariane_storage.log.records.tag_check import tag_codes_of
from ariane_storage.writing.record_crcs import check_record_crcs
from ariane_storage.writing.table_check import TableLimits as BlockLimits
from storage.tests.writing.header_bits import HeaderBits

ALLOWED_FLAGS: Final = int(
    SystemFlag.COMPRESSED
    | SystemFlag.MULTI_TAGS
    | SystemFlag.TRANSACTION_COMMIT
    | SystemFlag.COMPRESSION_LZ4
    | SystemFlag.COMPRESSION_ZSTD
)
"""Flags that a record in a block may have. Hosts have room for IPv4 here, and half or rolled-back
messages are ordinary records of their own topics."""

_PREFIX: Final = np.frombuffer(CRC_PROPERTY_PREFIX, f"V{len(CRC_PROPERTY_PREFIX)}")
_LATER_SEQUENCE: Final = PROPERTY_VALUE_END + SEQUENCE_PREFIX
_RARE_LETTER: Final = b"P"
"""A letter of the name of a producer sequence, and of few other properties."""
_LENGTHS_WRONG: Final = "its lengths do not add up to its size"
_BODY_CRC: Final = FIELD_STARTS["body_crc"]
_BODY_LENGTH: Final = FIELD_STARTS["body_length"]
_unpack_number = Struct(">I").unpack_from
_BODY_DIFFERS: Final = "the checksum of the body differs"
_VALUE_END: Final = PROPERTY_VALUE_END[0]
SPOT_CHECKS: Final = 4
"""About the number of bodies that are compared with their checksums where comparing all would be
the largest cost: in a block with the sums of its records, or in many joined blocks. A producer
that computes them wrongly is found at once; one that cheats damages only its own messages, which a
full check would only refuse."""

_OWNED_FIELDS: Final = (
    *("queue_id", "queue_offset", "commit_log_offset", "born_ip", "born_port"),
    *("store_timestamp", "store_ip", "store_port"),
)


@dataclass(frozen=True, slots=True)
class CheckedBlock:
    """A valid block, with the places of its records."""

    starts: Int64s
    """Byte position of each record in the block."""
    ends: Int64s
    """The end of each record."""
    stride: int
    """The common size of all records except the first, which has the sequence of its batch and may
    be longer; 0 if sizes differ."""
    has_checksums: bool
    """Whether every record ends with room for its checksum."""
    headers: NDArray[np.void]
    """``layout.HEADER`` of each record: a copy, for its owner to change."""


def check_block(
    block: RecordTable, limits: BlockLimits, *, folder: CrcFolder | None = None
) -> CheckedBlock:
    """Check a block.

    Args:
        block: Records and columns as a producer sent them.
        limits: The limits of the store.
        folder: Adds up the sums of the records; kept between checks.

    Raises:
        BlockRejected: The block is not valid; the error names the fault and the record.
    """
    records = block.records
    starts, ends, stride = _edges(block, limits)
    if crc32(records) != block.crc32:
        raise BlockRejected("its checksum differs: damaged on the way")
    magic, topic = counted_topic(block.topic)
    headers = _headers(records, starts, stride)
    bits = HeaderBits.of(headers)
    if not _are_headers_sound(block, headers, bits, magic, stride):
        _explain_headers(block, headers, magic)
    body_lengths = _body_lengths(headers, bits)
    properties_lengths = _check_lengths(records, starts, ends, stride, body_lengths, topic)
    has_checksums = _check_reserved(block, ends, stride, properties_lengths, limits)
    _check_properties(block, ends, stride, properties_lengths, has_checksums=has_checksums)
    checked = CheckedBlock(starts, ends, stride, has_checksums, headers)
    if block.record_crcs is None:
        _check_bodies(block, checked)
    else:
        check_record_crcs(block, block.record_crcs, starts, ends, stride, folder or CrcFolder())
        _check_some_bodies(block, checked)
    return checked


def _check_bodies(block: RecordTable, checked: CheckedBlock) -> None:
    """Compare all bodies with their checksums: one call for each."""
    begins = checked.starts + HEADER_BYTES
    ends = begins + checked.headers["body_length"]
    sums = range_crcs(memoryview(block.records), begins, ends) & np.uint32(CRC_MASK)
    _require(checked.headers["body_crc"] == sums, _BODY_DIFFERS)


def _check_some_bodies(block: RecordTable, checked: CheckedBlock) -> None:
    """Compare some bodies."""
    view = memoryview(block.records)
    for position in spot_checks(block.count, block.crc32):
        start = int(checked.starts[position])
        (body_crc,) = _unpack_number(view, start + _BODY_CRC)
        body = start + HEADER_BYTES
        (length,) = _unpack_number(view, start + _BODY_LENGTH)
        if crc32(view[body : body + length]) & CRC_MASK != body_crc:
            raise BlockRejected(_BODY_DIFFERS, position)


def spot_checks(count: int, crc: int) -> range:
    """The records whose bodies are compared: some, spread over all, chosen by the checksum."""
    step = max(1, count // SPOT_CHECKS)
    return range(crc % step, count, step)


def _edges(block: RecordTable, limits: BlockLimits) -> tuple[Int64s, Int64s, int]:
    """The begins and ends of records and their stride, if sizes and columns fit together."""
    count = block.count
    if count == 0:
        raise BlockRejected("it has no records")
    if len(block.tag_codes) != count or len(block.key_counts) != count:
        raise BlockRejected("its columns differ in length")
    if block.record_crcs is not None and len(block.record_crcs) != count:
        raise BlockRejected("its columns differ in length")
    if int(block.key_counts.sum(dtype=np.int64)) != len(block.key_hashes):
        raise BlockRejected("its key hashes are not as many as its key counts say")
    if len(block.key_hashes) and int(block.key_hashes.min()) < 0:
        raise BlockRejected("a key hash is negative")
    first, stride = int(block.sizes[0]), int(block.sizes[-1])
    even = bool((block.sizes[1:] == stride).all())
    edges = (first, stride) if even else (int(block.sizes.min()), int(block.sizes.max()))
    maximum = limits.record_bytes_max
    if min(edges) < RECORD_BYTES_MIN or max(edges) > maximum:
        _require(block.sizes >= RECORD_BYTES_MIN, "too small for a record")
        _require(block.sizes <= maximum, f"larger than {maximum} bytes")
    if even:
        ends = np.arange(first, first + count * stride, stride, dtype=np.int64)
        starts = ends - stride
        starts[0] = 0
    else:
        stride = 0
        ends = np.cumsum(block.sizes, dtype=np.int64)
        starts = ends - block.sizes
    if int(ends[-1]) != len(block.records):
        raise BlockRejected(
            f"its sizes add up to {int(ends[-1])} bytes, but it has {len(block.records)}"
        )
    if len(block.records) > limits.table_bytes_max:
        raise BlockRejected(f"{len(block.records)} bytes; a segment takes {limits.table_bytes_max}")
    return starts, ends, stride


def _headers(records: ByteBuffer, starts: Int64s, stride: int) -> NDArray[np.void]:
    """The headers of all records, copied."""
    if not stride:
        return gather_headers(records, starts)
    raw = FieldColumn(records, f"V{HEADER_BYTES}", starts, stride).get()
    return (raw if raw.flags.owndata else raw.copy()).view(HEADER)


def _are_headers_sound(
    block: RecordTable, headers: NDArray[np.void], bits: HeaderBits, magic: int, stride: int
) -> bool:
    """Whether all headers are valid."""
    if stride == int(block.sizes[0]):
        if not bits.is_everywhere("size", stride):
            return False
    elif not bool((headers["size"] == block.sizes).all()):
        return False
    return (
        bits.is_everywhere("magic", magic)
        and not bits.in_any["system_flag"] & ~ALLOWED_FLAGS
        and bits.in_any["born_timestamp"] >= 0
        and bits.in_any["body_length"] >= 0
        and (block.forwarded or not (bits.in_any["attempts"] or bits.in_any["half_offset"]))
        and (block.record_crcs is None or not any(bits.in_any[name] for name in _OWNED_FIELDS))
    )


def _explain_headers(block: RecordTable, headers: NDArray[np.void], magic: int) -> None:
    """Reject the block because of the first invalid header, with the reason."""
    _require(headers["size"] == block.sizes, "its size is not that of its column")
    _require(headers["magic"] == magic, "wrong magic code")
    _require(headers["system_flag"] & ~ALLOWED_FLAGS == 0, "system flag not allowed")
    _require(headers["body_length"] >= 0, _LENGTHS_WRONG)
    _require(headers["born_timestamp"] >= 0, "born before the epoch")
    if not block.forwarded:
        _require(headers["attempts"] == 0, "attempts are the broker's to count")
        _require(headers["half_offset"] == 0, "no message of a client has a half message")
    if block.record_crcs is not None:
        for name in _OWNED_FIELDS:
            _require(headers[name] == 0, f"{name} is the broker's to fill in, and not zero")


def _body_lengths(headers: NDArray[np.void], bits: HeaderBits) -> int | Int64s:
    """The common length of all bodies, or the length of each."""
    length = bits.in_any["body_length"]
    if bits.is_everywhere("body_length", length):
        return length
    lengths: Int64s = headers["body_length"].astype(np.int64)
    return lengths


def _check_lengths(
    records: ByteBuffer,
    starts: Int64s,
    ends: Int64s,
    stride: int,
    body_lengths: int | Int64s,
    counted_topic: bytes,
) -> int | Int64s:
    """Check that topics and properties fill the rest of records; return the properties' lengths."""
    width = len(counted_topic) + 2
    if stride and isinstance(body_lengths, int):
        # One form: topic and length of the properties are the same bytes in every later record.
        place = HEADER_BYTES + body_lengths
        later = stride - place - width
        first = int(ends[0]) - place - width
        if min(first, later) >= 0 and max(first, later) <= PROPERTIES_BYTES_MAX:
            count = len(starts)
            expected = counted_topic + later.to_bytes(2, "big")
            of_first = counted_topic + first.to_bytes(2, "big")
            shape = FieldColumn(records, f"V{width}", starts + place, stride).get()
            if shape.tobytes() == of_first + expected * (count - 1):
                return _lengths_after(first, later, count)
    topic_starts = starts + HEADER_BYTES + body_lengths
    _require(topic_starts + width <= ends, _LENGTHS_WRONG)
    topics = FieldColumn(records, f"V{len(counted_topic)}", topic_starts, 0).get()
    if topics.tobytes() != counted_topic * len(ends):
        wanted = np.frombuffer(counted_topic, topics.dtype)
        _require(topics == wanted, "its topic is not that of the block")
    length_places = topic_starts + len(counted_topic)
    lengths = FieldColumn(records, ">u2", length_places, 0).get().astype(np.int64)
    _require(length_places + 2 + lengths == ends, _LENGTHS_WRONG)
    _require(lengths <= PROPERTIES_BYTES_MAX, "properties larger than the format can say")
    same = int(lengths[0])
    return same if bool((lengths == same).all()) else lengths


def _lengths_after(first: int, later: int, count: int) -> int | Int64s:
    """Lengths with another one for the first record; one number if all are equal."""
    if first == later:
        return later
    lengths = np.full(count, later, np.int64)
    lengths[0] = first
    return lengths


def _check_reserved(
    block: RecordTable,
    ends: Int64s,
    stride: int,
    properties_lengths: int | Int64s,
    limits: BlockLimits,
) -> bool:
    """Whether each record ends with the checksum property; all of them do, or none."""
    places = ends - CRC_PROPERTY_BYTES
    # Every record is longer than the property, so its last bytes can always be read.
    last = FieldColumn(block.records, f"V{CRC_PROPERTY_BYTES}", places, stride).get()
    lengths = properties_lengths
    least = lengths if isinstance(lengths, int) else int(lengths.min())
    if least >= CRC_PROPERTY_BYTES and last.tobytes() == EMPTY_CRC_PROPERTY * len(ends):
        return True
    has_room = np.broadcast_to(np.asarray(properties_lengths) >= CRC_PROPERTY_BYTES, (len(ends),))
    prefix_bytes = len(CRC_PROPERTY_PREFIX)
    parts = last.view([("prefix", f"V{prefix_bytes}"), ("digits", "V10"), ("end", "u1")])
    reserved = has_room & (parts["prefix"] == _PREFIX) & (parts["end"] == _VALUE_END)
    _require(reserved, "no room for its checksum at its end")
    if block.record_crcs is not None:
        empty = last == np.frombuffer(EMPTY_CRC_PROPERTY, last.dtype)
        _require(empty & has_room, "the digits of its checksum are not zero")
    if bool(reserved.all()):
        return True
    _require(~reserved, "some records have room for their checksum and some have not")
    return False


def _check_properties(
    block: RecordTable,
    ends: Int64s,
    stride: int,
    properties_lengths: int | Int64s,
    *,
    has_checksums: bool,
) -> None:
    """Check that properties are text, match the tags, and only the first has a sequence."""
    encoded = _joined_properties(block.records, ends, stride, properties_lengths)
    if has_checksums and says_later_sequence(encoded):
        raise BlockRejected("a producer sequence elsewhere than at the beginning of the batch")
    # The checksum between two records is ASCII: no character spans two records.
    if not (encoded.isascii() or (has_checksums and is_text(encoded))) or (
        not block.forwarded and properties_hold_control_character(encoded)
    ):
        _explain_properties(block, ends, properties_lengths)
    codes = tag_codes_of(encoded, properties_lengths, len(ends))
    if codes.tobytes() != block.tag_codes.astype(np.int32, copy=False).tobytes():
        _require(codes == block.tag_codes, "its tag code is not that of its tag")


def _explain_properties(block: RecordTable, ends: Int64s, lengths: int | Int64s) -> None:
    """Reject the block because of the first properties that are not text, if there are any."""
    of_each = np.broadcast_to(np.asarray(lengths), (len(ends),)).tolist()
    for position, (end, length) in enumerate(zip(ends.tolist(), of_each, strict=True)):
        of_one = bytes(block.records[end - length : end])
        if not is_text(of_one):
            raise BlockRejected("its properties are not UTF-8", position)
        if not block.forwarded and properties_hold_control_character(of_one):
            text = "its properties hold a control character, or a separator within a value"
            raise BlockRejected(text, position)


def says_later_sequence(encoded: bytes) -> bool:
    """Whether properties contain a producer sequence after their beginning.

    One letter is found ten times as fast as the whole name, and few properties contain it.
    """
    head = encoded[: SEQUENCE_BYTES + len(_LATER_SEQUENCE)]
    return _LATER_SEQUENCE in head or (
        encoded.find(_RARE_LETTER, SEQUENCE_BYTES) >= 0 and _LATER_SEQUENCE in encoded
    )


def _joined_properties(
    records: ByteBuffer, ends: Int64s, stride: int, lengths: int | Int64s
) -> bytes:
    """The properties of all records, back to back."""
    if isinstance(lengths, int):
        if not lengths:
            return b""
        return FieldColumn(records, f"V{lengths}", ends - lengths, stride).get().tobytes()
    length = int(lengths[-1])
    if length and bool((lengths[1:] == length).all()):
        # As in a batch of an idempotent producer: the first record has the sequence.
        rest = FieldColumn(records, f"V{length}", ends[1:] - length, stride).get().tobytes()
        return bytes(records[int(ends[0] - lengths[0]) : int(ends[0])]) + rest
    edges = map(slice, (ends - lengths).tolist(), ends.tolist())
    return b"".join(map(memoryview(records).__getitem__, edges))


def is_text(encoded: bytes) -> bool:
    """Whether some bytes are UTF-8."""
    if encoded.isascii():
        return True
    try:
        encoded.decode()
    except UnicodeDecodeError:
        return False
    return True


def _require(sound: NDArray[Any], reason: str) -> None:
    """Reject the block because of the first invalid record."""
    if not sound.all():
        raise BlockRejected(reason, int(np.argmin(sound)))
