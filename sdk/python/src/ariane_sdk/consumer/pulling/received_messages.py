"""Pulled records become messages for a listener, without a Python statement for each.

Records are cut at places that numpy has computed for all of them. The parts that a listener may
never look at, above all the header, stay bytes until it does. Messages of one kind tend to have one
size: neighbours of equal size are cut by one step in C, at half the price. All this takes about
fifty steps of numpy, even for few records; so a few records are decoded one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise, repeat, starmap
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from ariane_record.decoding.columns import RecordColumns, decode_columns
from ariane_record.layout import (
    HEADER,
    HEADER_BYTES,
    HEADER_STRUCTS,
    HOST_FLAGS,
    MAGIC_V1,
    PROPERTIES_BYTES_MAX,
    RECORD_BYTES_MIN,
    SYSTEM_FLAG_START,
    TOPIC_V1_BYTES_MAX,
    ByteBuffer,
    SystemFlag,
)
from ariane_record.single.view import iter_messages
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue

_LONG_WAY: Final = int(HOST_FLAGS | SystemFlag.COMPRESSED)
"""Bits of the system flag of records that are decoded one by one."""

COLUMNS_RECORDS_MIN: Final = 24
"""Fewer records are decoded one by one: one takes 5 us instead of 90, measured."""

RUN_RECORDS_MIN: Final = 8
"""Where fewer neighbours have the same size on average, each is cut by itself."""

ALIKE_RECORDS_MIN: Final = 64
"""Where so many neighbours have the same size on average, they are compared together."""

_SIZE_AND_MAGIC: Final = Struct(">iI")
_BODY_LENGTH: Final = Struct(">i")
_BODY_LENGTH_START: Final = HEADER_BYTES - _BODY_LENGTH.size
_LENGTH_BYTES: Final = 2

_raw_header_of = attrgetter("_raw_header")

_unpack_header = HEADER_STRUCTS[False, False].unpack


class PulledMessage(ReceivedMessage):
    """A message whose header is decoded when one of its fields is read."""

    __slots__ = ("_raw_header",)

    def __init__(
        self,
        message_queue: MessageQueue,
        raw_header: bytes,
        body: bytes,
        encoded_properties: bytes,
    ) -> None:
        self.topic = message_queue.topic
        self.body = body
        self._raw_header = raw_header
        self._encoded_properties = encoded_properties
        self._properties = None
        self.message_queue = message_queue

    if not TYPE_CHECKING:  # Type checkers would accept any name as an attribute.

        def __getattr__(self, name: str) -> object:
            # Python calls this for a slot that was never filled.
            if name == "_header":
                self._header = _unpack_header(self._raw_header)
                return self._header
            return super().__getattr__(name)


def received_messages(
    records: ByteBuffer, sizes: NDArray[np.integer[Any]], queue: MessageQueue
) -> list[ReceivedMessage]:
    """Return the messages of records of one queue.

    Args:
        records: The records, back to back.
        sizes: Bytes of each, integer[count].
        queue: The queue.

    Raises:
        RecordCorrupted: A record is malformed. Checksums are not compared.
    """
    if len(sizes) < COLUMNS_RECORDS_MIN:
        return _one_by_one(records, sizes, queue)
    alike = _cut_alike(memoryview(records), sizes, queue.topic.encode())
    if alike is not None:
        return _made(queue, alike)
    columns = decode_columns(records, sizes.astype(np.int32, copy=False))
    if (columns.system_flag & _LONG_WAY).any() or not _are_of(columns, queue.topic):
        return _one_by_one(records, sizes, queue)
    firsts = _firsts_of_runs(columns)
    if len(firsts) * RUN_RECORDS_MIN > len(columns):
        return _made(queue, _cut_one_by_one(columns))
    return _made(queue, _cut_runs(columns, firsts))


def _made(
    queue: MessageQueue, parts: Iterable[tuple[bytes, bytes, bytes]]
) -> list[ReceivedMessage]:
    """Make messages of header, body and properties."""
    return list(starmap(partial(PulledMessage, queue), parts))


def queue_offsets_of(messages: Sequence[ReceivedMessage]) -> NDArray[np.int64]:
    """Return the queue offset of each message, int64[count], without decoding headers."""
    try:
        headers = b"".join(map(_raw_header_of, messages))
    except AttributeError:  # Some were decoded one by one.
        return np.array([message.queue_offset for message in messages], np.int64)
    return np.frombuffer(headers, HEADER)["queue_offset"].astype(np.int64)


def _one_by_one(
    records: ByteBuffer, sizes: NDArray[np.integer[Any]], queue: MessageQueue
) -> list[ReceivedMessage]:
    """Return the messages of records of any kind."""
    views = iter_messages(bytes(records), sizes, queue.topic)
    return list(map(ReceivedMessage, views, repeat(queue)))


def _cut_alike(
    records: memoryview, sizes: NDArray[np.integer[Any]], topic: bytes
) -> Iterator[tuple[bytes, bytes, bytes]] | None:
    """Return header, body and properties of each record, if long runs of records are alike.

    This takes a tenth of the steps of ``decode_columns``: the fields that are equal in all records
    of a run are read from the first and compared at once.

    Returns:
        The parts; None if the records are not alike, or one of them is malformed.
    """
    changes = np.flatnonzero(sizes[1:] != sizes[:-1]) + 1
    if len(changes) * ALIKE_RECORDS_MIN > len(sizes) or len(topic) > TOPIC_V1_BYTES_MAX:
        return None
    counted_topic = bytes([len(topic)]) + topic
    runs: list[Iterator[tuple[bytes, ...]]] = []
    start = 0
    for first, last in pairwise((0, *changes.tolist(), len(sizes))):
        end = start + (last - first) * int(sizes[first])
        shape = _shape_of_run(records[start:end], last - first, counted_topic)
        if shape is None:
            return None
        runs.append(shape.iter_unpack(records[start:end]))
        start = end
    if start != len(records):
        return None
    return cast("Iterator[tuple[bytes, bytes, bytes]]", chain.from_iterable(runs))


def _shape_of_run(run: memoryview, count: int, counted_topic: bytes) -> Struct | None:
    """Return how records of one size are cut; None unless all are well formed and cut alike."""
    size = len(run) // count
    if size * count != len(run) or size < RECORD_BYTES_MIN:
        return None

    def column(kind: str, place: int) -> NDArray[Any]:
        return np.ndarray((count,), kind, run, place, (size,))

    def all_have(octets: bytes, place: int) -> bool:
        return column(f"V{len(octets)}", place).tobytes() == octets * count

    (body_bytes,) = _BODY_LENGTH.unpack_from(run, _BODY_LENGTH_START)
    body_end = HEADER_BYTES + body_bytes
    properties_bytes = size - body_end - len(counted_topic) - _LENGTH_BYTES
    if body_bytes < 0 or not 0 <= properties_bytes <= PROPERTIES_BYTES_MAX:
        return None
    if (
        not all_have(_SIZE_AND_MAGIC.pack(size, MAGIC_V1), 0)
        or not all_have(_BODY_LENGTH.pack(body_bytes), _BODY_LENGTH_START)
        or not all_have(counted_topic + properties_bytes.to_bytes(_LENGTH_BYTES), body_end)
        or bool((column(">i4", SYSTEM_FLAG_START) & _LONG_WAY).any())
    ):
        return None
    left_out = len(counted_topic) + _LENGTH_BYTES
    return Struct(f"{HEADER_BYTES}s{body_bytes}s{left_out}x{properties_bytes}s")


def _firsts_of_runs(columns: RecordColumns) -> NDArray[np.int64]:
    """Return the places of records that are not cut like the one before."""
    differs = np.ones(len(columns), np.bool_)
    differs[1:] = np.diff(columns.sizes) != 0
    differs[1:] |= np.diff(columns.body_length) != 0
    differs[1:] |= np.diff(columns.properties_length) != 0
    return np.flatnonzero(differs)


def _cut_runs(
    columns: RecordColumns, firsts: NDArray[np.int64]
) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Return header, body and properties of each record; runs that are cut alike at once."""
    view = memoryview(columns.records)
    body_ends = columns.body_start + columns.body_length
    bounds = (columns.starts, columns.body_start, body_ends, columns.properties_start)
    places = zip(
        *(places[firsts].tolist() for places in bounds),
        (columns.starts + columns.sizes)[firsts].tolist(),
        [*columns.starts[firsts[1:]].tolist(), len(view)],
        strict=True,
    )
    return chain.from_iterable(
        Struct(
            f"{body - start}s{body_end - body}s{properties - body_end}x{end - properties}s"
        ).iter_unpack(view[start:end_of_run])
        for start, body, body_end, properties, end, end_of_run in places
    )


def _cut_one_by_one(columns: RecordColumns) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Return header, body and properties of each record."""
    cut = bytes(columns.records).__getitem__
    starts, body_starts = columns.starts.tolist(), columns.body_start.tolist()
    body_ends = (columns.body_start + columns.body_length).tolist()
    properties_starts = columns.properties_start.tolist()
    ends = (columns.starts + columns.sizes).tolist()
    return zip(
        map(cut, map(slice, starts, body_starts)),
        map(cut, map(slice, body_starts, body_ends)),
        map(cut, map(slice, properties_starts, ends)),
        strict=True,
    )


def _are_of(columns: RecordColumns, topic: str) -> bool:
    """Whether all records are of this topic."""
    name = topic.encode()
    if not len(columns) or (columns.topic_length != len(name)).any():
        return False
    octets = np.frombuffer(columns.records, np.uint8)
    places = columns.topic_start[:, np.newaxis] + np.arange(len(name))
    return bool((octets[places] == np.frombuffer(name, np.uint8)).all())
