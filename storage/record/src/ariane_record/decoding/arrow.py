"""Records as Arrow columns, for Spark and other users of tables.

Arrow is an extra of this distribution (``ariane-record[arrow]``): only this module imports it. All
work is done by numpy and Arrow over whole columns.

====================  =======================  ====================================================
column                type                     is null
====================  =======================  ====================================================
topic                 string                   never
queueId               int32                    never
queueOffset           int64                    never
messageId             string                   never: without a unique id, the offset message id
keys                  list<string>             never, may be empty
tag                   string                   without a tag
messageGroup          string                   without one
properties            map<string, string>      never; properties without a column of their own
bornTimestamp         timestamp[us, UTC]       never
storeTimestamp        timestamp[us, UTC]       never
deliveryTimestamp     timestamp[us, UTC]       unless the producer asked for a delivery time
reconsumeTimes        int32                    never
body                  binary                   never; decompressed
====================  =======================  ====================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ariane_record.decoding.columns import RecordColumns
from ariane_record.decoding.property_columns import PropertyColumns, decode_property_text
from ariane_record.encoding.columns.arrow_texts import own_octets
from ariane_record.errors import RecordCorrupted
from ariane_record.layout import KEY_SEPARATOR, ByteBuffer, PropertyName, SystemFlag

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

TYPES: Final[dict[str, pa.DataType]] = {
    "topic": pa.string(),
    "queueId": pa.int32(),
    "queueOffset": pa.int64(),
    "messageId": pa.string(),
    "keys": pa.list_(pa.string()),
    "tag": pa.string(),
    "messageGroup": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "bornTimestamp": _TIMESTAMP,
    "storeTimestamp": _TIMESTAMP,
    "deliveryTimestamp": _TIMESTAMP,
    "reconsumeTimes": pa.int32(),
    "body": pa.binary(),
}
"""All columns, in their usual order."""

COLUMN_NAMES: Final = tuple(TYPES)

OWN_COLUMNS: Final = frozenset(
    {
        PropertyName.KEYS,
        PropertyName.TAGS,
        PropertyName.UNIQUE_ID,
        PropertyName.MESSAGE_GROUP,
        PropertyName.DELIVERY_TIME_MS,
        PropertyName.CHECKSUM,
        PropertyName.PRODUCER_SEQUENCE,
    }
)
"""Properties that the column ``properties`` leaves out."""

_MICROSECONDS_PER_MILLISECOND: Final = 1000
_SPAN_OFFSET_MAX: Final = 0x7FFFFFFF
_RUN_SPANS_MIN: Final = 64
_FEW_SPANS: Final = 128
"""So few are copied span by span in less time than it takes to look for runs."""
_SOME_SPACES: Final = " {2,}"
_TIMESTAMP_DIGITS: Final = "^[0-9]{1,15}$"

_PLACE: Final = np.dtype([("store_ip", ">u4"), ("store_port", ">i4"), ("commit_log_offset", ">i8")])
_HEX_DIGITS: Final = np.array([f"{octet:02X}".encode() for octet in range(256)], "S2")


def arrow_schema(names: Sequence[str] = COLUMN_NAMES) -> pa.Schema:
    """The schema of the tables of ``to_arrow``.

    Raises:
        KeyError: No such column.
    """
    return _schema_of(tuple(names))


@lru_cache
def _schema_of(names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([pa.field(name, TYPES[name]) for name in names])


def to_arrow(columns: RecordColumns, names: Sequence[str] = COLUMN_NAMES) -> pa.RecordBatch:
    """Records as one batch.

    Args:
        columns: The records, at most 2 GiB of them.
        names: The columns to build, in this order; other columns are not read.

    Raises:
        KeyError: No such column.
        RecordCorrupted: A topic is not UTF-8, or a compressed body cannot be decompressed.
        CodecMissing: The library that would decompress a body is not installed.
    """
    schema = arrow_schema(names)
    records = _RecordArrays(columns)
    arrays = [_BUILDERS[name](records) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _RecordArrays:
    """Builds the columns of some records; intermediate results are shared."""

    def __init__(self, columns: RecordColumns) -> None:
        self._columns = columns

    @cached_property
    def _properties(self) -> PropertyColumns:
        columns = self._columns
        starts, lengths = columns.properties_start, columns.properties_length
        texts = _spans(columns.records, starts, starts + lengths, pa.binary())
        return decode_property_text(own_octets(texts).tobytes(), lengths)

    def _property(self, name: str) -> pa.StringArray:
        """The value of one property in each record, or null."""
        properties = self._properties
        if not len(properties.places_of(name)):
            return pa.nulls(properties.row_count, pa.string())
        pairs = properties.pair_of_each_row(name)
        present = pairs >= 0
        if present.all():
            return self._values(pairs)
        return _spread(self._values(pairs[present]), present)

    def _values(self, pairs: NDArray[np.int64]) -> pa.StringArray:
        """The values of some pairs."""
        properties = self._properties
        starts, ends = properties.value_start[pairs], properties.value_end[pairs]
        return _spans(properties.text, starts, ends, pa.string())

    def topic(self) -> pa.StringArray:
        columns = self._columns
        if not len(columns):
            return pa.array([], pa.string())
        ends = columns.topic_start + columns.topic_length
        topics = _spans(columns.records, columns.topic_start, ends, pa.binary())
        first = topics[0]
        try:
            if pc.all(pc.equal(topics, first)).as_py():
                return pa.repeat(first.cast(pa.string()), len(topics))
            return topics.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise RecordCorrupted(f"a topic is no UTF-8: {error}") from None

    def queue_id(self) -> pa.Int32Array:
        return _numbers(self._columns.queue_id)

    def queue_offset(self) -> pa.Int64Array:
        return _numbers(self._columns.queue_offset)

    def message_id(self) -> pa.StringArray:
        unique_ids = self._property(PropertyName.UNIQUE_ID)
        if not unique_ids.null_count:
            return unique_ids
        missing = np.flatnonzero(pc.is_null(unique_ids).to_numpy(zero_copy_only=False))
        ids = _offset_message_ids(self._columns, missing)
        return pc.replace_with_mask(unique_ids, pc.is_null(unique_ids), ids)

    def keys(self) -> pa.ListArray:
        pairs = self._properties.pair_of_each_row(PropertyName.KEYS)
        present = pairs >= 0
        values = self._values(pairs[present])
        if not (own_octets(values) == ord(KEY_SEPARATOR)).any():
            # No record has more than one.
            offsets = np.zeros(len(pairs) + 1, np.int32)
            np.cumsum(present, out=offsets[1:])
            return pa.ListArray.from_arrays(_numbers(offsets), values)
        return self._split_keys()

    def _split_keys(self) -> pa.ListArray:
        joined = pc.utf8_trim(self._property(PropertyName.KEYS), KEY_SEPARATOR)
        some = pc.fill_null(pc.not_equal(joined, ""), fill_value=False)
        present = some.to_numpy(zero_copy_only=False)
        trimmed = joined.filter(some)
        if pc.any(pc.match_substring(trimmed, KEY_SEPARATOR * 2)).as_py():
            trimmed = pc.replace_substring_regex(trimmed, _SOME_SPACES, KEY_SEPARATOR)
        lists = pc.split_pattern(trimmed, KEY_SEPARATOR)
        counts = np.zeros(len(joined) + 1, np.int64)
        counts[1:][present] = np.diff(lists.offsets.to_numpy())
        offsets = _numbers(np.cumsum(counts).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, lists.flatten())

    def tag(self) -> pa.StringArray:
        return self._property(PropertyName.TAGS)

    def message_group(self) -> pa.StringArray:
        return self._property(PropertyName.MESSAGE_GROUP)

    def properties(self) -> pa.MapArray:
        properties = self._properties
        others = np.ones(len(properties.row), np.bool_)
        for name in OWN_COLUMNS:
            others[properties.places_of(name)] = False
        kept = properties.last_of_each_name(np.flatnonzero(others))
        names = _spans(
            properties.text, properties.name_start[kept], properties.name_end[kept], pa.string()
        )
        values = self._values(kept)
        offsets = np.zeros(len(self._columns) + 1, np.int32)
        np.cumsum(np.bincount(properties.row[kept], minlength=len(self._columns)), out=offsets[1:])
        return pa.MapArray.from_arrays(_numbers(offsets), names, values)

    def born_timestamp(self) -> pa.TimestampArray:
        return _timestamps(self._columns.born_timestamp_ms)

    def store_timestamp(self) -> pa.TimestampArray:
        return _timestamps(self._columns.store_timestamp_ms)

    def delivery_timestamp(self) -> pa.TimestampArray:
        texts = self._property(PropertyName.DELIVERY_TIME_MS)
        if texts.null_count == len(texts):
            return pa.nulls(len(texts), _TIMESTAMP)
        readable = pc.match_substring_regex(texts, _TIMESTAMP_DIGITS)
        milliseconds = pc.if_else(readable, texts, None).cast(pa.int64())
        return pc.multiply(milliseconds, _MICROSECONDS_PER_MILLISECOND).cast(_TIMESTAMP)

    def attempts(self) -> pa.Int32Array:
        return _numbers(self._columns.attempts)

    def body(self) -> pa.BinaryArray:
        columns = self._columns
        ends = columns.body_start + columns.body_length
        stored = _spans(columns.records, columns.body_start, ends, pa.binary())
        compressed = columns.compressed_positions()
        if not len(compressed):
            return stored
        mask = np.zeros(len(columns), np.bool_)
        mask[compressed] = True
        bodies = pa.array(columns.decompressed_bodies(compressed), pa.binary())
        return pc.replace_with_mask(stored, pa.array(mask), bodies)


_BUILDERS: Final[dict[str, Callable[[_RecordArrays], Any]]] = {
    "topic": _RecordArrays.topic,
    "queueId": _RecordArrays.queue_id,
    "queueOffset": _RecordArrays.queue_offset,
    "messageId": _RecordArrays.message_id,
    "keys": _RecordArrays.keys,
    "tag": _RecordArrays.tag,
    "messageGroup": _RecordArrays.message_group,
    "properties": _RecordArrays.properties,
    "bornTimestamp": _RecordArrays.born_timestamp,
    "storeTimestamp": _RecordArrays.store_timestamp,
    "deliveryTimestamp": _RecordArrays.delivery_timestamp,
    "reconsumeTimes": _RecordArrays.attempts,
    "body": _RecordArrays.body,
}


def _spans(
    buffer: ByteBuffer, starts: NDArray[np.int64], ends: NDArray[np.int64], kind: pa.DataType
) -> Any:
    """Spans of a buffer, ascending and without overlap, as an array of their own.

    Neighbours of one length at one distance are copied by one step of numpy. If there are few of
    them, an array over the whole buffer is made without a copy, with spans and gaps as alternating
    elements; taking every other element of it copies the spans in C++. A few spans are just joined.
    """
    count = len(starts)
    if not count:
        return pa.nulls(0, kind)
    if len(buffer) > _SPAN_OFFSET_MAX:
        raise ValueError(f"{len(buffer)} bytes; an Arrow array takes {_SPAN_OFFSET_MAX}")
    lengths = ends - starts
    if count <= _FEW_SPANS:
        spans = map(slice, starts.tolist(), ends.tolist())
        octets = b"".join(map(memoryview(buffer).cast("B").__getitem__, spans))
        few = np.zeros(count + 1, np.int32)
        np.cumsum(lengths, out=few[1:])
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(few), pa.py_buffer(octets)])
    firsts = _firsts_of_runs(starts, lengths)
    if len(firsts) * _RUN_SPANS_MIN <= count:
        return _spans_of_runs(buffer, starts, lengths, firsts, kind)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    everything = pa.Array.from_buffers(
        kind, 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    return everything.take(_numbers(np.arange(0, 2 * count, 2, dtype=np.int32)))


def _firsts_of_runs(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[int]:
    """The spans that differ from the one before in length, or in the distance to the next."""
    differs = np.ones(len(starts), np.bool_)
    distances = np.diff(starts)
    differs[1:] = lengths[1:] != lengths[:-1]
    # The last one has no next: it counts as having the distance of the one before.
    differs[1:-1] |= distances[1:] != distances[:-1]
    firsts: list[int] = np.flatnonzero(differs).tolist()
    return firsts


def _spans_of_runs(
    buffer: ByteBuffer,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    firsts: Sequence[int],
    kind: pa.DataType,
) -> Any:
    """As ``_spans``, run by run: into memory of the final size, where Arrow would let it grow."""
    count = len(starts)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    octets = np.empty(offsets[-1], np.uint8)
    for first, end in pairwise((*firsts, count)):
        length = int(lengths[first])
        distance = int(starts[first + 1] - starts[first]) if end - first > 1 else length
        run: NDArray[np.uint8] = np.ndarray(
            (end - first, length), np.uint8, buffer, int(starts[first]), (distance, 1)
        )
        octets[offsets[first] : offsets[end]].reshape(end - first, length)[...] = run
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets), pa.py_buffer(octets)])


def _numbers(values: NDArray[Any], present: NDArray[np.bool_] | None = None) -> Any:
    """Numbers as an array, without a copy.

    ``pa.array`` would do the same, but for looking whether they are of pandas: where that is
    installed, Arrow imports it for this, which takes longer than a small read.

    Args:
        values: The numbers, contiguous.
        present: Which ones are not null; default all.
    """
    flags = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [flags, pa.py_buffer(values)])


def _spread(values: Any, present: NDArray[np.bool_]) -> Any:
    """Values at the places where one is present, and null at the others."""
    positions = (np.cumsum(present) - 1).astype(np.int32)
    return values.take(_numbers(positions, present))


def _timestamps(milliseconds: NDArray[np.int64]) -> pa.TimestampArray:
    return _numbers(milliseconds * _MICROSECONDS_PER_MILLISECOND).view(_TIMESTAMP)


def _offset_message_ids(columns: RecordColumns, positions: NDArray[np.int64]) -> pa.StringArray:
    """The offset message ids of some records."""
    ipv6 = (columns.system_flag[positions] & SystemFlag.STORE_HOST_IPV6) != 0
    if ipv6.any():  # Longer ids; only here records are processed one by one.
        return pa.array([columns.offset_message_id(position) for position in positions.tolist()])
    headers = columns.headers[positions]
    places = np.empty(len(positions), _PLACE)
    for name in ("store_ip", "store_port", "commit_log_offset"):
        places[name] = headers[name]
    digits = _HEX_DIGITS[places.view(np.uint8)]
    offsets = np.arange(len(positions) + 1, dtype=np.int32) * (2 * _PLACE.itemsize)
    return pa.Array.from_buffers(
        pa.string(), len(positions), [None, pa.py_buffer(offsets), pa.py_buffer(digits)]
    )
