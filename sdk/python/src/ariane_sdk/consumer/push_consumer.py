"""The push consumer: a member of a group that hands messages to a listener."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from random import Random
from typing import Self

from ariane_record.names import retry_topic
from ariane_sdk.checks.local_filter import Local
from ariane_sdk.checks.sql_filter import Sql
from ariane_sdk.checks.tag_filter import TagFilter
from ariane_sdk.checks.uploaded_filter import Uploaded
from ariane_sdk.client.hold import BREAKER_OPEN, PAUSED
from ariane_sdk.client.listener import Listener, ListenerCalls
from ariane_sdk.client.message_trace import MessageTrace
from ariane_sdk.client.session import Session
from ariane_sdk.client.telemetry import traced_listener
from ariane_sdk.consumer.consumer_life import ConsumerLife
from ariane_sdk.consumer.delivery.breaker import BrokenDelivery
from ariane_sdk.consumer.delivery.consume_counts import ConsumeCounts
from ariane_sdk.consumer.delivery.grouped_work import GroupedQueueWork
from ariane_sdk.consumer.delivery.hand_out import DeliveryCare, DeliveryGate
from ariane_sdk.consumer.delivery.holding import Holding
from ariane_sdk.consumer.delivery.message_returns import MessageReturns, PassingOver
from ariane_sdk.consumer.delivery.ordered_work import OrderedQueueWork
from ariane_sdk.consumer.delivery.queue_work import ListenerParts, QueueWork
from ariane_sdk.consumer.delivery.requested_consumption import RequestedConsumption
from ariane_sdk.consumer.group.allocation import AllocationStrategy
from ariane_sdk.consumer.group.consumer_plan import ConsumerPlan, MessageModel
from ariane_sdk.consumer.offsets.start_position import StartPosition
from ariane_sdk.errors import IllegalArgument
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.stop_signals import stop_signals
from ariane_sdk.runtime.tasks import start_task
from ariane_sdk.security import CredentialsGiven, TlsGiven
from ariane_sdk.settings import PushSettings, checked_settings


class PushConsumer:
    """A member of a consumer group. The members share the queues of their topics.

    The listener gets messages of one queue at a time, in the order of the queue; several queues are
    processed at once. When the listener returns, the messages are done. When it raises, they go
    back to their broker and are delivered again after a growing delay, while the rest of the queue
    continues. A listener that has failed only for some of them raises ``errors.MessagesFailed``
    with those, and one that cannot work for a while ``errors.ConsumptionHeld``. After 16
    repetitions (a setting of the group), a message becomes a dead letter.

    With ``ordered=True``, the queue waits for a failed batch instead, for as long as it takes. With
    "broadcasting", failed messages are retried in this client, three times unless ``attempts_max``
    says otherwise, and then passed over. A message that kills the process is found by the deaths
    that it causes, and becomes a dead letter after a few.

    Every message is delivered at least once. Some are delivered twice when members join or leave,
    when a process ends without ``close``, or when a broker loses its last seconds.

    Example::

        async def listen(messages):
            for message in messages:
                print(message.body)

        consumer = PushConsumer(
            "127.0.0.1:9876", group="billing", subscriptions={"orders": "*"}, listener=listen
        )
        async with consumer:
            await consumer.run_until_stopped()
    """

    def __init__(
        self,
        name_servers: NameServerAddresses | None = None,
        *,
        group: str,
        subscriptions: Mapping[str, str | Sql | Uploaded | Local],
        listener: Listener,
        start: StartPosition = "latest",
        batch_size: int = 32,
        model: MessageModel = "clustering",
        ordered: bool = False,
        strategy: AllocationStrategy | None = None,
        settings: PushSettings | None = None,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Set the consumer up; ``start`` connects it.

        Args:
            name_servers: "host:port" of each, as a list or by commas; None: ARIANE_NAME_SERVERS.
            group: The consumer group. All members must have the same subscriptions.
            subscriptions: By topic, "*" for all messages, tags joined by "||", ``Sql``, ``Local``
                or ``Uploaded``.
            listener: Gets the messages. A coroutine function runs on the loop, a plain function in
                threads.
            start: Where the group begins in a topic that it has never consumed; in a queue that is
                added later, it begins with the first message.
            batch_size: The most messages for one call of the listener.
            model: "clustering": each message to one member, offsets in the brokers. "broadcasting":
                each message to every member, offsets in a file of this client.
            ordered: Whether queues are consumed strictly in order, under the broker's locks: no two
                members have one queue even for a moment, and a failed batch is repeated before
                anything behind it. With ``queue_concurrency`` above 1, so many batches of a queue
                are in work at once, each of one message group, and the order is that of each
                message group. All members must have the same value.
            strategy: How members share queues; averaging if not given.
            settings: The consumer's behaviour.
            tls: Files for TLS, or that of the authority alone; False: plain text; None: what
                ARIANE_TLS_CA, ARIANE_TLS_CERTIFICATE and ARIANE_TLS_KEY say.
            credentials: File with the key of the user, or a function that gives a token; None: what
                ARIANE_CREDENTIALS says.
            clock: For tests.
            random: For tests.

        Raises:
            IllegalArgument: An address, a name or an expression is invalid.
        """
        if not subscriptions:
            raise IllegalArgument("at least one subscription is needed")
        if not callable(listener):
            raise IllegalArgument(f"listener {listener!r:.100}: a function is expected")
        count: object = batch_size
        if not isinstance(count, int) or count < 1:
            raise IllegalArgument(f"batch_size {batch_size!r:.100}: an integer, at least 1")
        settings = checked_settings(settings, PushSettings)
        if settings.queue_concurrency < 1:
            raise IllegalArgument("queue_concurrency is at least 1")
        if ordered and model == "broadcasting":
            raise IllegalArgument("ordered=True goes with clustering only")
        self._plan = ConsumerPlan.checked(
            name_servers,
            group=group,
            subscriptions=subscriptions,
            start=start,
            model=model,
            strategy=strategy,
            settings=settings,
            tls=tls,
            credentials=credentials,
            clock=clock,
            random=random,
            ordered=ordered,
        )
        if model == "clustering":
            self._plan.filters[retry_topic(group)] = TagFilter.parse("*")
        self._settings = settings
        self._listener = listener
        self._batch_size = batch_size
        self._life = ConsumerLife(self._plan)
        self._passing_over = PassingOver(settings.attempts_max)
        self._trace: MessageTrace | None = None
        self._trace_session: Session | None = None
        self._listener_calls: ListenerCalls | None = None
        self._holding: Holding

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._plan.group

    @property
    def client_id(self) -> str:
        """The id by which brokers know this member."""
        return self._plan.client_id

    @property
    def lost_message_count(self) -> int:
        """How many messages were passed over because the broker has lost them: damaged records."""
        return self._life.lost_count

    @property
    def passed_over_count(self) -> int:
        """How many messages a broadcasting consumer has passed over, on which it failed."""
        return self._passing_over.count

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that this member owns now, without those of the group's retry topic."""
        returning = retry_topic(self.group)
        return frozenset(queue for queue in self._life.assignment if queue.topic != returning)

    async def start(self) -> None:
        """Attach to the brokers of all topics, and begin to consume.

        The consumer waits for a topic that does not exist yet. A consumer can be started only once,
        even if its start failed or was cancelled.

        Raises:
            ClientNotRunning: It was started before, or closed meanwhile.
            NameServersUnreachable: No name server answered.
            GroupRefused: Other members of the group have other subscriptions.
            OffsetFileDamaged: The offsets of a broadcasting consumer cannot be read.
            OffsetFileInUse: Another broadcasting consumer uses them.
            CallError: No broker accepts the consumer.
        """
        settings = self._settings
        listener = traced_listener(
            self._listener, settings, group=self.group, client_id=self.client_id
        )
        if settings.message_trace:
            listener = self._begin_trace().traced(listener)
        calls = ListenerCalls(listener, threads=settings.listener_threads)
        returns = MessageReturns(
            lambda: self._life.session.connections,
            group=self.group,
            broker_of=self._broker_of,
            call_timeout_s=settings.call_timeout_s,
            repeat_delay_s=settings.redelivery_delay_s_min,
            attempts_max=settings.attempts_max,
            clock=self._plan.clock,
            random=self._plan.random,
        )

        gate = DeliveryGate()
        holding = self._holding = Holding(self.group)
        counts = ConsumeCounts(self._plan.clock.monotonic_s)
        deliver = counts.around(calls.deliver)
        if settings.breaker is not None:
            deliver = BrokenDelivery(deliver, settings.breaker, open_for=self._open_breaker).deliver
        parts = ListenerParts(
            deliver=deliver,
            batch_size=self._batch_size,
            settings=settings,
            holding=holding,
            after_batch=self._store_queue if settings.store_each_batch else None,
        )

        def make_work(
            queue: MessageQueue, begin_offset: int, on_room: Callable[[], None]
        ) -> QueueWork:
            owned = self._life.owned
            care = DeliveryCare(gate, owned.caution_of(queue), owned.report)
            if self._plan.ordered:
                grouped = settings.queue_concurrency > 1
                make_ordered = GroupedQueueWork if grouped else OrderedQueueWork
                return make_ordered(
                    queue,
                    begin_offset,
                    parts,
                    on_room=on_room,
                    returns=returns,
                    care=care,
                    locks=self._life.locks,
                )
            back = returns if self._plan.model == "clustering" else self._passing_over
            return QueueWork(queue, begin_offset, parts, on_room=on_room, returns=back, care=care)

        self._life.more_facts = partial(self._facts, counts)
        if settings.consume_on_request:
            self._life.consume = RequestedConsumption(
                calls.deliver, gate, group=self.group, clock=self._plan.clock
            ).consume
        else:
            self._life.consume_refusal = "the client's setting consume_on_request is off"
        try:
            await self._life.start(make_work)
        except BaseException:
            calls.close()
            await self._end_trace()
            raise
        self._listener_calls = calls

    def pause(self, *queues: MessageQueue) -> None:
        """Stop pulling and delivering messages of these queues; without queues, of all.

        The listener finishes what it has. The consumer stays a member and keeps its queues; a queue
        that goes to another member is not paused there.

        Raises:
            ClientNotRunning: The consumer is not running.
            IllegalArgument: A queue is not assigned to this consumer.
        """
        self._life.check_running()
        for queue in queues:
            if self._life.owned.find(queue) is None:
                raise IllegalArgument(f"{queue} is not assigned to this consumer")
        for queue in queues:
            self._holding.hold(queue, PAUSED)
        if not queues:
            self._holding.hold(None, PAUSED)

    def resume(self, *queues: MessageQueue) -> None:
        """Go on with these queues; without queues, with all.

        Raises:
            ClientNotRunning: The consumer is not running.
        """
        self._life.check_running()
        for queue in queues:
            self._holding.free(queue, PAUSED)
        if not queues:
            self._holding.free_all(PAUSED)
        self._life.owned.look_again()

    def _facts(self, counts: ConsumeCounts) -> dict[str, str]:
        """What operators see beside the settings."""
        facts = dict(counts.facts())
        if self._plan.model == "broadcasting":
            facts["passed_over_messages"] = str(self.passed_over_count)
        return facts

    async def _store_queue(self, queue: MessageQueue) -> None:
        await self._life.owned.store_queue(queue)

    def _open_breaker(self, hold_s: float, cause: str) -> None:
        self._holding.hold(None, BREAKER_OPEN, seconds=hold_s, cause=cause)

    def _begin_trace(self) -> MessageTrace:
        """Trace the listener's work, on connections that outlive the consumer's last call."""
        plan = self._plan
        timeout_s = self._settings.call_timeout_s
        session = self._trace_session = Session(
            plan.addresses,
            timeout_s=timeout_s,
            clock=plan.clock,
            random=plan.random,
            access=plan.access,
        )
        session.routes.start()
        self._trace = MessageTrace(
            lambda: session,
            group=self.group,
            client_id=self.client_id,
            clock=plan.clock,
            timeout_s=timeout_s,
        )
        return self._trace

    async def _end_trace(self) -> None:
        if self._trace is not None and self._trace_session is not None:
            await self._trace.close()
            await self._trace_session.close()
            self._trace = self._trace_session = None

    def _broker_of(self, queue: MessageQueue) -> BrokerRoute:
        return self._life.owned.broker_of(queue)

    async def close(self) -> None:
        """Finish the messages in the listener, store offsets, leave the group, and disconnect."""
        await self._life.close()
        if self._listener_calls is not None:
            self._listener_calls.close()
        await self._end_trace()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run_until_stopped(self, *, handle_signals: bool = True) -> None:
        """Wait until the consumer is closed: by ``close``, or by SIGTERM or SIGINT.

        The first signal closes the consumer, and this method returns; a second signal has its usual
        effect. If the application has its own signal handlers, they stay, and the application calls
        ``close``.

        Args:
            handle_signals: Whether signals close the consumer. Only the main thread gets them.

        Raises:
            CallError: The group no longer accepts this member.
        """
        loop = asyncio.get_running_loop()
        closing: list[asyncio.Task[None]] = []

        def close() -> None:
            closing.append(start_task(self.close(), "close-consumer"))

        with (
            stop_signals(lambda: loop.call_soon_threadsafe(close))
            if handle_signals
            else nullcontext()
        ):
            await self._life.wait_stopped()
        await asyncio.gather(*closing)

    async def wait_assigned(self) -> None:
        """Wait until the queues of this member are being pulled; there may be none.

        Raises:
            CallError: The group no longer accepts this member.
        """
        await self._life.wait_assigned()

    async def store_offsets(self, *, durable: bool = True) -> None:
        """Store the progress of this member now.

        Args:
            durable: Whether to wait until the offsets are on a disk; otherwise they are within 5 s.

        Raises:
            ClientNotRunning: The consumer is not running.
            CallError: A broker did not store them.
        """
        self._life.check_running()
        await self._life.owned.store(durable=durable)
