"""Receiving on the wire: orders, and answers as messages or as bytes.

Packed answers are made like those of pulls (``pull_wire``): the records, which are the last field,
are appended to the other fields, which the generated class encodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from struct import Struct
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
from google.rpc.status_pb2 import Status

from ariane.broker.v1 import receive_service_pb2 as receive_pb
from ariane_broker.clients.client_id import check_client_id
from ariane_broker.errors.receiving import receipt_expired
from ariane_broker.receive.handing_out.receive_order import (
    INVISIBLE_MS_DEFAULT,
    INVISIBLE_MS_MAX,
    HandedOut,
    ReceiveOrder,
    checked_order,
)
from ariane_broker.receive.in_hand.ranges import INT64_MAX, Ranges, apart
from ariane_broker.receive.in_hand.receipts import (
    Receipt,
    decode_handle,
    decode_receipt,
    encode_handle,
    encode_receipt,
)
from ariane_broker.receive.settled_messages import SettledMessage
from ariane_broker.receive.settling import (
    DONE,
    Failed,
    Hidden,
    Kept,
    Outcome,
    Settled,
    Settlement,
)
from ariane_broker.receive.standing import QueueStanding
from ariane_broker.rpc.translation.pull_wire import lost_runs
from ariane_broker.rpc.translation.stored_message import fill_message
from ariane_broker.rpc.translation.subscription_wire import filters_of
from ariane_broker.rpc.translation.wire_time import seconds_of, set_time
from ariane_record import decode_record
from ariane_record.single.wire_fields import length_tag, varint
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_servicekit.rpc.error_status import status_of

ANSWER_BYTES: Final = 1 << 20
"""Bytes of records in a plain answer, after which it is sent and the next one is begun."""
HANDLES_MAX: Final = 4096
SETTLEMENTS_MAX: Final = 8192

_ORDERS_KEPT: Final = 4096
_ORDER_BYTES_KEPT: Final = 512
"""Clients repeat their orders with each call: usual ones are not decoded again."""

_Piece: TypeAlias = bytes | memoryview

_INT32: Final = np.dtype("<i4")
_RANGE: Final = Struct("<qq")
_LEAST_RANGE: Final = np.array((0, 1), np.int64)
"""The least first offset and count of a range."""

_QUEUES: Final = varint(length_tag(receive_pb.ReceiveRecordsResponse.QUEUES_FIELD_NUMBER))
_RECORDS: Final = varint(length_tag(receive_pb.ReceivedRecords.RECORDS_FIELD_NUMBER))


def receive_order(
    order: receive_pb.ReceiveOrder, count_max: int, *, hold_seconds_max: float | None
) -> ReceiveOrder:
    """The order of a client, checked and with its defaults.

    Args:
        order: Its message.
        count_max: The most messages that it may ask for.
        hold_seconds_max: The hold time that the call's deadline allows.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    octets = order.SerializeToString()
    is_repeated = not order.attempt_id and len(octets) <= _ORDER_BYTES_KEPT
    decoded = (_kept_order if is_repeated else _decoded_order)(octets, count_max)
    if hold_seconds_max is None or decoded.hold_seconds <= hold_seconds_max:
        return decoded
    return replace(decoded, hold_seconds=hold_seconds_max)


def _decoded_order(octets: bytes, count_max: int) -> ReceiveOrder:
    order = receive_pb.ReceiveOrder.FromString(octets)
    filters = filters_of(order.subscriptions)
    if len(filters) < len(order.subscriptions):
        raise field_invalid("order.subscriptions", "must be of different topics")
    invisible_ms = INVISIBLE_MS_DEFAULT
    if order.HasField("invisible_duration"):
        invisible_s = seconds_of(order.invisible_duration, "order.invisible_duration")
        invisible_ms = round(invisible_s * 1000)
    decoded = ReceiveOrder(
        group=order.consumer_group,
        filters=MappingProxyType(filters),
        client_id=order.client_id,
        count_max=order.message_count_max,
        size_bytes_max=order.size_bytes_max,
        invisible_ms=invisible_ms,
        hold_seconds=seconds_of(order.hold_duration, "order.hold_duration"),
        by_priority=order.by_priority,
        several_of_a_group=order.several_of_a_group,
        attempt_id=order.attempt_id,
    )
    return checked_order(decoded, count_max)


_kept_order = lru_cache(maxsize=_ORDERS_KEPT)(_decoded_order)


