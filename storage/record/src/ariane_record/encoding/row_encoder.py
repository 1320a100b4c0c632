"""Encodes the messages of a table: row after row, each row for one queue, all of them in one go.

What is the same for all messages of a topic and tag is known before; the rest is done by column::

    header | body | topic, length of the properties, sequence, pairs | id    | group, __CRC32#
    ------   ----   ------------------------------------------------   -----   ---------------
    numpy    given  the first of a row alone has the sequence          numpy   given

Of a few messages the columns would cost more than the messages: they are encoded one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from operator import attrgetter, itemgetter
from typing import Any, Final

import numpy as np

from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.checksums.java_hash import index_hash, index_hashes_of, key_hash
from ariane_record.encoding.message_properties import EncodedProperties, TopicProperties
from ariane_record.encoding.record_table import RecordTable, headers_of, with_keys
from ariane_record.layout import (
    CRC_MASK,
    HEADER_BYTES,
    ByteBuffer,
    pack_unowned_header,
)
from ariane_record.single.message_id import UniqueIds, id_hash_word
from ariane_record.single.producer_sequence import (
    SEQUENCE_BYTES,
    ProducerSequence,
    encode_sequence,
)

FEW: Final = 8
"""Fewer messages are encoded one by one."""

_topic_of = attrgetter("topic_properties.name")
_messages_of = attrgetter("messages")
_body_of: Final[Callable[[Any], bytes]] = itemgetter(0)
_properties_of: Final[Callable[[Any], EncodedProperties]] = itemgetter(1)
_born_of: Final[Callable[[Any], int]] = itemgetter(2)
_before_of = attrgetter("before_id")
_behind_of = attrgetter("behind_id")
_overhead_of = attrgetter("overhead_bytes")
_code_of = attrgetter("tag_code")
_keys_of = attrgetter("key_hashes")
_own_id_of = attrgetter("unique_id")
_flag_of = attrgetter("flag")
_system_flag_of = attrgetter("system_flag")


class MessageRow:
    """Messages for one queue that are stored together: what their encoding needs to know."""

    topic_properties: TopicProperties
    """Their topic, and what has encoded their properties."""
    messages: Sequence[Any]
    """One or more tuples: the body of a message, its properties, when it was made, in milliseconds
    since the epoch; what follows is for the sender alone."""
    sequence: ProducerSequence | None = None
    """The place in the stream of the producer; None for a row in no stream."""
    size_bytes = 0
    """Bytes of the records, with the sequence."""


def encode_rows(rows: Sequence[MessageRow], unique_ids: UniqueIds) -> RecordTable:
    """Encode messages; the sums of records are left to the broker.

    Args:
        rows: The messages, at least one.
        unique_ids: The id of each, for those that have none from elsewhere.
    """
    return _encode_few(rows, unique_ids) if len(unique_ids) < FEW else _encode(rows, unique_ids)


def _encode(rows: Sequence[MessageRow], unique_ids: UniqueIds) -> RecordTable:
    """Encode messages by column."""
    digits = unique_ids.digits
    count = len(digits)
    # Not by `zip`: it would make an iterator for each message, which wakes the garbage collector.
    messages = list(chain.from_iterable(map(_messages_of, rows)))
    bodies, properties = list(map(_body_of, messages)), list(map(_properties_of, messages))
    counts = list(map(len, map(_messages_of, rows)))
    topics = [row.topic_properties for row in rows]
    befores = list(map(_before_of, properties))
    body_lengths = np.fromiter(map(len, bodies), np.int32, count)
    sizes = body_lengths + np.fromiter(map(_overhead_of, properties), np.int32, count)
    sequenced: list[int] = []
    for first, row in zip(accumulate(counts[:-1], initial=0), rows, strict=True):
        if row.sequence is not None:
            befores[first] = _with_sequence(properties[first], row)
            sequenced.append(first)
    sizes[sequenced] += SEQUENCE_BYTES
    headers = headers_of(
        count,
        size=sizes,
        magic=np.repeat([topic.magic for topic in topics], counts),
        body_crc=np.fromiter(map(crc32_of, bodies), np.uint32, count) & np.uint32(CRC_MASK),
        flag=np.fromiter(map(_flag_of, properties), np.int32, count),
        system_flag=np.fromiter(map(_system_flag_of, properties), np.int32, count),
        born_timestamp=list(map(_born_of, messages)),
        body_length=body_lengths,
    )
    ids = digits.view(f"S{digits.shape[1]}").ravel().tolist()
    own_ids = [place for place, own_id in enumerate(map(_own_id_of, properties)) if own_id]
    for place in own_ids:
        ids[place] = b""
    # Not as a list: the garbage collector would scan each of them.
    header_bytes = headers.view(f"V{HEADER_BYTES}").tolist()
    pieces = zip(header_bytes, bodies, befores, ids, map(_behind_of, properties), strict=True)
    records = b"".join(chain.from_iterable(pieces))
    hashes_before_ids = np.array([topic.hash_before_id for topic in topics], np.uint32)
    id_hashes = index_hashes_of(unique_ids.hash_words + np.repeat(hashes_before_ids, counts))
    if own_ids:
        row_of = np.repeat(np.arange(len(rows)), counts)[own_ids].tolist()
        for place, row in zip(own_ids, row_of, strict=True):
            id_hashes[place] = key_hash(topics[row].name, properties[place].unique_id)
    keys = list(map(_keys_of, properties))
    key_counts, key_hashes = np.ones(count, np.uint8), id_hashes
    if any(keys):
        counts_of_keys = np.fromiter(map(len, keys), np.int64, count)
        hashes = list(chain.from_iterable(keys))
        key_counts, key_hashes = with_keys(id_hashes, counts_of_keys, hashes)
    return RecordTable(
        topics=[topic.name for topic in topics],
        counts=counts,
        pieces=(records,),
        sizes=sizes,
        tag_codes=np.fromiter(map(_code_of, properties), np.int32, count),
        key_counts=key_counts,
        key_hashes=key_hashes,
        crc32=crc32_of(records),
    )


def _encode_few(rows: Sequence[MessageRow], unique_ids: UniqueIds) -> RecordTable:
    """Encode messages one by one."""
    pieces: list[ByteBuffer] = []
    sizes: list[int] = []
    tag_codes: list[int] = []
    key_counts: list[int] = []
    hashes: list[int] = []
    texts = iter(unique_ids.texts())
    for row in rows:
        topic, sequence = row.topic_properties, row.sequence
        for message in row.messages:
            properties: EncodedProperties
            body, properties, born_ms = message[:3]
            unique_id = next(texts)
            size = len(body) + properties.overhead_bytes
            before_id = properties.before_id
            if sequence is not None:
                size += SEQUENCE_BYTES
                before_id, sequence = _with_sequence(properties, row), None
            header = pack_unowned_header(
                size,
                topic.magic,
                crc32_of(body) & CRC_MASK,
                properties.flag,
                properties.system_flag,
                born_ms,
                0,
                0,
                len(body),
            )
            if properties.unique_id:
                pieces += (header, body, before_id, properties.behind_id)
                hashes.append(key_hash(topic.name, properties.unique_id))
            else:
                pieces += (header, body, before_id, unique_id.encode(), properties.behind_id)
                hashes.append(index_hash(topic.hash_before_id + id_hash_word(unique_id)))
            sizes.append(size)
            tag_codes.append(properties.tag_code)
            key_counts.append(1 + len(properties.key_hashes))
            hashes += properties.key_hashes
    records = b"".join(pieces)
    return RecordTable(
        topics=list(map(_topic_of, rows)),
        counts=list(map(len, map(_messages_of, rows))),
        pieces=(records,),
        sizes=np.array(sizes, np.int32),
        tag_codes=np.array(tag_codes, np.int32),
        key_counts=np.array(key_counts, np.uint8),
        key_hashes=np.array(hashes, np.int32),
        crc32=crc32_of(records),
    )


def _with_sequence(properties: EncodedProperties, row: MessageRow) -> bytes:
    """The bytes between body and id of the first message of a row in a stream."""
    assert row.sequence is not None  # noqa: S101 - for the type checker: callers have looked.
    encoded = encode_sequence(row.sequence, len(row.messages), row.size_bytes)
    return properties.before_sequence + encoded + properties.behind_sequence
