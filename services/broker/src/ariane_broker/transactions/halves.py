"""Stores half messages in the half topic, where no consumer sees them.

The half messages of a request become one block, or as many as they need. An error of one affects no
other. Repeating is harmless: a half message that waits for its outcome is not stored again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from ariane_broker.append.row_check import check_place
from ariane_broker.append.rows import Outcome, Rows
from ariane_broker.delay.parked.parked_records import DELAY_PROPERTIES
from ariane_broker.errors.public_errors import (
    broker_draining,
    message_illegal,
)
from ariane_broker.errors.transactions import (
    half_messages_exhausted,
    transaction_decided,
    transaction_foreign,
)
from ariane_broker.groups.group_changes import check_user_group
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.promise import Demand
from ariane_broker.topics.topic_table import TopicConfig, TopicMessageType
from ariane_broker.transactions.recent_halves import RecentHalves
from ariane_broker.transactions.transaction_records import (
    TRANSACTION_PROPERTIES,
    HalfMessage,
    encoded_half_properties,
    half_message_with,
    half_properties,
)
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_record import PropertyName
from ariane_record.layout import CRC_PROPERTY_BYTES, PROPERTIES_BYTES_MAX, Host
from ariane_record.names import HALF_TOPIC
from ariane_record.single.addresses import ip_text
from ariane_record.single.message import split_keys
from ariane_record.single.properties import decode_properties
from ariane_record.single.record_copy import RecordCopy, copied_block, copied_bytes, copy_of
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.security.gate.charging import charge_stored
from ariane_storage.errors import StorageError, StorePoisoned
from ariane_storage.writing.append import Appended, packed_host

_RESERVED: Final = (
    frozenset(half_properties("", 0, "", "")) | DELAY_PROPERTIES | TRANSACTION_PROPERTIES
)
"""Properties that the record of a half message cannot have when it arrives."""


class HalfRequest(NamedTuple):
    """A half message to be stored."""

    topic: str
    """The topic it is for."""
    queue_id: int
    """The queue it is for."""
    producer_group: str
    """The group whose members can be asked."""
    unique_id: str
    """The unique id of the message, which becomes that of the transaction."""
    copy: RecordCopy
    """The message, as the producer's record has it."""
    properties: Mapping[str, str]
    """Its properties."""
    demand: Demand | None
    """The level to reach, where that is more than the broker's own; or None."""

    def record(self, born_host: Host) -> RecordCopy:
        """The record in which it waits.

        Args:
            born_host: The producer's address, as the store will have it.

        Raises:
            ServiceError: MESSAGE_ILLEGAL: there is no room for the properties of the system.
        """
        own = encoded_half_properties(
            self.topic, self.queue_id, self.producer_group, self.unique_id
        )
        properties = self.copy.properties + own
        if len(properties) > PROPERTIES_BYTES_MAX - CRC_PROPERTY_BYTES:
            raise message_illegal(0, f"properties of {len(properties)} bytes are too many")
        return self.copy._replace(properties=properties, born_host=born_host)


def _requests_of(rows: Rows) -> Iterator[HalfRequest | ServiceError]:
    """The half messages of rows of one valid record each, or why one is none."""
    if rows.table is None or rows.terms is None:
        raise AssertionError("only for rows with half messages")
    records, begin = memoryview(rows.table.records), 0
    columns = zip(rows.topics, rows.queue_ids, rows.terms, rows.table.sizes.tolist(), strict=True)
    for topic, queue_id, terms, size in columns:
        copy = copy_of(records[begin : begin + size], verify=False)
        begin += size
        properties = decode_properties(copy.properties)
        unique_id = properties.get(PropertyName.UNIQUE_ID)
        if not _RESERVED.isdisjoint(properties):
            name = min(_RESERVED.intersection(properties))
            yield message_illegal(0, f"property {name!r} belongs to the system")
        elif unique_id is None:
            yield message_illegal(0, "a half message needs a unique id")
        else:
            group = terms.half_group or ""
            yield HalfRequest(topic, queue_id, group, unique_id, copy, properties, terms.demand)


OF_TOPIC_MIN: Final = 16
"""Half messages of one topic that may wait in any case."""


