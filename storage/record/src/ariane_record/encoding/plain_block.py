"""Blocks of plain messages: a body, perhaps a tag, and a unique id; all made in one go.

What ``BlockEncoder`` makes of such messages one by one, byte for byte. Everything beside the body
has one shape, so that it is made by column, and C puts the records together::

    header | body | topic, length of the properties, tag, id, __CRC32#
    ------   ----   --------------------------------------------------
    numpy    given  numpy: the same bytes but for the id

Nothing is put together here: the sums of records and of the block follow from those of the pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_ordering import java_string_hash
from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.checksums.crc_algebra import CrcFolder, row_crcs
from ariane_record.checksums.java_hash import tag_code
from ariane_record.checksums.record_sums import block_crc, record_crcs_of_parts
from ariane_record.encoding.block import EMPTY_CRC_PROPERTY, RECORD_CRCS_COUNT_MIN
from ariane_record.encoding.loose_block import LooseBlock
from ariane_record.layout import (
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    HEADER,
    HEADER_BYTES,
    PROPERTY_NAME_END,
    PROPERTY_VALUE_END,
    PropertyName,
)
from ariane_record.single.counted_topic import counted_topic
from ariane_record.single.message_id import UniqueIds
from ariane_record.single.producer_sequence import EMPTY_SEQUENCE

_HASH_FACTOR: Final = 31
_WORD: Final = 1 << 32
_SIGN_BIT: Final = np.int32(np.iinfo(np.int32).min)
_LENGTH_BYTES: Final = 2

# Which piece of a block is which part of the first record.
_TAIL: Final = 2
_SEQUENCE: Final = 3
_SEQUENCED_PIECES: Final = 5


class PlainShape:
    """The bytes of plain messages of one topic and tag, except their bodies.

    Attributes:
        topic: The topic.
        tag: The tag, or nothing.
        overhead_bytes: Bytes of a record beside its body, a producer sequence excepted.
    """

    __slots__ = (
        "_before_id",
        "_counted_topic",
        "_id_bytes",
        "_magic",
        "overhead_bytes",
        "tag",
        "topic",
    )

    def __init__(self, topic: str, tag: str, *, id_bytes: int) -> None:
        """Make it.

        Args:
            topic: The topic.
            tag: The tag, or nothing; without 0x01 and 0x02.
            id_bytes: Length of unique ids.

        Raises:
            RecordTooLarge: The topic does not fit into its length field.
        """
        self.topic = topic
        self.tag = tag
        self._magic, self._counted_topic = counted_topic(topic)
        tag_pair = _name(PropertyName.TAGS) + tag.encode() + PROPERTY_VALUE_END if tag else b""
        self._before_id = tag_pair + _name(PropertyName.UNIQUE_ID)
        self._id_bytes = id_bytes
        self.overhead_bytes = HEADER_BYTES + len(self._tail_ends(b"", b"")[0]) + id_bytes
        self.overhead_bytes += len(PROPERTY_VALUE_END + EMPTY_CRC_PROPERTY)

    def encode(
        self,
        bodies: Sequence[bytes],
        body_lengths: NDArray[np.int32],
        unique_ids: UniqueIds,
        *,
        born_timestamp_ms: int,
        sequenced: bool,
        folder: CrcFolder | None = None,
    ) -> LooseBlock:
        """A block.

        Args:
            bodies: The body of each message; at least one.
            body_lengths: Bytes of each: int32[count].
            unique_ids: The id of each, of ``id_bytes`` digits.
            born_timestamp_ms: When they were made, milliseconds since the epoch.
            sequenced: Whether the first record gets room for a producer sequence.
            folder: Adds up sums; kept by callers that encode often.
        """
        count = len(bodies)
        body_crcs = np.fromiter(map(crc32_of, bodies), np.uint32, count)
        tails = self._tails(unique_ids.digits)
        sizes = body_lengths + np.int32(self.overhead_bytes)
        if sequenced:
            sizes[0] += len(EMPTY_SEQUENCE)
        headers: NDArray[np.void] = np.zeros(count, HEADER)
        headers["size"] = sizes
        headers["magic"] = self._magic
        headers["body_crc"] = body_crcs & np.uint32(CRC_MASK)
        headers["born_timestamp"] = born_timestamp_ms
        headers["body_length"] = body_lengths
        crcs = record_crcs_of_parts(
            headers,
            body_crcs,
            row_crcs(tails),
            body_bytes=body_lengths,
            tail_bytes=tails.shape[1],
        )
        pieces = _pieces(headers, bodies, tails)
        if sequenced:
            before, room, behind = self._sequenced_tail(unique_ids.digits[0].tobytes())
            # The field's place in the record now holds the header of the next record.
            behind += pieces[_TAIL][tails.shape[1] :]
            pieces[_TAIL : _TAIL + 1] = before, room, behind
            crcs[0] = _crc_of_first(pieces, int(sizes[0]))
        ends = np.cumsum(sizes, dtype=np.int64)
        size_bytes = int(ends[-1])
        return LooseBlock(
            topic=self.topic,
            pieces=pieces,
            size_bytes=size_bytes,
            sizes=sizes,
            tag_codes=np.full(count, tag_code(self.tag), np.int32),
            key_counts=np.ones(count, np.uint8),
            key_hashes=_id_hashes(self.topic, unique_ids),
            crc32=block_crc(crcs, ends, folder or CrcFolder()),
            record_crcs=crcs if count >= RECORD_CRCS_COUNT_MIN else None,
            sequence_piece=_SEQUENCE if sequenced else None,
            sequence_start=HEADER_BYTES + len(bodies[0]) + len(pieces[_TAIL]),
        )

    def _tails(self, unique_ids: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The bytes behind the body of each record, one row each."""
        before, after = self._tail_ends(b"", b"")
        before_bytes = len(before)
        width = before_bytes + self._id_bytes + len(after)
        tails = np.empty((len(unique_ids), width), np.uint8)
        tails[:, :before_bytes] = np.frombuffer(before, np.uint8)
        tails[:, before_bytes : before_bytes + self._id_bytes] = unique_ids
        tails[:, before_bytes + self._id_bytes :] = np.frombuffer(after, np.uint8)
        return tails

    def _sequenced_tail(self, unique_id: bytes) -> tuple[bytes, bytes, bytes]:
        """What follows the body of the first record: before the sequence, that, and from it on."""
        begin, end = self._tail_ends(EMPTY_SEQUENCE, unique_id)
        before, room, rest = begin.rpartition(EMPTY_SEQUENCE)
        return before, room, rest + end

    def _tail_ends(self, sequence: bytes, unique_id: bytes) -> tuple[bytes, bytes]:
        """The bytes behind a body: before the id, and from it on."""
        first = sequence + self._before_id
        last = unique_id + PROPERTY_VALUE_END + EMPTY_CRC_PROPERTY
        length = len(first) + len(last) + (0 if unique_id else self._id_bytes)
        return self._counted_topic + length.to_bytes(_LENGTH_BYTES, "big") + first, last


