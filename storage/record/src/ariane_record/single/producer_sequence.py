"""The place of a batch in the stream of one producer to one queue, stored in its first record.

A broker that was killed must find the stored batches from the log alone. So the properties of the
first record of a batch begin with a property of a fixed size::

    __PSEQ# 0x01 <38 characters> 0x02

The characters are base64 without padding of five big-endian numbers: producer id (int64), epoch
(int32), number of the batch's first message in the queue (int64), records of the batch (int32) and
bytes of the batch (int32). A batch is contiguous in the log, so this also shows that only the
beginning of a batch has survived.

It is valid only at the place where the batch was stored: copies of the record do not have it. Other
programs treat it as a property of the user and do not change it.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import b2a_base64
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_record.layout import (
    HEADER_BYTES,
    MAGIC_V2,
    PROPERTY_NAME_END,
    PROPERTY_VALUE_END,
    ByteBuffer,
    PropertyName,
)

_NUMBERS: Final = Struct(">qiqii")
_NUMBER_ROW: Final = Struct(">qiqii2x")
"""``_NUMBERS`` padded to a multiple of three bytes, so that base64 needs no padding."""
_PADDING: Final = b"=="
_VALUE_BYTES: Final = 38
_PADDED_VALUE_BYTES: Final = 40

SEQUENCE_PREFIX: Final = PropertyName.PRODUCER_SEQUENCE.encode() + PROPERTY_NAME_END
SEQUENCE_BYTES: Final = len(SEQUENCE_PREFIX) + _VALUE_BYTES + len(PROPERTY_VALUE_END)
"""Bytes of the property."""

EMPTY_SEQUENCE: Final = SEQUENCE_PREFIX + b"A" * _VALUE_BYTES + PROPERTY_VALUE_END
"""Room for the property in a batch whose place in the stream is not known yet."""

_MAGIC_V2_BYTES: Final = MAGIC_V2.to_bytes(4, "big")
_BODY_LENGTH_START: Final = HEADER_BYTES - 4


class ProducerSequence(NamedTuple):
    """The place of a batch in the stream of one producer to one queue."""

    producer_id: int
    """The producer, 1 or more."""
    epoch: int
    """Grows when a stream begins anew; batches of older epochs are refused then."""
    first_sequence: int
    """Number of the batch's first message in the stream, from 0."""


class StoredSequence(NamedTuple):
    """The sequence in the first record of a batch."""

    sequence: ProducerSequence
    """The place of the batch."""
    record_count: int
    """The number of its records."""
    size_bytes: int
    """Bytes of all records."""


def encode_sequence(sequence: ProducerSequence, record_count: int, size_bytes: int) -> bytes:
    """The property of a batch's first record, ``SEQUENCE_BYTES`` long."""
    numbers = _NUMBERS.pack(*sequence, record_count, size_bytes)
    value = b2a_base64(numbers, newline=False)[:_VALUE_BYTES]
    return SEQUENCE_PREFIX + value + PROPERTY_VALUE_END


def encode_sequences(
    sequences: Sequence[ProducerSequence],
    record_counts: NDArray[np.int64],
    sizes_bytes: NDArray[np.int64],
) -> bytes:
    """``encode_sequence`` of at least one batch, joined."""
    columns = (*zip(*sequences, strict=True), record_counts.tolist(), sizes_bytes.tolist())
    numbers = b"".join(map(_NUMBER_ROW.pack, *columns))
    values = np.frombuffer(b2a_base64(numbers, newline=False), np.uint8)
    rows = np.empty((len(sequences), SEQUENCE_BYTES), np.uint8)
    rows[:] = np.frombuffer(EMPTY_SEQUENCE, np.uint8)
    begin = len(SEQUENCE_PREFIX)
    values = values.reshape(-1, _PADDED_VALUE_BYTES)[:, :_VALUE_BYTES]
    rows[:, begin : begin + _VALUE_BYTES] = values
    return rows.tobytes()


def decode_sequence(encoded: bytes) -> StoredSequence | None:
    """Read a property of ``SEQUENCE_BYTES``; None if it is not a sequence."""
    if len(encoded) != SEQUENCE_BYTES or not encoded.startswith(SEQUENCE_PREFIX):
        return None
    try:
        numbers = b64decode(encoded[len(SEQUENCE_PREFIX) : -1] + _PADDING, validate=True)
    except ValueError:
        return None
    producer_id, epoch, first_sequence, record_count, size_bytes = _NUMBERS.unpack(numbers)
    if min(epoch, first_sequence, size_bytes) < 0 or min(producer_id, record_count) < 1:
        return None
    sequence = ProducerSequence(producer_id, epoch, first_sequence)
    return StoredSequence(sequence, record_count, size_bytes)


def stored_sequence(records: ByteBuffer) -> StoredSequence | None:
    """Read the sequence from the first of some records; None without one or without a record."""
    place = sequence_place(records)
    return decode_sequence(bytes(records[place : place + SEQUENCE_BYTES]))


def says_sequence(
    records: ByteBuffer, sequence: ProducerSequence | None, record_count: int
) -> bool:
    """Whether the first record of a batch has exactly this sequence; with None, that it has none.

    Args:
        records: All records of a batch.
        sequence: The place of the batch, with numbers that the property can hold.
        record_count: The number of its records.
    """
    place = sequence_place(records)
    found = bytes(records[place : place + SEQUENCE_BYTES])
    if sequence is None:
        return decode_sequence(found) is None
    # Nearly always the same characters, although others could encode the same numbers.
    return found == encode_sequence(sequence, record_count, len(records)) or (
        decode_sequence(found) == StoredSequence(sequence, record_count, len(records))
    )


def sequence_place(records: ByteBuffer) -> int:
    """The place of the sequence in the first of some records: the begin of its properties.

    Args:
        records: The records; for other bytes, the place is arbitrary.
    """
    body_length = int.from_bytes(records[_BODY_LENGTH_START:HEADER_BYTES], "big")
    topic_start = HEADER_BYTES + body_length
    counted = 2 if bytes(records[4:8]) == _MAGIC_V2_BYTES else 1
    topic_length = int.from_bytes(records[topic_start : topic_start + counted], "big")
    return topic_start + counted + topic_length + 2