@dataclass(frozen=True, slots=True)
class HalfLimits:
    """Limits for half messages."""

    call_bytes_max: int
    """Bytes of the records of one block."""
    pending_count_max: int
    """Half messages that may wait for an outcome at the same time."""


class Halves:
    """Stores half messages."""

    def __init__(
        self,
        log: BrokerLog,
        table: TransactionTable,
        find_topic: Callable[[str], TopicConfig | None],
        limits: HalfLimits,
        *,
        recent: RecentHalves,
        is_draining: Callable[[], bool],
        service_error: Callable[[Exception], ServiceError],
    ) -> None:
        self._log = log
        self._recent = recent
        self._table = table
        self._find_topic = find_topic
        self._limits = limits
        self._is_draining = is_draining
        self._service_error = service_error

    def store_rows(self, rows: Rows, born_host: Host) -> list[Outcome]:
        """Store half messages, each a row of one valid record, without waiting for the promise.

        Args:
            rows: The rows.
            born_host: The producer's address as the broker sees it.

        Returns:
            Their outcomes; of neighbours that are stored together, one. The error of a refused one
                is SERVICE_DRAINING, TRANSACTION_DECIDED if it has an outcome already,
                TRANSACTION_FOREIGN, SERVICE_BUSY if too many wait for theirs, TOO_FEW_IN_SYNC for
                its demand, MESSAGE_ILLEGAL for a property of the system, or the errors of an
                ordinary send.

        Raises:
            StorePoisoned: The disk failed; some may be stored.
        """
        open_block = _OpenBlock(
            self._log,
            self._table,
            self._recent,
            born_host,
            bytes_max=self._limits.call_bytes_max,
            service_error=self._service_error,
        )
        outcomes = open_block.outcomes
        for position, request in enumerate(_requests_of(rows)):
            try:
                if isinstance(request, ServiceError):
                    raise request
                self._take(open_block, position, request)
            except ServiceError as error:
                outcomes[position] = Outcome(error=error)
        open_block.append()
        return [outcomes[position] for position in sorted(outcomes)]

    def _take(self, open_block: _OpenBlock, position: int, request: HalfRequest) -> None:
        """Add a half message to the block, or find it stored."""
        if self._is_draining():
            raise broker_draining()
        topic, group = request.topic, request.producer_group
        if request.unique_id in open_block.ids:
            open_block.append()  # The request has it twice: the second is a repeat of the first.
        stored = self._stored(request)
        if stored is not None:
            open_block.outcomes[position] = Outcome(_place(stored), duplicate=True, resized=True)
            return
        if group != topic:  # Behind a gateway, they are the same.
            check_user_group(group)
        config = self._find_topic(topic)
        check_place(topic, request.queue_id, config, TopicMessageType.TRANSACTION)
        if request.demand is not None:
            self._log.promises.check(request.demand)
        self._check_room(topic, open_block)
        open_block.add(position, request)

    def _check_room(self, topic: str, open_block: _OpenBlock) -> None:
        """Refuse a half message more than there may be, or three quarters of them in one topic.

        Who may send to one topic, and ends nothing, would else keep all others from transactions.

        Raises:
            ServiceError: SERVICE_BUSY.
        """
        limit = self._limits.pending_count_max
        of_topic = max(OF_TOPIC_MIN, limit * 3 // 4)
        if self._table.pending_count + len(open_block.ids) >= limit:
            raise half_messages_exhausted(limit)
        if self._table.pending_count_of(topic) + open_block.count_of[topic] >= of_topic:
            raise half_messages_exhausted(of_topic, topic)

    def _stored(self, request: HalfRequest) -> HalfMessage | None:
        """The half message if it is stored and waits for its outcome.

        Raises:
            ServiceError: TRANSACTION_DECIDED, TRANSACTION_FOREIGN.
        """
        unique_id = request.unique_id
        decision = self._table.decision(unique_id)
        if decision is not None:
            raise transaction_decided(unique_id, decision.outcome)
        known = self._table.find(unique_id)
        if known is not None and known.topic != request.topic:
            raise transaction_foreign(unique_id, "topic", request.topic)
        if known is not None and known.producer_group != request.producer_group:
            raise transaction_foreign(unique_id, "producer_group", request.producer_group)
        return known


_Placed: TypeAlias = tuple[int, HalfRequest, RecordCopy]
"""A half message with its place in the request, and the record in which it will wait."""


class _OpenBlock:
    """The half messages of a request that are appended next, as one block."""

    def __init__(
        self,
        log: BrokerLog,
        table: TransactionTable,
        recent: RecentHalves,
        born_host: Host,
        *,
        bytes_max: int,
        service_error: Callable[[Exception], ServiceError],
    ) -> None:
        self._log = log
        self._table = table
        self._recent = recent
        # An IPv4-mapped IPv6 address is stored as IPv4.
        self._born_host: Host = ip_text(packed_host(born_host)), born_host[1]
        self._bytes_max = bytes_max
        self._service_error = service_error
        self._size_bytes = 0
        self._placed: list[_Placed] = []
        self.ids: set[str] = set()
        """Unique ids of the half messages in the open block."""
        self.count_of: Counter[str] = Counter()
        """How many of them are for each topic."""
        self.outcomes: dict[int, Outcome] = {}
        """Outcomes so far, by their places in the request; of neighbours, by that of the first."""

    def add(self, position: int, request: HalfRequest) -> None:
        """Add a half message to the open block, or to the next one.

        Raises:
            ServiceError: MESSAGE_ILLEGAL.
        """
        record = request.record(self._born_host)
        size_bytes = copied_bytes(HALF_TOPIC, record)
        if size_bytes > self._bytes_max:
            rule = f"record of {size_bytes} bytes; a block takes {self._bytes_max}"
            raise message_illegal(position, rule)
        if self._size_bytes + size_bytes > self._bytes_max:
            self.append()
        self._size_bytes += size_bytes
        self._placed.append((position, request, record))
        self.ids.add(request.unique_id)
        self.count_of[request.topic] += 1

    def append(self) -> None:
        """Append the block without waiting, so that memory and log agree.

        Raises:
            StorePoisoned: The disk failed.
        """
        placed, self._placed, self._size_bytes = self._placed, [], 0
        self.ids.clear()
        self.count_of.clear()
        if placed:
            self._append(placed)

    def _append(self, placed: Sequence[_Placed]) -> None:
        try:
            block = copied_block(HALF_TOPIC, [record for *_, record in placed])
            appended = self._log.append(block, born_host=self._born_host)
        except StorePoisoned:
            raise
        except (StorageError, ServiceError) as error:
            if len(placed) == 1:
                self.outcomes[placed[0][0]] = Outcome(error=self._service_error(error))
                return
            # Appended one by one, only the bad message fails.
            for each in placed:
                self._append([each])
            return
        first, stamp = appended.first_queue_offset, appended.store_timestamp_ms
        starts = appended.commit_log_offsets.tolist()
        for row, (start, (_, request, record)) in enumerate(zip(starts, placed, strict=True)):
            keys = request.properties.get(PropertyName.KEYS)
            half = HalfMessage(
                transaction_id=request.unique_id,
                topic=request.topic,
                queue_id=request.queue_id,
                producer_group=request.producer_group,
                queue_offset=first + row,
                commit_log_offset=start,
                store_timestamp_ms=stamp,
                keys=split_keys(keys) if keys else (),
            )
            self._table.stored(half_message_with(request.properties, half))
            self._recent.keep(half, record)
        edges = [*starts, appended.next_commit_log_offset]
        charge_stored([request.topic for _, request, _ in placed], edges)
        for begin, end in _neighbours([position for position, *_ in placed]):
            places = Appended(
                range(first + begin, first + end),
                (1,) * (end - begin),
                edges[begin : end + 1],
                stamp,
                starts[begin:end],
            )
            self.outcomes[placed[begin][0]] = Outcome(places, resized=True)


def _neighbours(positions: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Begin and end of the ascending positions that lie side by side: all, or each alone."""
    count = len(positions)
    if positions[-1] - positions[0] == count - 1:
        return ((0, count),)
    return zip(range(count), range(1, count + 1), strict=True)


def _place(half: HalfMessage) -> Appended:
    """Where a half message waits that was stored before.

    The promise for a place in a record is that for the whole record.
    """
    begin = half.commit_log_offset
    return Appended.of_row(half.queue_offset, (begin, begin + 1), half.store_timestamp_ms, (begin,))