def _pieces(
    headers: NDArray[np.void], bodies: Sequence[bytes], tails: NDArray[np.uint8]
) -> list[bytes]:
    """Bodies, and the bytes around them: the tail of one record, the header of the next."""
    count, width = tails.shape
    between = np.empty((count - 1, width + HEADER_BYTES), np.uint8)
    between[:, :width] = tails[:-1]
    between[:, width:] = headers[1:].view(np.uint8).reshape(-1, HEADER_BYTES)
    pieces = [b""] * (2 * count + 1)
    pieces[0] = headers[:1].tobytes()
    pieces[1::2] = bodies
    pieces[2:-1:2] = between.view(f"V{between.shape[1]}").ravel().tolist()
    pieces[-1] = tails[-1].tobytes()
    return pieces


def _crc_of_first(pieces: Sequence[bytes], size_bytes: int) -> int:
    """``RecordBlock.record_crcs`` of the first record of a sequenced block."""
    record = b"".join(pieces[:_SEQUENCED_PIECES])
    return crc32_of(record[: size_bytes - CRC_PROPERTY_BYTES])


def _name(name: str) -> bytes:
    return name.encode() + PROPERTY_NAME_END


def _id_hashes(topic: str, unique_ids: UniqueIds) -> NDArray[np.int32]:
    """``key_hash`` of each id: the hash of Java is a polynomial of its characters."""
    width = unique_ids.digits.shape[1]
    before = java_string_hash(f"{topic}#") * pow(_HASH_FACTOR, width, _WORD) % _WORD
    words = unique_ids.hash_words + np.uint32(before)
    hashes = np.abs(words.view(np.int32))
    hashes[hashes == _SIGN_BIT] = 0
    return hashes
