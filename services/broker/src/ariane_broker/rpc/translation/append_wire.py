"""Appends on the wire: conversion of requests and answers from and to values of the use case.

Requests arrive as bytes. Protocol Buffers would copy the records twice, into newly allocated pages.
So the records of a large table are cut out here, and only the rest is parsed. They are copied once,
by the store into its log.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from ariane.broker.v1.send_service_pb2 import AppendRecordsRequest, AppendRecordsResponse
from ariane.broker.v1.send_service_pb2 import ProducerSequence as WireSequence
from ariane_broker.append.row_check import ROWS_MAX
from ariane_broker.append.rows import Outcome, Rows
from ariane_broker.errors.public_errors import block_corrupted
from ariane_broker.rpc.translation.table_wire import fill_result, rows_of
from ariane_record import ProducerSequence
from ariane_record.errors import WireCorrupted
from ariane_record.layout import ByteBuffer
from ariane_record.single.wire_fields import fields_of, length_tag

CUT_BYTES_MIN: Final = 192 << 10
"""Smaller requests are parsed as they are: that is faster than cutting (measured)."""

_FIELDS_MAX: Final = 64
"""The most fields of a request that is cut; no real one has as many. Each costs a step of Python; a
request with more is parsed by Protocol Buffers."""

_TABLE_RECORDS: Final = length_tag(AppendRecordsRequest.TABLE_RECORDS_FIELD_NUMBER)


class AppendRequest(NamedTuple):
    """A producer's request."""

    rows: Rows
    """The rows of its table."""
    trace_parents: Sequence[str]
    """Trace contexts of its senders."""
    record_counts: Sequence[int]
    """How many records each row has."""


def append_request(raw: bytes) -> AppendRequest:
    """Decode a request of AppendRecords.

    Raises:
        DecodeError: The bytes are no such request.
    """
    if len(raw) >= CUT_BYTES_MIN:
        try:
            cut = _without_records(raw)
        except WireCorrupted as error:
            raise DecodeError(str(error)) from error
        if cut is not None:
            return _request_of(*cut)
    return _request_of(AppendRecordsRequest.FromString(raw))


def _without_records(raw: bytes) -> tuple[AppendRecordsRequest, ByteBuffer] | None:
    """Split a request from the records of its table; None without such, or with many fields."""
    rest: list[ByteBuffer] = []
    records: ByteBuffer | None = None
    for field in fields_of(memoryview(raw)):
        if field.tag == _TABLE_RECORDS:
            records = field.value
        else:
            rest.append(field.whole)
            if len(rest) > _FIELDS_MAX:
                return None
    return None if records is None else (AppendRecordsRequest.FromString(b"".join(rest)), records)


def _request_of(
    request: AppendRecordsRequest, table_records: ByteBuffer | None = None
) -> AppendRequest:
    """Convert a request that was parsed as a whole, or without the records of its table."""
    table = request.table
    count = len(table.topics)
    if count > ROWS_MAX:
        # The request is refused for their number; millions fit into one, so none is looked at.
        rows = Rows.refused([""] * count, block_corrupted(-1, "it is one of too many"))
    else:
        rows = rows_of(table, request.table_records if table_records is None else table_records)
    counts = (0,) * len(rows) if rows.table is None else rows.table.counts
    return AppendRequest(rows, request.trace_parents, counts)


def sequence_of(sequence: WireSequence) -> ProducerSequence:
    """The number of a batch in its producer's stream."""
    return ProducerSequence(sequence.producer_id, sequence.producer_epoch, sequence.first_sequence)


def append_response(outcomes: Sequence[Outcome], record_counts: Sequence[int]) -> bytes:
    """The answer to a request: an ``AppendRecordsResponse``, encoded.

    Args:
        outcomes: What became of its rows.
        record_counts: As in the request.
    """
    response = AppendRecordsResponse()
    fill_result(outcomes, record_counts, response.table_result)
    return response.SerializeToString()


def _topics_of_table(request: AppendRequest) -> Collection[str]:
    """Return the topics of a table, each once."""
    return frozenset(request.rows.topics)


APPEND_NAMES: Final = MappingProxyType({"table.topics": _topics_of_table})
"""The extractors of AppendRecords, by the path in its rule."""
