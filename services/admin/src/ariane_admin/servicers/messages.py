"""``MessageService``: single messages, found anywhere, and one sent."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final

from grpc import aio

from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane.admin.v1.message_service_pb2_grpc import MessageServiceServicer
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.common.v1.message_pb2 import AcknowledgedLevel, Message, StoredPosition
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    answer_of,
    answer_to_question,
    broker_peer,
)
from ariane_admin.messages.message_body import body_of
from ariane_admin.messages.message_traces import KINDS, LifeStep, life_of
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_admin.servicers.message_wire import message_of, shortened
from ariane_admin.servicers.times import moment_in
from ariane_record.names import TRACE_TOPIC
from ariane_sdk import LiveBroker, MessageQueue, QueueLag, ReceivedMessage
from ariane_sdk import Message as OutgoingMessage
from ariane_sdk.errors import CallError, TopicNotFound
from ariane_servicekit import PageRequest, ServiceError, field_invalid

_Context = aio.ServicerContext[Any, Any]

BODY_BYTES_DEFAULT: Final = 1024
GROUPS_MAX: Final = 100
FOUND_BY_TERM_MAX: Final = 64
"""Messages with one key that a broker tells of."""

CONSUME_SECONDS_DEFAULT: Final = 10
CONSUME_SECONDS_MAX: Final = 60

SENT_BY: Final = "ariane.sent_by"
"""Property of messages that operators sent."""

_ABSENT: Final = frozenset({"MESSAGE_NOT_FOUND", "FIELD_INVALID"})
_POSITION_KINDS: Final = (int, str, int, int)


class MessageServicer(MessageServiceServicer):
    """Asks the brokers that may have a message."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._doors = cluster.doors

    async def GetMessage(
        self, request: message_pb.GetMessageRequest, context: _Context
    ) -> message_pb.GetMessageResponse:
        """Read the message of one id, and who has consumed it."""
        answers = await self._cluster.answers()
        found = await self._found(answers, request.message_id, request.topic)
        return message_pb.GetMessageResponse(
            message=_plain(found), progresses=await self._progresses(answers, found)
        )

    async def QueryMessages(
        self, request: message_pb.QueryMessagesRequest, context: _Context
    ) -> message_pb.QueryMessagesResponse:
        """Find messages by key, by unique id or by time, newest first."""
        answers = await self._cluster.carriers(request.topic)
        bytes_max = request.body_bytes_max or BODY_BYTES_DEFAULT
        scope = f"messages:{request.topic}:{request.key}:{request.unique_id}"
        page = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=scope,
            kinds=_POSITION_KINDS,
        )
        if request.WhichOneof("term"):
            asked = query_pb.QueryMessagesRequest(
                topic=request.topic, message_count_max=FOUND_BY_TERM_MAX
            )
            for field in ("key", "unique_id", "begin_time", "end_time"):
                if request.HasField(field):
                    value = getattr(request, field)
                    if isinstance(value, str):
                        setattr(asked, field, value)
                    else:
                        getattr(asked, field).CopyFrom(value)
            found = [_plain(each) for each in await self._by_term(answers, asked)]
            cuts = [shortened(each, bytes_max) for each in sorted(found, key=_newest)]
        else:
            cuts = await self._latest(answers, request, page, bytes_max)
        if page.last is not None:
            cuts = [each for each in cuts if _newest(each[0]) > page.last]
        taken = page.page_of(cuts, lambda each: _newest(each[0]))
        return message_pb.QueryMessagesResponse(
            messages=(message for message, _ in taken.entries),
            truncations=(cut for _, cut in taken.entries),
            next_page_token=taken.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )

    async def ListMessageTraces(
        self, request: message_pb.ListMessageTracesRequest, context: _Context
    ) -> message_pb.ListMessageTracesResponse:
        """What clients told of one message's life, oldest first."""
        if not request.unique_id:
            raise field_invalid("unique_id", "is required")
        page = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"traces:{request.unique_id}",
            kinds=(int,),
        )
        answers = await self._cluster.answers()
        asked = query_pb.QueryMessagesRequest(
            topic=TRACE_TOPIC, key=request.unique_id, message_count_max=FOUND_BY_TERM_MAX
        )
        steps = life_of(request.unique_id, await self._by_term(answers, asked))
        places = list(enumerate(steps))
        if page.last is not None:
            places = places[int(page.last[0]) + 1 :]
        taken = page.page_of(places, lambda each: (each[0],))
        return message_pb.ListMessageTracesResponse(
            traces=(_trace_of(step) for _, step in taken.entries),
            next_page_token=taken.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )

    async def SendMessage(
        self, request: message_pb.SendMessageRequest, context: _Context
    ) -> message_pb.SendMessageResponse:
        """Send one message."""
        given = request.message
        if given.topic not in {"", request.topic}:
            raise field_invalid("message.topic", "must be empty or the same as topic", given.topic)
        queue = await self._queue_on(request.topic, request.broker_name)
        producer = await self._cluster.producer()
        result = await producer.send(
            OutgoingMessage(
                request.topic,
                given.body,
                tag=given.tag,
                keys=tuple(given.keys),
                message_group=given.message_group,
                properties={**given.properties, SENT_BY: "admin"},
                flag=given.flag,
                deliver_at=moment_in(given, "delivery_time"),
                delay_level=given.delay_level,
            ),
            message_queue=queue,
        )
        at = result.message_queue
        return message_pb.SendMessageResponse(
            position=StoredPosition(
                broker_name=at.broker_name,
                queue_id=at.queue_id,
                queue_offset=result.queue_offset,
                message_id=result.message_id,
            ),
            # The number is one of the contract's.
            acknowledged_level=AcknowledgedLevel.ValueType(int(result.acknowledged_level)),
        )

    async def ConsumeMessage(
        self, request: message_pb.ConsumeMessageRequest, context: _Context
    ) -> message_pb.ConsumeMessageResponse:
        """Have a member of a group consume one message beside what it has."""
        for field in ("consumer_group", "client_id"):
            if not getattr(request, field):
                raise field_invalid(field, "is required")
        answers = await self._cluster.answers()
        found = await self._found(answers, request.message_id, request.topic)
        position = found.position
        [broker] = [b for b in answers.brokers if b.broker_name == position.broker_name]
        asked = client_pb.ConsumeMessageRequest(
            consumer_group=request.consumer_group,
            client_id=request.client_id,
            message_id=position.message_id,
        )
        wait = request.wait_duration if request.HasField("wait_duration") else None
        wait_s = CONSUME_SECONDS_DEFAULT if wait is None else wait.ToMilliseconds() / 1000
        if not 0 < wait_s <= CONSUME_SECONDS_MAX:
            rule = f"must be above 0 and at most {CONSUME_SECONDS_MAX} s"
            raise field_invalid("wait_duration", rule, f"{wait_s:g} s")
        asked.wait_duration.FromMilliseconds(round(wait_s * 1000))
        call = self._doors.clients(broker.address).ConsumeMessage(
            asked, timeout=wait_s + CALL_SECONDS_MAX
        )
        told = await answer_of(call, broker_peer(broker))
        return message_pb.ConsumeMessageResponse(answer=told.answer, position=position)

    async def _queue_on(self, topic: str, broker_name: str) -> MessageQueue | None:
        if not broker_name:
            return None
        route = await self._doors.client.route(topic)
        queues = [q for q in route.write_queues if q.broker_name == broker_name]
        if not queues:
            raise field_invalid("broker_name", "must carry the topic and take messages")
        return queues[0]

    async def _found(self, answers: Answers, message_id: str, topic: str) -> Message:
        """The message of one id, the broker's or, with its topic, the producer's.

        Raises:
            ServiceError: FIELD_INVALID or MESSAGE_NOT_FOUND.
        """
        if not message_id:
            raise field_invalid("message_id", "is required")
        found = await self._by_id(answers, message_id, topic)
        if found is None and topic:
            asked = query_pb.QueryMessagesRequest(
                topic=topic, unique_id=message_id, message_count_max=1
            )
            matching = await self._by_term(answers, asked)
            found = matching[0] if matching else None
        if found is None:
            hint = "" if topic else "; a unique id is looked for with its topic"
            raise ServiceError(
                ErrorReason.ERROR_REASON_MESSAGE_NOT_FOUND,
                f"no broker that answers has message {message_id!r}{hint}",
                {"message_id": message_id, "topic": topic},
            )
        return found

    async def _by_id(self, answers: Answers, message_id: str, topic: str) -> Message | None:
        """The message of a broker's id. Only the broker that gave it knows it; all are asked."""

        async def at(broker: LiveBroker) -> Message | None:
            asked = query_pb.GetMessageRequest(message_id=message_id, topic=topic)
            call = self._doors.queries(broker.address).GetMessage(asked, timeout=CALL_SECONDS_MAX)
            try:
                return (await answer_to_question(call, broker_peer(broker))).message
            except CallError as error:
                if error.reason in _ABSENT:
                    return None
                raise

        found = [each for each in await answers.ask(at) if each is not None]
        return found[0] if found else None

    async def _by_term(
        self, answers: Answers, asked: query_pb.QueryMessagesRequest
    ) -> list[Message]:
        async def at(broker: LiveBroker) -> Sequence[Message]:
            stub = self._doors.queries(broker.address)
            call = stub.QueryMessages(asked, timeout=CALL_SECONDS_MAX)
            try:
                return (await answer_to_question(call, broker_peer(broker))).messages
            except TopicNotFound:
                return ()

        found = [message for messages in await answers.ask(at) for message in messages]
        return sorted(found, key=_newest)

    async def _latest(
        self,
        answers: Answers,
        request: message_pb.QueryMessagesRequest,
        page: PageRequest,
        bytes_max: int,
    ) -> list[tuple[Message, bool]]:
        """The newest messages of every queue in a time, enough for a page and one."""
        begin, end = moment_in(request, "begin_time"), moment_in(request, "end_time")
        reader, wanted = self._cluster.reader, page.limit + 1
        last_ms = None if page.last is None else -int(page.last[0])

        async def at(broker: LiveBroker) -> list[tuple[Message, bool]]:
            only = [broker.broker_name]
            ranges = await reader.bounds(request.topic, broker_names=only)
            firsts = (
                {}
                if begin is None
                else await reader.offsets_at(request.topic, begin, broker_names=only)
            )
            lasts = (
                {}
                if end is None
                else await reader.offsets_at(request.topic, end, broker_names=only)
            )
            found: list[tuple[Message, bool]] = []
            for queue, (low, high) in ranges.items():
                first, last = max(low, firsts.get(queue, low)), min(high, lasts.get(queue, high))
                found += await self._tail(
                    queue, first, last, wanted=wanted, last_ms=last_ms, bytes_max=bytes_max
                )
            return found

        told = [pair for found in await answers.ask(at) for pair in found]
        return sorted(told, key=lambda pair: _newest(pair[0]))

    async def _tail(
        self,
        queue: MessageQueue,
        first: int,
        last: int,
        *,
        wanted: int,
        last_ms: int | None,
        bytes_max: int,
    ) -> list[tuple[Message, bool]]:
        """The last messages of a range that are not newer than a time: as many as wanted."""
        found: list[tuple[Message, bool]] = []
        while last > first and len(found) < wanted:
            begin = max(first, last - wanted)
            older: list[ReceivedMessage] = []
            async with aclosing(self._cluster.reader.read_range(queue, begin, last)) as chunks:  # type: ignore[type-var]
                async for columns in chunks:
                    older += [ReceivedMessage(view, queue) for view in columns.iter_messages()]
            found = [
                message_of(each, body_bytes_max=bytes_max)
                for each in older
                if last_ms is None or each.store_timestamp_ms <= last_ms
            ] + found
            last = begin
        return found

    async def _progresses(
        self, answers: Answers, message: Message
    ) -> list[message_pb.MessageProgress]:
        client, position = self._doors.client, message.position

        async def at(broker: LiveBroker) -> tuple[list[QueueLag], dict[str, set[str]]]:
            only = [broker.broker_name]
            lags = await client.consumer_lag(topic=message.topic, broker_names=only)
            return lags, await client.members_of_groups(broker_names=only)

        standings: dict[str, message_pb.MessageStanding.ValueType] = {}
        told = await answers.ask(at)
        living = {group for _, members in told for group, ids in members.items() if ids}
        for lag in (lag for lags, _ in told for lag in lags):
            queue = lag.message_queue
            if (queue.broker_name, queue.queue_id) != (position.broker_name, position.queue_id):
                continue
            if position.queue_offset < lag.consumer_offset:
                standing = message_pb.MESSAGE_STANDING_PASSED
            elif lag.group in living:
                standing = message_pb.MESSAGE_STANDING_AHEAD
            else:
                standing = message_pb.MESSAGE_STANDING_OFFLINE
            standings[lag.group] = standing
        return [
            message_pb.MessageProgress(consumer_group=group, standing=standings[group])
            for group in sorted(standings)[:GROUPS_MAX]
        ]


def _plain(message: Message) -> Message:
    """A message with its body as its producer gave it."""
    if not message.compression:
        return message
    plain = Message()
    plain.CopyFrom(message)
    plain.body = body_of(message)
    plain.ClearField("compression")
    return plain


def _newest(message: Message) -> tuple[int, str, int, int]:
    """What messages are sorted by: the newest first, those of one instant by their place."""
    position = message.position
    return (
        -position.store_time.ToMilliseconds(),
        position.broker_name,
        position.queue_id,
        -position.queue_offset,
    )


def _trace_of(step: LifeStep) -> message_pb.MessageTrace:
    told = step.told
    trace = message_pb.MessageTrace(
        kind=KINDS[told.kind],
        group=told.group,
        client_id=told.client_id,
        delivery_attempt=told.attempt,
        successful=step.successful,
        trace_id=step.trace_id,
    )
    trace.begin_time.FromMilliseconds(told.timestamp_ms)
    if step.cost_ms is not None:
        trace.duration.FromMilliseconds(step.cost_ms)
    return trace
