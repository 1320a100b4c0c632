"""``MessageService``: finding messages in the whole cluster, and sending one."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from grpc import aio

from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane.admin.v1.message_service_pb2_grpc import MessageServiceServicer
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.common.v1.message_pb2 import AcknowledgedLevel, Message, StoredPosition
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.cluster_doors import CALL_SECONDS_MAX, changed_at
from ariane_admin.messages.message_traces import KINDS, LifeStep
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_admin.servicers.message.message_search import (
    PLACE_KINDS,
    TERM_KINDS,
    MessageSearch,
    plain,
)
from ariane_admin.servicers.times import moment_in
from ariane_record.names import TRACE_TOPIC
from ariane_sdk import LiveBroker, MessageQueue, QueueLag
from ariane_sdk import Message as OutgoingMessage
from ariane_servicekit import PageRequest, field_invalid
from ariane_servicekit.security.gate.asking import user_name

_Context = aio.ServicerContext[Any, Any]

BODY_BYTES_DEFAULT: Final = 1024
GROUPS_MAX: Final = 100
CONSUME_SECONDS_DEFAULT: Final = 10
CONSUME_SECONDS_MAX: Final = 60

SENT_BY: Final = "ariane.sent_by"
"""Property of messages that operators sent: the user, or "admin" where nobody is asked."""


class MessageServicer(MessageServiceServicer):
    """Asks the brokers that may have a message."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._doors = cluster.doors
        self._search = MessageSearch(cluster)

    async def GetMessage(
        self, request: message_pb.GetMessageRequest, context: _Context
    ) -> message_pb.GetMessageResponse:
        """Read the message with an id, and the groups that have consumed it."""
        answers = await self._cluster.answers()
        found = await self._search.one(answers, request.message_id, request.topic)
        progresses = await self._progresses(answers, found)
        return message_pb.GetMessageResponse(
            message=plain(found),
            progresses=progresses,
            silent_brokers=self._cluster.silent(answers),
        )

    async def QueryMessages(
        self, request: message_pb.QueryMessagesRequest, context: _Context
    ) -> message_pb.QueryMessagesResponse:
        """Find messages by key, by unique id or by time, newest first."""
        answers = await self._cluster.carriers(request.topic)
        term = request.WhichOneof("term")
        page = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"messages:{request.topic}:{request.key}:{request.unique_id}",
            kinds=TERM_KINDS if term else PLACE_KINDS,
        )
        find = self._search.found_by_term if term else self._search.latest
        bytes_max = request.body_bytes_max or BODY_BYTES_DEFAULT
        taken = page.page_of(await find(answers, request, page, bytes_max), lambda one: one.key)
        return message_pb.QueryMessagesResponse(
            messages=(one.message for one in taken.entries),
            truncations=(one.cut for one in taken.entries),
            next_page_token=taken.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )

    async def ListMessageTraces(
        self, request: message_pb.ListMessageTracesRequest, context: _Context
    ) -> message_pb.ListMessageTracesResponse:
        """List the trace of one message, oldest step first."""
        if not request.unique_id:
            raise field_invalid("unique_id", "is required")
        page = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"traces:{request.topic}:{request.unique_id}",
            kinds=(int,),
        )
        answers = await self._cluster.answers()
        steps = await self._search.life(answers, request.unique_id)
        places = [
            (place, step)
            for place, step in enumerate(steps)
            if not request.topic or step.recorded.topic in {"", request.topic}
        ]
        if page.last is not None:
            places = [each for each in places if each[0] > int(page.last[0])]
        taken = page.page_of(places, lambda each: (each[0],))
        return message_pb.ListMessageTracesResponse(
            traces=(trace_of(step) for _, step in taken.entries),
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
                properties={**given.properties, SENT_BY: user_name() or "admin"},
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
        """Let a member of a group consume one message beside its own work."""
        for field in ("consumer_group", "client_id"):
            if not getattr(request, field):
                raise field_invalid(field, "is required")
        answers = await self._cluster.answers()
        found = await self._search.one(answers, request.message_id, request.topic)
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
        record = await changed_at(
            broker,
            self._doors.clients(broker.address).ConsumeMessage,
            asked,
            seconds_max=wait_s + CALL_SECONDS_MAX,
        )
        return message_pb.ConsumeMessageResponse(answer=record.answer, position=position)

    async def _queue_on(self, topic: str, broker_name: str) -> MessageQueue | None:
        if not broker_name:
            return None
        route = await self._doors.client.route(topic)
        queues = [q for q in route.write_queues if q.broker_name == broker_name]
        if not queues:
            raise field_invalid("broker_name", "must carry the topic and take messages")
        return queues[0]

    async def _progresses(
        self, answers: Answers, message: Message
    ) -> list[message_pb.MessageProgress]:
        client, position = self._doors.client, message.position

        async def at(
            broker: LiveBroker,
        ) -> tuple[list[QueueLag], Mapping[str, Collection[str]]]:
            only = [broker.broker_name]
            lags = await client.consumer_lag(topic=message.topic, broker_names=only)
            return lags, await client.members_of_groups(broker_names=only)

        standings: dict[str, message_pb.MessageStanding.ValueType] = {}
        record = await answers.ask(at)
        living = {group for _, members in record for group, ids in members.items() if ids}
        for lag in (lag for lags, _ in record for lag in lags):
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


def trace_of(step: LifeStep) -> message_pb.MessageTrace:
    """A step as a message of the contract."""
    record = step.recorded
    trace = message_pb.MessageTrace(
        kind=KINDS[record.kind],
        group=record.group,
        client_id=record.client_id,
        attempts=record.attempts,
        successful=step.successful,
        trace_id=step.trace_id,
        user=step.user,
        topic=record.topic or TRACE_TOPIC,
    )
    trace.begin_time.FromMilliseconds(record.timestamp_ms)
    if step.cost_ms is not None:
        trace.duration.FromMilliseconds(step.cost_ms)
    return trace