def plain_answers(
    handed: Iterable[HandedOut], group: str, secret: bytes, broker_name: str
) -> Iterator[receive_pb.ReceiveMessagesResponse | None]:
    """Messages with their handles, in answers of about ``ANSWER_BYTES``; None for each message."""
    answer = receive_pb.ReceiveMessagesResponse()
    size = 0
    for out in handed:
        records = memoryview(b"".join(out.chunks))
        begin = 0
        rows = zip(out.offsets.tolist(), out.attempts.tolist(), out.sizes.tolist(), strict=True)
        for row, (queue_offset, attempts, record_bytes) in enumerate(rows):
            received = answer.messages.add()
            record = records[begin : begin + record_bytes]
            fill_message(decode_record(record, verify=False), broker_name, received.message)
            begin += record_bytes
            received.message.position.attempts = attempts - 1
            receipt = Receipt(out.queue, out.serial, queue_offset)
            received.receipt_handle = encode_handle(receipt, group, secret)
            set_time(received.invisible_until, out.until_ms)
            if not row:
                received.lost.extend(lost_runs(out.lost_offsets))
            size += record_bytes
            yield None
            if size >= ANSWER_BYTES:
                yield answer
                answer, size = receive_pb.ReceiveMessagesResponse(), 0
    if answer.messages:
        yield answer


def packed_answer(handed: Iterable[HandedOut], group: str, secret: bytes) -> bytes:
    """A ``ReceiveRecordsResponse``, encoded; chunks are read now."""
    pieces: list[_Piece] = []
    for out in handed:
        same = len(out.attempts) == 1 or bool((out.attempts == out.attempts[0]).all())
        attempts = out.attempts[:1] if same else out.attempts
        head = receive_pb.ReceivedRecords(
            topic=out.queue.topic,
            queue_id=out.queue.queue_id,
            receipt=encode_receipt(Receipt(out.queue, out.serial), group, secret),
            attempts=(attempts - 1).astype(_INT32, copy=False).tobytes(),
            invisible_until_ms=out.until_ms,
            lost=lost_runs(out.lost_offsets) if len(out.lost_offsets) else None,
            record_sizes=out.sizes.astype(_INT32, copy=False).tobytes(),
        ).SerializeToString()
        parts: list[_Piece] = [head, _RECORDS, varint(out.size_bytes), *out.chunks]
        pieces += (_QUEUES, varint(sum(map(len, parts))), *parts)
    return b"".join(pieces)


def receipts_of(
    handles: Sequence[str], group: str, secret: bytes
) -> Iterator[Receipt | ServiceError]:
    """The receipts of a client's handles, one for each.

    Raises:
        ServiceError: FIELD_INVALID for a wrong number of them; the error of an invalid handle is
            its entry.
    """
    if not 1 <= len(handles) <= HANDLES_MAX:
        raise field_invalid("receipt_handles", f"must be 1 to {HANDLES_MAX}", len(handles))
    for handle in handles:
        try:
            yield decode_handle(handle, group, secret)
        except ServiceError as error:
            yield error


def settlement_of_handle(
    handle: str, group: str, secret: bytes, outcome: Outcome
) -> Settlement | ServiceError:
    """The settlement of one message; the error of an invalid handle."""
    try:
        receipt = decode_handle(handle, group, secret)
    except ServiceError as error:
        return error
    ranges = np.array([[receipt.queue_offset, 1]], np.int64)
    return Settlement(receipt.queue, receipt.serial, ranges, outcome)


def settlements_of(
    settlements: Sequence[receive_pb.RecordSettlement], group: str, secret: bytes
) -> Iterator[Settlement | ServiceError]:
    """The settlements of records.

    Raises:
        ServiceError: FIELD_INVALID; the error of an invalid receipt is its entry.
    """
    if not 1 <= len(settlements) <= SETTLEMENTS_MAX:
        raise field_invalid("settlements", f"must be 1 to {SETTLEMENTS_MAX}", len(settlements))
    for place, each in enumerate(settlements):
        yield _of_ranges(each, place, group, secret)


def _of_ranges(
    settlement: receive_pb.RecordSettlement, place: int, group: str, secret: bytes
) -> Settlement | ServiceError:
    path = f"settlements[{place}]"
    outcome = _outcome_of(settlement, path)
    ranges = _ranges_of(settlement.ranges, path)
    return _of_receipt(settlement.receipt, group, secret, outcome, ranges)


