"""Blocks of plain messages that came one by one: those of many blocks are encoded in one go.

What ``BlockEncoder`` makes of such messages, byte for byte. ``plain_block`` makes one large block
of one tag; here blocks may be tiny and many, for a queue each, and what is done by column is done
once for all of them::

    header | body | topic, length of the properties, sequence, tag | id    | __CRC32#
    ------   ----   ----------------------------------------------   -----   --------
    numpy    given  known of topic and tag; the first of a block     numpy   the same
                    alone has the sequence
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, repeat
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ariane_record.block import (
    EMPTY_CRC_PROPERTY,
    RecordBlock,
    pack_unowned_header,
    record_crcs_of,
)
from ariane_record.checksum import crc32 as crc32_of
from ariane_record.java_hash import index_hash, java_string_hash, tag_code
from ariane_record.layout import (
    CRC_MASK,
    HEADER,
    HEADER_BYTES,
    MAGIC_V1,
    PROPERTY_NAME_END,
    PROPERTY_VALUE_END,
    TOPIC_V1_BYTES_MAX,
    PropertyName,
)
from ariane_record.message_id import UniqueIds
from ariane_record.producer_sequence import SEQUENCE_BYTES, ProducerSequence, encode_sequence

TAG_BYTES_MAX: Final = 256
"""Messages with a longer tag are not plain."""

TAGS_KEPT_MAX: Final = 4096
"""Tags of a topic whose shape is kept."""

_HASH_FACTOR: Final = 31
_WORD: Final = 1 << 32
_SIGN_BIT: Final = np.int32(np.iinfo(np.int32).min)
_LENGTH_BYTES: Final = 2
_ID_NAME: Final = PropertyName.UNIQUE_ID.encode() + PROPERTY_NAME_END
_RECORD_END: Final = PROPERTY_VALUE_END + EMPTY_CRC_PROPERTY
_PIECES: Final = 5

_before_of = attrgetter("before_id")
_overhead_of = attrgetter("overhead_bytes")
_code_of = attrgetter("code")

Item = TypeVar("Item")


class TagShape(NamedTuple):
    """What plain messages of one topic and tag have beside their bodies.

    Attributes:
        before_id: What stands between body and id, a sequence left out.
        before_sequence: With a sequence: what stands between body and that.
        behind_sequence: With a sequence: what stands between that and the id.
        overhead_bytes: Bytes of a record beside its body, a sequence left out.
        code: Hash of the tag.
        tag: The tag, or nothing.
    """

    before_id: bytes
    before_sequence: bytes
    behind_sequence: bytes
    overhead_bytes: int
    code: int
    tag: str


class PlainTopic:
    """What plain messages of one topic have in common.

    Attributes:
        name: The topic.
        hash_before_id: What its name adds to the hash of an id of its messages: a word.
        shapes: By tag; only of tags that were asked for.
    """

    __slots__ = ("_id_bytes", "_topic_part", "hash_before_id", "name", "shapes")

    def __init__(self, name: str, *, id_bytes: int) -> None:
        """Know no tags.

        Args:
            name: The topic.
            id_bytes: Length of unique ids.
        """
        encoded = name.encode()
        self.name = name
        self.shapes: dict[str, TagShape] = {}
        shift = pow(_HASH_FACTOR, id_bytes, _WORD)
        self.hash_before_id = java_string_hash(name + "#") * shift % _WORD
        self._id_bytes = id_bytes
        self._topic_part = b""
        if len(encoded) <= TOPIC_V1_BYTES_MAX:
            self._topic_part = len(encoded).to_bytes(1) + encoded

    def shape_of(self, tag: str) -> TagShape | None:
        """The shape of messages of a tag; None if they are not plain, or the topic is too long.

        Args:
            tag: The tag, or nothing; without 0x01 and 0x02.
        """
        if not self._topic_part:
            return None
        try:
            # Added, not formatted: a member of an Enum may be formatted as another text than it is.
            tag = tag + ""
            pair = (PropertyName.TAGS + "\x01" + tag + "\x02").encode() if tag else b""
        except UnicodeEncodeError:
            return None
        if len(pair) > TAG_BYTES_MAX:
            return None
        if len(self.shapes) >= TAGS_KEPT_MAX:
            self.shapes.clear()
        behind = pair + _ID_NAME
        length = len(behind) + self._id_bytes + len(_RECORD_END)
        before_id = self._before_pairs(length) + behind
        shape = self.shapes[tag] = TagShape(
            before_id=before_id,
            before_sequence=self._before_pairs(SEQUENCE_BYTES + length),
            behind_sequence=behind,
            overhead_bytes=HEADER_BYTES + len(before_id) + self._id_bytes + len(_RECORD_END),
            code=tag_code(tag),
            tag=tag,
        )
        return shape

    def _before_pairs(self, length: int) -> bytes:
        """What stands between body and properties that have this length."""
        return self._topic_part + length.to_bytes(_LENGTH_BYTES)


class PlainRun:
    """The plain messages of one block, not encoded yet.

    Attributes:
        topic: Their topic.
        bodies: The body of each.
        shapes: What each has beside it.
        born_timestamps_ms: When each was made, milliseconds since the epoch.
        size_bytes: Bytes of all records.
        sequenced: Whether the first record has a producer sequence.
    """

    __slots__ = (
        "bodies",
        "born_timestamps_ms",
        "sequenced",
        "shapes",
        "size_bytes",
        "topic",
    )

    def __init__(self, topic: PlainTopic, *, sequenced: bool) -> None:
        """Be empty.

        Args:
            topic: See the class.
            sequenced: See the class.
        """
        self.topic = topic
        self.sequenced = sequenced
        self.bodies: list[bytes] = []
        self.shapes: list[TagShape] = []
        self.born_timestamps_ms: list[int] = []
        self.size_bytes = 0

    def add(self, body: bytes, shape: TagShape, born_timestamp_ms: int) -> int:
        """Take one more message.

        Args:
            body: Its body.
            shape: Of its tag, as the topic says.
            born_timestamp_ms: When it was made, milliseconds since the epoch.

        Returns:
            Bytes of its record.
        """
        size = len(body) + shape.overhead_bytes
        if not self.size_bytes and self.sequenced:
            size += SEQUENCE_BYTES
        self.bodies.append(body)
        self.shapes.append(shape)
        self.born_timestamps_ms.append(born_timestamp_ms)
        self.size_bytes += size
        return size

    def take_back(self, position: int) -> int:
        """Remove one message; those behind it move up.

        Returns:
            Bytes that the block is smaller.
        """
        size = len(self.bodies.pop(position)) + self.shapes.pop(position).overhead_bytes
        del self.born_timestamps_ms[position]
        if self.sequenced and not self.bodies:
            size += SEQUENCE_BYTES
        self.size_bytes -= size
        return size


def encode_plain_runs(
    runs: Sequence[PlainRun],
    sequences: Iterable[ProducerSequence | None],
    unique_ids: UniqueIds,
) -> Iterator[RecordBlock]:
    """A block of each run.

    Args:
        runs: At least one message each.
        sequences: Where each block stands in the stream of its producer, if it is sequenced.
        unique_ids: The ids of all messages.
    """
    counts = [len(run.bodies) for run in runs]
    digits = unique_ids.digits
    count = len(digits)
    ends = list(accumulate(counts))
    bodies = _chained([run.bodies for run in runs])
    shapes = _chained([run.shapes for run in runs])
    befores = list(map(_before_of, shapes))
    body_lengths = np.fromiter(map(len, bodies), np.int32, count)
    sizes = body_lengths + np.fromiter(map(_overhead_of, shapes), np.int32, count)
    for run, sequence, first in zip(runs, sequences, chain((0,), ends), strict=False):
        if sequence is not None:
            shape = shapes[first]
            encoded = encode_sequence(sequence, len(run.bodies), run.size_bytes)
            befores[first] = shape.before_sequence + encoded + shape.behind_sequence
            sizes[first] += SEQUENCE_BYTES
    born = _chained([run.born_timestamps_ms for run in runs])
    headers = _headers(bodies, body_lengths, sizes, born)
    ids = digits.view(f"S{digits.shape[1]}").ravel().tolist()
    # Not as a list: the garbage collector would look at each of them.
    pieces = chain.from_iterable(
        zip(headers, bodies, befores, ids, repeat(_RECORD_END, count), strict=True)
    )
    codes = np.fromiter(map(_code_of, shapes), np.int32, count)
    key_counts = np.ones(max(counts), np.uint8)
    before_ids = np.array([run.topic.hash_before_id for run in runs], np.uint32)
    hashes = _made_positive(unique_ids.hash_words + np.repeat(before_ids, counts))
    topics = [run.topic.name for run in runs]
    del runs  # For who has them to let go of each when its block is there.
    for topic, begin, end in zip(topics, chain((0,), ends), ends, strict=False):
        records = b"".join(islice(pieces, (end - begin) * _PIECES))
        own_sizes = sizes[begin:end]
        yield RecordBlock(
            topic=topic,
            records=records,
            sizes=own_sizes,
            tag_codes=codes[begin:end],
            key_counts=key_counts[: end - begin],
            key_hashes=hashes[begin:end],
            crc32=crc32_of(records),
            record_crcs=record_crcs_of(records, own_sizes),
        )


def encode_plain_run(
    run: PlainRun, sequence: ProducerSequence | None, unique_ids: Sequence[str]
) -> RecordBlock:
    """The block of a few messages, one by one: what is done by column has a fixed price.

    Args:
        run: At least one message.
        sequence: Where the block stands in the stream of its producer, if it is sequenced.
        unique_ids: The id of each message.
    """
    pieces: list[bytes] = []
    sizes: list[int] = []
    hashes: list[int] = []
    hash_before_id = run.topic.hash_before_id
    for body, shape, born_ms, unique_id in zip(
        run.bodies, run.shapes, run.born_timestamps_ms, unique_ids, strict=True
    ):
        size = len(body) + shape.overhead_bytes
        before_id = shape.before_id
        if sequence is not None and not sizes:
            size += SEQUENCE_BYTES
            encoded = encode_sequence(sequence, len(run.bodies), run.size_bytes)
            before_id = shape.before_sequence + encoded + shape.behind_sequence
        body_crc = crc32_of(body) & CRC_MASK
        header = pack_unowned_header(size, MAGIC_V1, body_crc, 0, 0, born_ms, len(body))
        pieces += (header, body, before_id, unique_id.encode(), _RECORD_END)
        sizes.append(size)
        hashes.append(index_hash(hash_before_id + java_string_hash(unique_id)))
    records = b"".join(pieces)
    own_sizes = np.array(sizes, np.int32)
    return RecordBlock(
        topic=run.topic.name,
        records=records,
        sizes=own_sizes,
        tag_codes=np.array([shape.code for shape in run.shapes], np.int32),
        key_counts=np.array([1] * len(sizes), np.uint8),
        key_hashes=np.array(hashes, np.int32),
        crc32=crc32_of(records),
        record_crcs=record_crcs_of(records, own_sizes),
    )


def _headers(
    bodies: list[bytes],
    body_lengths: NDArray[np.int32],
    sizes: NDArray[np.int32],
    born: list[int],
) -> list[bytes]:
    """The fixed part of each record, zeros in the fields that the broker owns."""
    count = len(bodies)
    crcs = np.fromiter(map(crc32_of, bodies), np.uint32, count)
    headers: NDArray[np.void] = np.zeros(count, HEADER)
    headers["size"] = sizes
    headers["magic"] = MAGIC_V1
    headers["body_crc"] = crcs & np.uint32(CRC_MASK)
    headers["born_timestamp"] = born
    headers["body_length"] = body_lengths
    encoded: list[bytes] = headers.view(f"V{HEADER_BYTES}").tolist()
    return encoded


def _made_positive(words: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Hashes of keys as the index has them: ``java_hash.key_hash``."""
    hashes = np.abs(words.view(np.int32))
    hashes[hashes == _SIGN_BIT] = 0
    return hashes


def _chained(lists: list[list[Item]]) -> list[Item]:
    return lists[0] if len(lists) == 1 else list(chain.from_iterable(lists))
