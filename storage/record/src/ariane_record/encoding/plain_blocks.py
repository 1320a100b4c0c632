"""Blocks of plain messages that were sent one by one: many blocks are encoded together.

The result is byte for byte that of ``BlockEncoder``. ``plain_block`` makes one large block of one
tag; here there may be many tiny blocks, one for each queue, and work by column is done once for all
of them::

    header | body | topic, length of the properties, sequence, tag | id    | __CRC32#
    ------   ----   ----------------------------------------------   -----   --------
    numpy    given  known of topic and tag; the first of a block     numpy   the same
                    alone has the sequence
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, pairwise, repeat
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ariane_ordering import java_string_hash
from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.checksums.java_hash import index_hash, index_hashes_of
from ariane_record.encoding.block import pack_unowned_header, record_crcs_of
from ariane_record.encoding.plain_topic import PLAIN_RECORD_END, PlainTopic, TagShape
from ariane_record.encoding.record_table import RecordTable
from ariane_record.layout import CRC_MASK, HEADER, HEADER_BYTES, MAGIC_V1
from ariane_record.single.message_id import UniqueIds
from ariane_record.single.producer_sequence import (
    SEQUENCE_BYTES,
    ProducerSequence,
    encode_sequence,
    encode_sequences,
)

_PIECES: Final = 5

_before_of = attrgetter("before_id")
_overhead_of = attrgetter("overhead_bytes")
_code_of = attrgetter("code")

Item = TypeVar("Item")


class PlainRun:
    """The plain messages of one block, not encoded yet.

    Attributes:
        topic: Their topic.
        bodies: The body of each.
        shapes: The other bytes of each.
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
            shape: The topic's shape of its tag.
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

    def extend(self, bodies: Sequence[bytes], shape: TagShape, born_timestamp_ms: int) -> None:
        """Take messages of one tag, which were made at the same time.

        Args:
            bodies: The body of each; at least one.
            shape: The topic's shape of their tag.
            born_timestamp_ms: As ``add``.
        """
        count = len(bodies)
        if not self.size_bytes and self.sequenced:
            self.size_bytes += SEQUENCE_BYTES
        self.bodies += bodies
        self.shapes += [shape] * count
        self.born_timestamps_ms += [born_timestamp_ms] * count
        self.size_bytes += sum(map(len, bodies)) + count * shape.overhead_bytes

    def take_back(self, position: int) -> int:
        """Remove one message; later ones move up.

        Returns:
            The bytes by which the block becomes smaller.
        """
        size = len(self.bodies.pop(position)) + self.shapes.pop(position).overhead_bytes
        del self.born_timestamps_ms[position]
        if self.sequenced and not self.bodies:
            size += SEQUENCE_BYTES
        self.size_bytes -= size
        return size


class PlainColumns(NamedTuple):
    """The plain messages of some blocks, block after block, not encoded yet.

    Attributes:
        topics: The topic of each block.
        counts: The number of messages of each, 1 or more.
        bodies: The body of each message.
        shapes: The other bytes of each.
        born_timestamps_ms: When each was made, milliseconds since the epoch.
        sequences: Each block's place in the stream of its producer; empty without sequences.
        sizes_bytes: Bytes of each block, including its sequence; empty if they are not known,
            as with very many blocks.
    """

    topics: Sequence[PlainTopic]
    counts: Sequence[int]
    bodies: Sequence[bytes]
    shapes: Sequence[TagShape]
    born_timestamps_ms: Sequence[int]
    sequences: Sequence[ProducerSequence]
    sizes_bytes: Sequence[int] = ()


class PlainBlocks(NamedTuple):
    """Encoded blocks, one after the other.

    Attributes:
        counts: The number of records of each block.
        records: Their records: a piece for each block, or one for all.
        sizes: Bytes of each record, block after block: int32[records].
        tag_codes: Hash of the tag of each: int32[records].
        key_hashes: Hash of the id of each, their only key: int32[records].
    """

    counts: Sequence[int]
    records: Sequence[bytes]
    sizes: NDArray[np.int32]
    tag_codes: NDArray[np.int32]
    key_hashes: NDArray[np.int32]


def encode_plain_columns(
    plain: PlainColumns, unique_ids: UniqueIds, *, in_one_piece: bool = False
) -> PlainBlocks:
    """Encode the plain messages of some blocks together.

    Args:
        plain: The messages of at least one block.
        unique_ids: The ids of all messages.
        in_one_piece: Whether to join the records of all blocks.
    """
    digits = unique_ids.digits
    count = len(digits)
    bodies, shapes = plain.bodies, plain.shapes
    befores = list(map(_before_of, shapes))
    body_lengths = np.fromiter(map(len, bodies), np.int32, count)
    sizes = body_lengths + np.fromiter(map(_overhead_of, shapes), np.int32, count)
    if plain.sequences:
        _put_sequences(plain, befores, sizes)
    headers = _headers(bodies, body_lengths, sizes, plain.born_timestamps_ms)
    ids = digits.view(f"S{digits.shape[1]}").ravel().tolist()
    # Not as a list: the garbage collector would scan each of them.
    pieces = chain.from_iterable(
        zip(headers, bodies, befores, ids, repeat(PLAIN_RECORD_END, count), strict=True)
    )
    hashes_before_ids = np.array([topic.hash_before_id for topic in plain.topics], np.uint32)
    return PlainBlocks(
        counts=plain.counts,
        records=[b"".join(pieces)]
        if in_one_piece
        else [b"".join(islice(pieces, each * _PIECES)) for each in plain.counts],
        sizes=sizes,
        tag_codes=np.fromiter(map(_code_of, shapes), np.int32, count),
        key_hashes=index_hashes_of(
            unique_ids.hash_words + np.repeat(hashes_before_ids, plain.counts)
        ),
    )