def _ranges_of(octets: bytes, path: str) -> Ranges | None:
    if not octets:
        return None
    if len(octets) == _RANGE.size:
        # As below, in a fifth of the time: most settlements have one range.
        first, count = _RANGE.unpack(octets)
        if first >= 0 and 1 <= count <= INT64_MAX - first:
            return np.array(((first, count),), np.int64)
    if len(octets) % _RANGE.size:
        raise field_invalid(f"{path}.ranges", "must be pairs of int64", len(octets))
    ranges = np.frombuffer(octets, "<i8").reshape(-1, 2).astype(np.int64)
    if bool((ranges < _LEAST_RANGE).any()):
        raise field_invalid(f"{path}.ranges", "must begin at 0 or more and count 1 or more")
    return apart(ranges)


def _outcome_of(settlement: receive_pb.RecordSettlement, path: str) -> Outcome:
    if settlement.HasField("nack"):
        return nack_of(settlement.nack, f"{path}.nack")
    if settlement.HasField("invisible_duration"):
        field = f"{path}.invisible_duration"
        return Hidden(span_ms_of(seconds_of(settlement.invisible_duration, field), field))
    return DONE


def nack_of(nack: receive_pb.Nack, path: str) -> Failed:
    """The failure of a nack.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    delay_ms = span_ms_of(seconds_of(nack.delay, f"{path}.delay"), f"{path}.delay")
    return Failed(delay_ms if nack.HasField("delay") else None, nack.dead_letter, nack.cause)


def span_ms_of(seconds: float, field: str) -> int:
    """The invisible time in milliseconds.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if seconds * 1000 > INVISIBLE_MS_MAX:
        raise field_invalid(field, "must be 0 to 12 h", f"{seconds:g} s")
    return round(seconds * 1000)


def kept_settlements(
    request: receive_pb.KeepInvisibleRequest, secret: bytes
) -> Iterator[Settlement | ServiceError]:
    """The settlements for messages that a client still holds.

    Raises:
        ServiceError: FIELD_INVALID; the error of an invalid handle or receipt is its entry.
    """
    if not request.client_id:
        raise field_invalid("client_id", "must be set")
    check_client_id(request.client_id, "client_id")
    count = len(request.receipt_handles) + len(request.receipts)
    if not 1 <= count <= HANDLES_MAX:
        raise field_invalid("receipts", f"must be 1 to {HANDLES_MAX} with handles", count)
    group, outcome = request.consumer_group, Kept(request.client_id)
    for handle in request.receipt_handles:
        yield settlement_of_handle(handle, group, secret, outcome)
    for octets in request.receipts:
        yield _of_receipt(octets, group, secret, outcome)


def _of_receipt(
    octets: bytes, group: str, secret: bytes, outcome: Outcome, ranges: Ranges | None = None
) -> Settlement | ServiceError:
    try:
        receipt = decode_receipt(octets, group, secret)
    except ServiceError as error:
        return error
    return Settlement(receipt.queue, receipt.serial, ranges, outcome)


def kept_messages(outcome: Settled | ServiceError, named: str) -> receive_pb.KeptMessages:
    """The result of an entry."""
    return receive_pb.KeptMessages(error=_error_of(outcome, named))


def settled_message(
    outcome: Settled | SettledMessage | ServiceError, handle: str
) -> receive_pb.SettledMessage:
    """The result of a handle."""
    if isinstance(outcome, Settled):
        outcome = SettledMessage.of(outcome)
    dead_letter = isinstance(outcome, SettledMessage) and outcome.dead
    return receive_pb.SettledMessage(error=_error_of(outcome, handle), dead_letter=dead_letter)


def settled_records(
    outcome: Settled | ServiceError, settlement: receive_pb.RecordSettlement
) -> receive_pb.SettledRecords:
    """The result of an entry."""
    is_whole = isinstance(outcome, Settled) and not outcome.expired
    error = None if is_whole else _error_of(outcome, settlement.receipt.hex())
    settled = receive_pb.SettledRecords(error=error)
    if isinstance(outcome, Settled):
        settled.settled_count, settled.dead_letter_count = len(outcome.settled), len(outcome.dead)
    return settled


def _error_of(outcome: Settled | SettledMessage | ServiceError, receipt: str) -> Status | None:
    """Why an entry was not, or not wholly, settled."""
    if isinstance(outcome, ServiceError):
        return status_of(outcome)
    return status_of(receipt_expired(receipt)) if outcome.expired else None


def receiving_queue(standing: QueueStanding) -> receive_pb.ReceivingQueue:
    """The counts of a group in a queue."""
    return receive_pb.ReceivingQueue(
        topic=standing.queue.topic,
        queue_id=standing.queue.queue_id,
        consumer_offset=standing.consumer_offset,
        unsettled_count=standing.unsettled_count,
        in_flight_count=standing.in_flight_count,
        delayed_count=standing.delayed_count,
        ready_count=standing.ready_count,
    )
