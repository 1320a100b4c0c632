"""``OffsetService``: the consumer offsets of groups."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator
from itertools import starmap
from typing import Any, Final

from grpc import aio

from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1.offset_service_pb2_grpc import OffsetServiceServicer
from ariane_broker.clients.deaths.client_work import GroupQueue
from ariane_broker.clients.room import ClientsRoom
from ariane_broker.consuming.offset_changes import OffsetToStore, StoreRule
from ariane_broker.consuming.offset_queries import Backlog, KnownOffset
from ariane_broker.errors.public_errors import group_in_use
from ariane_broker.groups.consumer_offsets import GroupOffset
from ariane_broker.groups.stream_queries import StreamQueries, StreamQuery, checked_engine
from ariane_broker.log.log_epochs import LogEpochs
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.standing import Standings
from ariane_broker.rpc.peer_address import peer_text
from ariane_broker.rpc.translation.wire_time import milliseconds_of, time_of
from ariane_servicekit import PageRequest, field_invalid, in_turns
from ariane_servicekit.rpc.error_status import status_of


class OffsetServicer(OffsetServiceServicer):
    """Translates queries and changes of consumer offsets."""

    def __init__(
        self,
        clients: ClientsRoom,
        epochs: LogEpochs,
        standings: Standings,
        *,
        expired_counts: Counter[tuple[str, QueueKey]],
        stream_queries: StreamQueries,
    ) -> None:
        self._changes = clients.offset_changes
        self._queries = clients.offset_queries
        self._deletion = clients.offset_deletion
        self._members = clients.members
        self._clients = clients.table
        self._unread = clients.unread
        self._epochs = epochs
        self._standings = standings
        self._expired_counts = expired_counts
        self._stream_queries = stream_queries

    async def GetConsumerOffsets(
        self, request: offset_pb.GetConsumerOffsetsRequest, context: aio.ServicerContext[Any, Any]
    ) -> offset_pb.GetConsumerOffsetsResponse:
        """Read offsets; unknown ones are left out."""
        group = request.consumer_group
        queues = await in_turns(QueueKey(queue.topic, queue.queue_id) for queue in request.queues)
        await self._changes.begun(group)
        known = self._queries.read(group, queues)
        offsets = await in_turns(self._known_offset(group, entry) for entry in known)
        await self._changes.begun(group)  # Those that came in between.
        return offset_pb.GetConsumerOffsetsResponse(offsets=offsets)

    def _known_offset(
        self, consumer_group: str, known: KnownOffset
    ) -> offset_pb.QueueConsumerOffset:
        place = GroupQueue(consumer_group, known.queue)
        suspicion = self._members.suspicion(place)
        return offset_pb.QueueConsumerOffset(
            topic=known.queue.topic,
            queue_id=known.queue.queue_id,
            queue_offset=known.consumer_offset,
            reset_epoch=known.reset_epoch,
            watched_end=suspicion.watched_end,
            alone_end=suspicion.alone_end,
            in_doubt=self._members.in_doubt(place),
            log_epoch=self._epochs.announced,
        )

    async def StoreConsumerOffsets(
        self, request: offset_pb.StoreConsumerOffsetsRequest, context: aio.ServicerContext[Any, Any]
    ) -> offset_pb.StoreConsumerOffsetsResponse:
        """Store offsets."""
        engine = checked_engine(request.stream_engine)
        if engine and (members := self._clients.members(request.consumer_group)):
            # They would skip what only the query has read.
            raise group_in_use(request.consumer_group, len(members))
        wanted = await in_turns(starmap(_offset_to_store, enumerate(request.offsets)))
        refused = await self._changes.store(
            request.consumer_group,
            wanted,
            client_id=request.client_id,
            durable=request.durable,
        )
        if engine:
            self._stream_queries.stored(request.consumer_group, engine, peer_text(context.peer()))
        await in_turns(self._note_offsets(request, {queue for queue, _ in refused}))
        return offset_pb.StoreConsumerOffsetsResponse(
            refused=[
                offset_pb.RefusedOffset(
                    topic=queue.topic, queue_id=queue.queue_id, error=status_of(error)
                )
                for queue, error in refused
            ]
        )

    def _note_offsets(
        self, request: offset_pb.StoreConsumerOffsetsRequest, refused: Container[QueueKey]
    ) -> Iterator[None]:
        """Note the work that a member reports, with the offsets that were stored."""
        for stored in request.offsets:
            yield
            queue = QueueKey(stored.topic, stored.queue_id)
            if queue not in refused:
                self._members.note_offset(
                    GroupQueue(request.consumer_group, queue),
                    request.client_id,
                    stored.queue_offset,
                    stored.in_work_end if stored.HasField("in_work_end") else None,
                    alone=stored.alone,
                )

    async def ResetConsumerOffsets(
        self, request: offset_pb.ResetConsumerOffsetsRequest, context: aio.ServicerContext[Any, Any]
    ) -> offset_pb.ResetConsumerOffsetsResponse:
        """Reset offsets."""
        places, member_count = await self._changes.reset(
            request.consumer_group,
            request.topic,
            self._only_back(request) if request.only_back else self._target(request),
            named_queues=list(request.table.queue_offsets),
            validate_only=request.validate_only,
        )
        return offset_pb.ResetConsumerOffsetsResponse(
            offsets=await in_turns(map(_offset_message, places)), member_count=member_count
        )

    async def CloneConsumerOffsets(
        self, request: offset_pb.CloneConsumerOffsetsRequest, context: aio.ServicerContext[Any, Any]
    ) -> offset_pb.CloneConsumerOffsetsResponse:
        """Copy offsets to another group."""
        places, member_count = await self._changes.clone(
            request.consumer_group, request.target_consumer_group, request.topic
        )
        return offset_pb.CloneConsumerOffsetsResponse(
            offsets=await in_turns(map(_offset_message, places)), member_count=member_count
        )

    async def DeleteConsumerOffsets(
        self,
        request: offset_pb.DeleteConsumerOffsetsRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> offset_pb.DeleteConsumerOffsetsResponse:
        """Delete offsets."""
        places = await self._deletion.delete(
            request.consumer_group, request.topic, validate_only=request.validate_only
        )
        return offset_pb.DeleteConsumerOffsetsResponse(
            offsets=await in_turns(map(_offset_message, places))
        )

    async def ListConsumerLags(
        self, request: offset_pb.ListConsumerLagsRequest, context: aio.ServicerContext[Any, Any]
    ) -> offset_pb.ListConsumerLagsResponse:
        """List backlogs."""
        wanted = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"lags:{request.consumer_group}:{request.topic}",
            kinds=(str, str, int),
        )
        unread = await in_turns(self._unread.walk())
        read = self._queries.places(request.consumer_group, request.topic)
        page = await wanted.page_in_turns(
            self._unread.with_places(read, unread),
            lambda place: (place.consumer_group, *place.queue),
        )
        backlogs = await self._queries.backlogs(page.entries)
        lags = await in_turns(map(self._lag, backlogs))
        return offset_pb.ListConsumerLagsResponse(lags=lags, next_page_token=page.next_page_token)

    def _lag(self, backlog: Backlog) -> offset_pb.ConsumerLag:
        place = backlog.place
        suspicion = self._members.suspicion(GroupQueue(place.consumer_group, place.queue))
        suspected_end = suspicion.alone_end or suspicion.watched_end
        # If members receive, messages behind the offset may be settled.
        standing = self._standings.of_queue(place.consumer_group, place.queue)
        count = backlog.message_count if standing is None else standing.unsettled_count
        oldest_ms = backlog.oldest_store_timestamp_ms if count else None
        return offset_pb.ConsumerLag(
            consumer_group=place.consumer_group,
            topic=place.queue.topic,
            queue_id=place.queue.queue_id,
            consumer_offset=place.consumer_offset,
            max_queue_offset=backlog.max_queue_offset,
            message_count=count,
            oldest_store_time=None if oldest_ms is None else time_of(oldest_ms),
            suspected_count=max(0, suspected_end - place.consumer_offset),
            death_count=suspicion.deaths_of(place.consumer_offset),
            unread=self._unread.is_unread(place.queue),
            in_flight_count=0 if standing is None else standing.in_flight_count,
            delayed_count=0 if standing is None else standing.delayed_count,
            receiving=standing is not None,
            expired_count=self._expired_counts[place.consumer_group, place.queue],
            stream_query=_stream_query(self._stream_queries.find(place.consumer_group)),
        )

    def _only_back(
        self, request: offset_pb.ResetConsumerOffsetsRequest
    ) -> Callable[[QueueKey], int | None]:
        target, group = self._target(request), request.consumer_group

        def back(queue: QueueKey) -> int | None:
            wanted, known = target(queue), self._queries.known(group, queue)
            skips = wanted is not None and known is not None and wanted >= known
            return None if skips else wanted

        return back

    def _target(
        self, request: offset_pb.ResetConsumerOffsetsRequest
    ) -> Callable[[QueueKey], int | None]:
        target = request.WhichOneof("target")
        if target == "earliest":
            return self._queries.earliest if request.earliest else self._queries.latest
        if target == "time":
            # Store times are cut to whole milliseconds, so this one is too: no message that was
            # stored after it is skipped.
            timestamp_ms = milliseconds_of(request.time, "time")
            return lambda queue: self._queries.at_time(queue, timestamp_ms)
        if target == "table":
            table = dict(request.table.queue_offsets)
            if not table or min(table) < 0:
                raise field_invalid("table", "must hold queues of 0 or more")
            return lambda queue: table.get(queue.queue_id)
        raise field_invalid("target", "must be set")


_RULES: Final = {
    offset_pb.STORE_RULE_UNSPECIFIED: StoreRule.RAISE,
    offset_pb.STORE_RULE_BEGIN: StoreRule.BEGIN,
    offset_pb.STORE_RULE_MOVE: StoreRule.MOVE,
    offset_pb.STORE_RULE_LAST: StoreRule.LAST,
}


def _rule(rule: offset_pb.StoreRule.ValueType, field: str) -> StoreRule:
    if rule not in _RULES:
        raise field_invalid(field, "is no rule of this version", rule)
    return _RULES[rule]


def _offset_to_store(position: int, given: offset_pb.QueueConsumerOffset) -> OffsetToStore:
    """An offset of a request.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if not given.HasField("queue_offset"):
        raise field_invalid(f"offsets[{position}].queue_offset", "must be set")
    return OffsetToStore(
        QueueKey(given.topic, given.queue_id),
        given.queue_offset,
        given.lock_epoch if given.HasField("lock_epoch") else None,
        given.reset_epoch if given.HasField("reset_epoch") else None,
        given.log_epoch,
        _rule(given.rule, f"offsets[{position}].rule"),
    )


def _stream_query(query: StreamQuery | None) -> offset_pb.StreamQuery | None:
    if query is None:
        return None
    return offset_pb.StreamQuery(
        engine=query.engine,
        address=query.address,
        last_store_time=time_of(query.last_store_ms),
    )


def _offset_message(place: GroupOffset) -> offset_pb.QueueConsumerOffset:
    return offset_pb.QueueConsumerOffset(
        topic=place.queue.topic,
        queue_id=place.queue.queue_id,
        queue_offset=place.consumer_offset,
    )
