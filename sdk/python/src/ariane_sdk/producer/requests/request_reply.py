"""Requests and replies: the properties of their messages, and the requester's wait.

A request is an ordinary message with four more properties, those of RocketMQ::

    CORRELATION_ID     which request a reply belongs to
    REPLY_TO_CLIENT    which client waits for it
    TTL                for how long, milliseconds
    CLUSTER            the cluster whose reply topic the requester reads

A reply goes to the topic ``<cluster>_REPLY_TOPIC`` with the same properties and ``MSG_TYPE=reply``.
Its tag is the id of the requester, so that the broker gives each requester its own replies only.

The inbox of a requester belongs to no consumer group and stores no offsets: one pull is held for
each broker that has the reply topic. With the first request it begins at the end of each queue,
before the request is sent, so that it misses no reply. Replies whose requester has stopped waiting
are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

import numpy as np

from ariane.broker.v1.pull_service_pb2 import (
    PullPosition,
    PullRecordsRequest,
    QueueBounds,
    QueueRecords,
)
from ariane.broker.v1.topic_service_pb2 import CreateTopicRequest, Topic
from ariane_record.layout import ByteBuffer
from ariane_record.names import REPLY_GROUP, reply_topic
from ariane_record.single.view import iter_messages
from ariane_sdk.checks.delay import is_delayed
from ariane_sdk.checks.message_types import check_types
from ariane_sdk.checks.property_names import check_property_names
from ariane_sdk.checks.tag_filter import TagFilter
from ariane_sdk.client.broker_calls import answer_of, peer_name, read_address
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.errors import (
    CallError,
    DeadlinePassed,
    IllegalArgument,
    MessageIllegal,
    RequestTimeout,
    RouteNotFound,
    SendError,
    ServiceUnavailable,
    TopicExists,
)
from ariane_sdk.message import Message, ReceivedMessage, SendResult, SystemMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.backoff import Backoff
from ariane_sdk.net.error_copy import error_copy
from ariane_sdk.net.status import error_from_status
from ariane_sdk.net.timestamps import duration_from
from ariane_sdk.producer.sending.unsettled import ProducerParts
from ariane_sdk.routing.failover import REPEAT_S_MAX, REPEAT_S_MIN
from ariane_sdk.routing.route import PRIMARY_ID, BrokerRoute, Route
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import loop_for_ever, start_task

HOLD_S: Final = 5.0
"""How long a pull is held; a broker that went silent is noticed after it."""
HOLD_GRACE_S: Final = 3.0
RETRY_S: Final = 0.2
"""How long to wait after a pull that failed."""

CORRELATION_ID: Final = "CORRELATION_ID"

_BEGIN: Final = QueuePosition(0)


REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL_MS: Final = "TTL"
CLUSTER: Final = "CLUSTER"
MESSAGE_TYPE: Final = "MSG_TYPE"
REPLY_TYPE: Final = "reply"

Send = Callable[[Message, float], Awaitable[SendResult]]
"""Sends a message within some seconds."""


class Requests:
    """Sends the requests of one producer, and gives each reply to the request that waits for it."""

    def __init__(self, parts: ProducerParts, client_id: str) -> None:
        """Listen to nothing yet; replies bear the requester's id ``client_id`` as their tag."""
        self._client_id = client_id
        self._session = parts.session
        self._unique_ids = parts.unique_ids
        self._timeout_s = parts.settings.call_timeout_s
        self._clock = parts.clock
        self._filter = TagFilter(frozenset({client_id}))
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}
        self._openings: dict[str, asyncio.Task[None]] = {}
        self._readers: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._session.routes.on_change(self._follow)

    async def request(self, message: Message, send: Send, timeout_s: float) -> ReceivedMessage:
        """Send a request, and wait for the first reply.

        Raises:
            MessageIllegal: It is to be delivered later, or breaks another rule.
            RequestTimeout: No reply came in time.
            SendError: The request was not acknowledged.
            ArianeError: As ``send`` of the producer.
        """
        check_types(message)
        check_property_names(message)
        if is_delayed(message):
            raise MessageIllegal("a request is delivered at once, as its sender waits: no delay")
        deadline_s = self._clock.monotonic_s() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                route = await self._session.routes.get_for_send(message.topic)
                cluster_name = route.brokers[0].cluster_name
                await self.listen(cluster_name, reply_topic(cluster_name))
        except CallError as error:
            failure = error_copy(error, SendError)
            failure.outcome_unknown = False  # Nothing was sent.
            raise failure from error
        except TimeoutError:
            raise RequestTimeout(
                f"not ready to get a reply within {timeout_s:g} s; the request was not sent",
                retriable=True,
            ) from None
        correlation_id = self._unique_ids.next_id()
        own = {
            CORRELATION_ID: correlation_id,
            REPLY_TO_CLIENT: self._client_id,
            TTL_MS: str(int(timeout_s * 1000)),
            CLUSTER: cluster_name,
        }
        reply: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = reply
        try:
            await send(_with_properties(message, own), deadline_s - self._clock.monotonic_s())
            async with asyncio.timeout(deadline_s - self._clock.monotonic_s()):
                return await reply
        except TimeoutError:
            raise RequestTimeout(
                f"no reply within {timeout_s:g} s", outcome_unknown=True, retriable=True
            ) from None
        finally:
            del self._waiting[correlation_id]  # A late reply is dropped.

    async def listen(self, cluster_name: str, topic: str) -> None:
        """Receive what is sent to a reply topic from now on; creates the topic if it is missing.

        Raises:
            CallError: The topic cannot be created, or no name server answers.
        """
        opening = self._openings.get(topic)
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception())):
            opening = asyncio.create_task(self._open(cluster_name, topic))
            self._openings[topic] = opening
        await asyncio.shield(opening)

    async def close(self) -> None:
        """Stop listening; requests that still wait get an error."""
        tasks = [*self._openings.values(), *self._readers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(CallError("the producer was closed", outcome_unknown=True))

    async def _open(self, cluster_name: str, topic: str) -> None:
        routes = self._session.routes
        try:
            route = await routes.get(topic)
        except RouteNotFound:
            await self._create(cluster_name, topic)
            route = await self._new_route(topic)
        await asyncio.gather(*(self._begin(topic, broker) for broker in route.brokers))

    async def _new_route(self, topic: str) -> Route:
        """Wait for the route of a topic that was made: name servers may hear of it later."""
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        backoff = Backoff(REPEAT_S_MIN, REPEAT_S_MAX)
        while True:
            try:
                return await self._session.routes.refresh(topic)
            except RouteNotFound:
                if self._clock.monotonic_s() >= deadline_s:
                    raise
                await self._clock.sleep(backoff.next_s())

    async def _create(self, cluster_name: str, topic: str) -> None:
        wanted = Topic(topic=topic, read_queue_count=1, write_queue_count=1)
        brokers = await self._session.name_servers.list_brokers(cluster_name)
        topics = self._session.connections.topics
        for broker in brokers:
            if broker.identity.broker_id != PRIMARY_ID:
                continue
            call = topics(broker.identity.address).CreateTopic(
                CreateTopicRequest(topic=wanted), timeout=self._timeout_s
            )
            with suppress(TopicExists):
                await answer_of(call, f"broker {broker.identity.broker_name}")

    async def _begin(self, topic: str, broker: BrokerRoute) -> None:
        """Read the queues of one broker from their ends."""
        try:
            bounds = await self._session.failover.ask(
                lambda: self._bounds(topic, broker.broker_name),
                [topic],
                patience_s=self._timeout_s,
                reads=True,
            )
            ends = {
                queue.queue_id: QueuePosition(queue_bounds.max_queue_offset, queue_bounds.log_epoch)
                for queue, queue_bounds in bounds
            }
        except (ServiceUnavailable, DeadlinePassed):
            ends = {}  # A broker that comes back is read from its beginning: it may hold replies.
        self._start_reader(topic, broker.broker_name, ends)

    async def _bounds(self, topic: str, broker_name: str) -> list[tuple[MessageQueue, QueueBounds]]:
        return await self._session.calls.queue_bounds(await self._broker(topic, broker_name), topic)

    async def _broker(self, topic: str, broker_name: str) -> BrokerRoute:
        broker = (await self._session.routes.get(topic)).broker(broker_name)
        if broker is None:
            raise ServiceUnavailable(f"broker {broker_name} does not carry {topic!r} now")
        return broker

    def _follow(self, route: Route) -> None:
        """Read brokers that took up the topic later, from their beginning: all they have is new."""
        if route.topic in self._openings and self._openings[route.topic].done():
            for broker in route.brokers:
                self._start_reader(route.topic, broker.broker_name, {})

    def _start_reader(
        self, topic: str, broker_name: str, offsets: dict[int, QueuePosition]
    ) -> None:
        if (topic, broker_name) in self._readers:
            return
        hold_s = HOLD_S

        async def pull_once() -> None:
            nonlocal hold_s
            try:
                await self._pull(topic, broker_name, offsets, hold_s)
                hold_s = HOLD_S
            except CallError as error:
                hold_s = 0.0  # Whether it is still away is known sooner.
                logger.info("replies from broker %s: %s", broker_name, error)
                await self._clock.sleep(max(RETRY_S, error.retry_after_s))
                await self._session.routes.refresh(topic)

        reader = start_task(loop_for_ever(pull_once, self._clock), f"replies-{broker_name}")
        self._readers[topic, broker_name] = reader

    async def _pull(
        self, topic: str, broker_name: str, offsets: dict[int, QueuePosition], hold_s: float
    ) -> None:
        """Hold one pull for all queues of the topic on a broker."""
        broker = await self._broker(topic, broker_name)
        request = PullRecordsRequest(
            consumer_group=REPLY_GROUP,
            client_id=self._client_id,
            positions=[
                PullPosition(
                    topic=topic, queue_id=queue_id, **offsets.get(queue_id, _BEGIN)._asdict()
                )
                for queue_id in range(broker.read_queue_count)
            ],
            subscriptions=[self._filter.to_wire(topic)],
            hold_duration=duration_from(hold_s),
        )
        call = self._session.connections.pull(read_address(broker)).PullRecords(
            request, timeout=hold_s + HOLD_GRACE_S
        )
        response = await answer_of(call, peer_name(broker))
        for records in response.queues:
            self._take_in(MessageQueue(topic, broker_name, records.queue_id), records, offsets)

    def _take_in(
        self, queue: MessageQueue, records: QueueRecords, offsets: dict[int, QueuePosition]
    ) -> None:
        if records.HasField("error"):
            error = error_from_status(records.error, peer=f"broker {queue.broker_name}")
            if error.reason == "QUEUE_CUT":
                next_offset = int(error.metadata["end"])
            elif error.reason == "QUEUE_OFFSET_OUT_OF_RANGE":
                asked = offsets.get(queue.queue_id, _BEGIN).queue_offset
                oldest, end = records.min_queue_offset, records.max_queue_offset
                next_offset = oldest if asked < oldest else end
            else:
                raise error
            offsets[queue.queue_id] = QueuePosition(next_offset, records.log_epoch)
            return
        offsets[queue.queue_id] = QueuePosition(records.next_queue_offset, records.log_epoch)
        if records.record_sizes:
            sizes = np.frombuffer(records.record_sizes, "<i4")
            self._hand_out(
                ReceivedMessage(view, queue) for view in iter_messages(records.records, sizes)
            )

    def _hand_out(self, messages: Iterable[ReceivedMessage]) -> None:
        for message in messages:
            reply = self._waiting.get(message.properties.get(CORRELATION_ID, ""))
            if reply is not None and not reply.done():
                reply.set_result(message)


def reply_to(
    request: ReceivedMessage, body: ByteBuffer, properties: Mapping[str, str]
) -> SystemMessage:
    """Build the message that answers a request.

    Raises:
        IllegalArgument: The message is no request.
        MessageIllegal: The pairs include properties of the system.
    """
    asked = request.properties
    missing = {CORRELATION_ID, REPLY_TO_CLIENT, CLUSTER} - asked.keys()
    if missing:
        raise IllegalArgument(
            f"{request!r} is no request: it lacks {', '.join(sorted(missing))}",
            reason="NO_REQUEST",
        )
    topic = reply_topic(asked[CLUSTER])
    check_property_names(Message(topic, b"", properties=properties))
    own = {
        MESSAGE_TYPE: REPLY_TYPE,
        CORRELATION_ID: asked[CORRELATION_ID],
        REPLY_TO_CLIENT: asked[REPLY_TO_CLIENT],
        TTL_MS: asked.get(TTL_MS, "0"),
    }
    return SystemMessage(topic, body, tag=asked[REPLY_TO_CLIENT], properties={**properties, **own})


def _with_properties(message: Message, own: Mapping[str, str]) -> SystemMessage:
    return SystemMessage(
        message.topic,
        message.body,
        message.tag,
        message.keys,
        message.message_group,
        {**message.stored_properties, **own},
        message.flag,
        expire_after=message.expire_after,
    )
