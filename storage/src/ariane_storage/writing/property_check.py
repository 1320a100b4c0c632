"""Checks whether the properties of records are valid.

They are text without control characters, match the column of tags, and end with room for the
record's checksum. Only the first record of a row may have a producer sequence, as its first
property.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ariane_record import ProducerSequence, RecordTable
from ariane_record.control_characters import properties_hold_control_character
from ariane_record.layout import (
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    EMPTY_CRC_PROPERTY,
    PROPERTY_VALUE_END,
)
from ariane_record.single.producer_sequence import (
    SEQUENCE_BYTES,
    SEQUENCE_PREFIX,
    encode_sequences,
    says_sequence,
)
from ariane_storage.errors import BlockRejected
from ariane_storage.log.records.fields import ByteBuffer, FieldColumn, Int64s
from ariane_storage.log.records.tag_check import tag_codes_of
from ariane_storage.writing.record_crcs import trusted_sums

Sequences: TypeAlias = Rows[ProducerSequence | None] | None
"""What the first record of each row says; None: not known."""

_PREFIX: Final = np.frombuffer(CRC_PROPERTY_PREFIX, f"V{len(CRC_PROPERTY_PREFIX)}")
_SEQUENCE: Final = np.frombuffer(SEQUENCE_PREFIX, f"V{len(SEQUENCE_PREFIX)}")
_LATER_SEQUENCE: Final = PROPERTY_VALUE_END + SEQUENCE_PREFIX
_RARE_LETTER: Final = b"P"
"""A letter of the name of a producer sequence, and of few other properties."""
_VALUE_END: Final = PROPERTY_VALUE_END[0]


def check_properties(
    table: RecordTable,
    ends: Int64s,
    stride: int,
    lengths: int | Int64s,
    *,
    sequences: Sequences,
) -> None:
    """Check the properties of all records.

    Args:
        table: The records.
        ends: The end of each.
        stride: Their common size, except that of the first; 0 if sizes differ.
        lengths: Bytes of the properties of each, or of all.
        sequences: What the first record of each row must say.

    Raises:
        BlockRejected: Some are not valid.
    """
    _check_reserved(table, ends, stride, lengths)
    encoded = _joined_properties(table.records, ends, stride, lengths)
    if len(table) > 1:
        _check_sequences_of_rows(table, encoded, ends - lengths, sequences)
    elif says_later_sequence(encoded):
        raise BlockRejected("a producer sequence elsewhere than at the beginning of the batch")
    elif sequences is not None and not says_sequence(table.records, sequences[0], table.count):
        raise BlockRejected("its producer sequence is not that of the batch", 0)
    # The checksum between two records is ASCII: no character spans two records.
    if not is_text(encoded) or (not table.forwarded and properties_hold_control_character(encoded)):
        _explain_properties(table, ends, lengths)
    codes = tag_codes_of(encoded, lengths, len(ends))
    if codes.tobytes() != table.tag_codes.astype(np.int32, copy=False).tobytes():
        require(codes == table.tag_codes, "its tag code is not that of its tag")


def _check_sequences_of_rows(
    table: RecordTable, encoded: bytes, starts: Int64s, sequences: Sequences
) -> None:
    """Check that only first records say sequences, and those that they should.

    Args:
        table: Records of several rows.
        encoded: The properties of all.
        starts: The start of the properties of each.
        sequences: What the first record of each row must say.
    """
    counts = np.array(table.counts)
    firsts = np.cumsum(counts) - counts
    begin_so = FieldColumn(table.records, _SEQUENCE.dtype, starts[firsts], 0).get() == _SEQUENCE
    if (PROPERTY_VALUE_END + encoded).count(_LATER_SEQUENCE) != int(begin_so.sum()):
        raise BlockRejected("a producer sequence elsewhere than at the beginning of a row")
    if sequences is None:
        return
    rows = np.flatnonzero([sequence is not None for sequence in sequences])
    if not np.array_equal(np.flatnonzero(begin_so), rows):
        raise BlockRejected("a row says a producer sequence that is not its own, or none")
    if not len(rows):
        return
    wanted = encode_sequences(
        [sequence for sequence in sequences if sequence is not None],
        counts[rows],
        np.add.reduceat(table.sizes, firsts, dtype=np.int64)[rows],
    )
    places = starts[firsts[rows]]
    if int(places[-1]) + SEQUENCE_BYTES > len(table.records):
        raise BlockRejected("no room for the producer sequence of a row")
    if FieldColumn(table.records, f"V{SEQUENCE_BYTES}", places, 0).get().tobytes() != wanted:
        raise BlockRejected("a row says another producer sequence than its own")


def _check_reserved(table: RecordTable, ends: Int64s, stride: int, lengths: int | Int64s) -> None:
    """Check that each record ends with room for its checksum."""
    # Every record is longer than the property, so its last bytes can always be read.
    places = ends - CRC_PROPERTY_BYTES
    last = FieldColumn(table.records, f"V{CRC_PROPERTY_BYTES}", places, stride).get()
    has_room = np.broadcast_to(np.asarray(lengths) >= CRC_PROPERTY_BYTES, (len(ends),))
    if bool(has_room.all()) and last.tobytes() == EMPTY_CRC_PROPERTY * len(ends):
        return
    prefix_bytes = len(CRC_PROPERTY_PREFIX)
    parts = last.view([("prefix", f"V{prefix_bytes}"), ("digits", "V10"), ("end", "u1")])
    reserved = has_room & (parts["prefix"] == _PREFIX) & (parts["end"] == _VALUE_END)
    require(reserved, "no room for its checksum at its end")
    if trusted_sums(table) is not None:
        empty = last == np.frombuffer(EMPTY_CRC_PROPERTY, last.dtype)
        require(empty, "the digits of its checksum are not zero")


def _explain_properties(table: RecordTable, ends: Int64s, lengths: int | Int64s) -> None:
    """Reject the table because of the first properties that are not text, if there are any."""
    of_each = np.broadcast_to(np.asarray(lengths), (len(ends),)).tolist()
    for position, (end, length) in enumerate(zip(ends.tolist(), of_each, strict=True)):
        of_one = bytes(table.records[end - length : end])
        if not is_text(of_one):
            raise BlockRejected("its properties are not UTF-8", position)
        if not table.forwarded and properties_hold_control_character(of_one):
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
        return FieldColumn(records, f"V{lengths}", ends - lengths, stride).get().tobytes()
    length = int(lengths[-1])
    if bool((lengths[1:] == length).all()):
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


def require(sound: NDArray[Any], reason: str) -> None:
    """Reject the table because of the first invalid record."""
    if not sound.all():
        raise BlockRejected(reason, int(np.argmin(sound)))