def _put_sequences(plain: PlainColumns, befores: list[bytes], sizes: NDArray[np.int32]) -> None:
    """Put the sequence into the first record of each block.

    Args:
        plain: The messages.
        befores: The bytes between body and id of each.
        sizes: Bytes of each record.
    """
    if not plain.sizes_bytes:
        _put_sequences_at_once(plain, befores, sizes)
        return
    first = 0
    for count, sequence, size_bytes in zip(
        plain.counts, plain.sequences, plain.sizes_bytes, strict=True
    ):
        shape = plain.shapes[first]
        said = encode_sequence(sequence, count, size_bytes)
        befores[first] = shape.before_sequence + said + shape.behind_sequence
        sizes[first] += SEQUENCE_BYTES
        first += count


def _put_sequences_at_once(
    plain: PlainColumns, befores: list[bytes], sizes: NDArray[np.int32]
) -> None:
    """As ``_put_sequences``, by column, which pays only for many blocks."""
    counts = np.array(plain.counts)
    firsts = np.cumsum(counts) - counts
    sizes[firsts] += SEQUENCE_BYTES
    block_sizes = np.add.reduceat(sizes, firsts, dtype=np.int64)
    encoded = encode_sequences(plain.sequences, counts, block_sizes)
    cuts = range(0, len(encoded), SEQUENCE_BYTES)
    for first, cut in zip(firsts.tolist(), cuts, strict=True):
        shape = plain.shapes[first]
        said = encoded[cut : cut + SEQUENCE_BYTES]
        befores[first] = shape.before_sequence + said + shape.behind_sequence


def encode_plain_runs(
    runs: Sequence[PlainRun],
    sequences: Sequence[ProducerSequence | None],
    unique_ids: UniqueIds,
) -> Iterator[RecordTable]:
    """A block of each run.

    Args:
        runs: The runs, with at least one message each; all sequenced or none.
        sequences: Each block's place in the stream of its producer, if they are sequenced.
        unique_ids: The ids of all messages.
    """
    topics = [run.topic for run in runs]
    counts = [len(run.bodies) for run in runs]
    blocks = encode_plain_columns(
        PlainColumns(
            topics=topics,
            counts=counts,
            bodies=_chained([run.bodies for run in runs]),
            shapes=_chained([run.shapes for run in runs]),
            born_timestamps_ms=_chained([run.born_timestamps_ms for run in runs]),
            sequences=[sequence for sequence in sequences if sequence is not None],
            sizes_bytes=[run.size_bytes for run in runs],
        ),
        unique_ids,
    )
    del runs  # So that the caller can free each run when its block is made.
    yield from record_blocks(topics, blocks)


def record_blocks(topics: Iterable[PlainTopic], blocks: PlainBlocks) -> Iterator[RecordTable]:
    """Encoded blocks as single blocks."""
    key_counts = np.ones(max(blocks.counts), np.uint8)
    ends = list(accumulate(blocks.counts))
    for topic, records, begin, end in zip(
        topics, _records_apart(blocks), chain((0,), ends), ends, strict=False
    ):
        sizes = blocks.sizes[begin:end]
        yield RecordTable.of(
            topic.name,
            records,
            sizes=sizes,
            tag_codes=blocks.tag_codes[begin:end],
            key_counts=key_counts[: end - begin],
            key_hashes=blocks.key_hashes[begin:end],
            crc32=crc32_of(records),
            record_crcs=record_crcs_of(records, sizes),
        )


def _records_apart(blocks: PlainBlocks) -> Sequence[bytes]:
    """The records of each block."""
    if len(blocks.records) == len(blocks.counts):
        return blocks.records
    (records,) = blocks.records
    ends = np.cumsum(blocks.sizes, dtype=np.int64)[np.cumsum(blocks.counts) - 1].tolist()
    return [records[begin:end] for begin, end in pairwise([0, *ends])]


def encode_plain_run(
    run: PlainRun, sequence: ProducerSequence | None, unique_ids: Sequence[str]
) -> RecordTable:
    """Encode a block of a few messages one by one: encoding by column has a fixed cost.

    Args:
        run: The run, with at least one message.
        sequence: The block's place in the stream of its producer, if it is sequenced.
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
        pieces += (header, body, before_id, unique_id.encode(), PLAIN_RECORD_END)
        sizes.append(size)
        hashes.append(index_hash(hash_before_id + java_string_hash(unique_id)))
    records = b"".join(pieces)
    own_sizes = np.array(sizes, np.int32)
    return RecordTable.of(
        run.topic.name,
        records,
        sizes=own_sizes,
        tag_codes=np.array([shape.code for shape in run.shapes], np.int32),
        key_counts=np.array([1] * len(sizes), np.uint8),
        key_hashes=np.array(hashes, np.int32),
        crc32=crc32_of(records),
        record_crcs=record_crcs_of(records, own_sizes),
    )


def _headers(
    bodies: Sequence[bytes],
    body_lengths: NDArray[np.int32],
    sizes: NDArray[np.int32],
    born: Sequence[int],
) -> list[bytes]:
    """The fixed part of each record, with zeros in the fields that the broker owns."""
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


def _chained(lists: list[list[Item]]) -> list[Item]:
    return lists[0] if len(lists) == 1 else list(chain.from_iterable(lists))
