"""The pull consumer: the application requests messages, and commits the ones that are done."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from random import Random
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from ariane_sdk.checks.limits import check_timeout, checked_topic
from ariane_sdk.checks.local_filter import Local
from ariane_sdk.checks.queue_arguments import (
    checked_count,
    checked_offset,
    checked_offsets,
    checked_queue,
    checked_queues,
)
from ariane_sdk.checks.sql_filter import Sql
from ariane_sdk.checks.tag_filter import TagFilter
from ariane_sdk.checks.uploaded_filter import Uploaded
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.client.telemetry import Telemetry
from ariane_sdk.consumer.consumer_life import ConsumerLife
from ariane_sdk.consumer.group.allocation import AllocationStrategy
from ariane_sdk.consumer.group.consumer_plan import ConsumerPlan, MessageModel, filters_of
from ariane_sdk.consumer.offsets.start_position import StartPosition, position_of
from ariane_sdk.consumer.polling.polled_columns import polled_queue
from ariane_sdk.consumer.polling.polled_line import PolledLine
from ariane_sdk.consumer.polling.polled_queue import PolledQueue
from ariane_sdk.errors import ArianeError, ClientNotRunning, IllegalArgument
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.reading.columns_out import columns_wanted
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task
from ariane_sdk.security import CredentialsGiven, TlsGiven
from ariane_sdk.settings import PullSettings, checked_settings

if TYPE_CHECKING:
    import pyarrow as pa

POLL_COUNT_DEFAULT: Final = 500
POLL_TIMEOUT_S: Final = 5.0
"""As RocketMQ's pull consumer waits."""


class PullConsumer:
    """Fetches messages when the application asks for them.

    Held pulls keep messages ready, as in a push consumer. The queues are those of a member of a
    group (``subscriptions``), or those given to ``assign``. Only one task may poll at a time.

    With ``auto_commit``, polling again says that the previously polled messages are done; their
    offset is stored every 5 s, when a queue is given up, and at the end. Without it, ``commit``
    says so.

    Example::

        async with PullConsumer(
            "127.0.0.1:9876", group="billing", subscriptions={"orders": "*"}
        ) as consumer:
            async for message in consumer:
                print(message.body)
    """

    def __init__(
        self,
        name_servers: NameServerAddresses | None = None,
        *,
        group: str,
        subscriptions: Mapping[str, str | Sql | Uploaded | Local] | None = None,
        start: StartPosition = "latest",
        auto_commit: bool = True,
        model: MessageModel = "clustering",
        strategy: AllocationStrategy | None = None,
        column_names: Sequence[str] | None = None,
        settings: PullSettings | None = None,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Set the consumer up; ``start`` connects it.

        Args:
            name_servers: "host:port" of each, as a list or by commas; None: ARIANE_NAME_SERVERS.
            group: The consumer group. Its offsets are also used for assigned queues.
            subscriptions: By topic, "*" for all messages, tags joined by "||", ``Sql``, ``Local``
                or ``Uploaded``. Without any, queues are assigned by ``assign``, and the consumer is
                not a member of the group.
            start: Where the group begins in a topic that it has never consumed; in a queue that is
                added later, it begins with the first message.
            auto_commit: Whether polling again means that the previously polled messages are done.
            model: "clustering" or "broadcasting", as for a push consumer.
            strategy: How members share queues; averaging if not given.
            column_names: Fetch record batches of these columns by ``columns``, instead of messages;
                the columns of ``QueueReader.pull_columns``.
            settings: The consumer's behaviour.
            tls: Files for TLS, or that of the authority alone; False: plain text; None: what
                ARIANE_TLS_CA, ARIANE_TLS_CERTIFICATE and ARIANE_TLS_KEY say.
            credentials: File with the key of the user, or a function that gives a token; None: what
                ARIANE_CREDENTIALS says.
            clock: For tests.
            random: For tests.

        Raises:
            IllegalArgument: An address, a name, an expression or a column is invalid.
        """
        self._column_names = None if column_names is None else columns_wanted(column_names)
        self._by_hand = not subscriptions
        settings = checked_settings(settings, PullSettings)
        if self._column_names is not None:
            settings = settings.for_columns()
        self._plan = ConsumerPlan.checked(
            name_servers,
            group=group,
            subscriptions=subscriptions or {},
            start=start,
            model=model,
            strategy=strategy,
            settings=settings,
            tls=tls,
            credentials=credentials,
            clock=clock,
            random=random,
            polls=True,
        )
        self._auto_commit = auto_commit
        self._line = PolledLine()
        self._telemetry: Telemetry | None = None
        self._commits: dict[asyncio.Task[None], None] = {}
        self._life = ConsumerLife(self._plan)
        self._life.on_end = self._line.wake

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._plan.group

    @property
    def client_id(self) -> str:
        """The id by which brokers know this consumer."""
        return self._plan.client_id

    @property
    def lost_message_count(self) -> int:
        """How many messages were passed over because the broker has lost them: damaged records."""
        return self._life.lost_count

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that this consumer owns now."""
        return self._life.assignment

    @property
    def paused(self) -> frozenset[MessageQueue]:
        """The queues that are paused."""
        return frozenset(q.queue for q in self._queues() if q.paused)

    async def start(self) -> None:
        """Attach to the brokers of all topics; without subscriptions, only prepare.

        A consumer can be started only once, even if its start failed or was cancelled.

        Raises:
            ClientNotRunning: It was started before, or closed meanwhile.
            NameServersUnreachable: No name server answered.
            GroupRefused: Other members of the group have other subscriptions.
            OffsetFileDamaged: The offsets of a broadcasting consumer cannot be read.
            OffsetFileInUse: Another broadcasting consumer uses them.
            CallError: No broker accepts the consumer.
        """
        settings = self._plan.settings
        self._telemetry = Telemetry.configured(
            settings.tracer_provider,
            settings.meter_provider,
            client_id=self.client_id,
            otlp_endpoint=settings.otlp_endpoint,
        )
        await self._life.start(self._make_owned, by_hand=self._by_hand)

    async def close(self) -> None:
        """Store offsets, leave the group, and disconnect.

        With ``auto_commit``, polled messages count as done.
        """
        await self._close(done=self._auto_commit)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Messages in work at an error may not be done: they are delivered again.
        await self._close(done=self._auto_commit and exc is None)

    async def wait_assigned(self) -> None:
        """Wait until the queues of this member are being pulled; there may be none.

        Raises:
            CallError: The group no longer accepts this member.
        """
        await self._life.wait_assigned()

    async def assign(
        self,
        queues: Iterable[MessageQueue],
        *,
        filters: Mapping[str, str | Sql | Uploaded | Local] | None = None,
    ) -> None:
        """Consume exactly these queues, whichever other consumers have them.

        Args:
            queues: The queues, of any topics.
            filters: By topic, which messages, as in subscriptions; default: all.

        Raises:
            ClientNotRunning: The consumer is not running.
            IllegalArgument: The consumer has subscriptions, or a topic or expression is invalid.
            RouteNotFound: No live broker has a topic.
            QueueNotFound: No live broker has such a readable queue.
            CallError: A broker did not return the start position.
        """
        self._life.check_running()
        if not self._by_hand:
            raise IllegalArgument("a consumer with subscriptions gets its queues from its group")
        wanted = checked_queues(queues)
        chosen = filters_of(filters or {})
        for topic in {queue.topic for queue in wanted} - chosen.keys():
            chosen[checked_topic(topic)] = TagFilter.parse("*")
        self._plan.filters.update(chosen)
        self._line.paused.intersection_update(wanted)
        await self._life.assign(wanted)

    async def poll(
        self, count_max: int = POLL_COUNT_DEFAULT, *, timeout_s: float = POLL_TIMEOUT_S
    ) -> list[ReceivedMessage]:
        """The next messages of any queues; those of one queue are in order.

        Args:
            count_max: The most messages.
            timeout_s: How long to wait for the first.

        Returns:
            The messages; an empty list when the time is over.

        Raises:
            IllegalArgument: An argument is invalid, or the consumer fetches columns.
            ClientNotRunning: The consumer is not running, or was closed meanwhile.
            CallError: The group no longer accepts this member.
        """
        if self._column_names is not None:
            raise IllegalArgument("this consumer fetches columns: use `columns`")
        checked_count("count_max", count_max)
        check_timeout(timeout_s)
        self._life.check_running()
        self._count_last_as_done()
        polling = self._polled(count_max, timeout_s)
        telemetry = self._telemetry
        return await (polling if telemetry is None else telemetry.polled(polling, self.group))

    async def _polled(self, count_max: int, timeout_s: float) -> list[ReceivedMessage]:
        messages = self._line.take(count_max)
        if messages or timeout_s <= 0:
            return messages
        try:
            async with asyncio.timeout(timeout_s):
                while not messages:
                    await self._line.wait()
                    self._life.check_running()
                    messages = self._line.take(count_max)
        except TimeoutError:
            return []
        return messages

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """The next message; with ``auto_commit``, the previous one counts as done."""
        try:
            while True:
                messages = await self.poll(1)
                if messages:
                    return messages[0]
        except ClientNotRunning:
            raise StopAsyncIteration from None

    async def columns(self) -> AsyncGenerator[pa.RecordBatch]:
        """Record batches of ``column_names`` as messages arrive: each of one queue, in its order.

        With ``auto_commit``, a batch counts as done when the next one is requested. Ends when the
        consumer is closed.

        Raises:
            IllegalArgument: The consumer was created without ``column_names``.
            ClientNotRunning: The consumer is not running.
            CallError: The group no longer accepts this member.
        """
        if self._column_names is None:
            raise IllegalArgument("this consumer fetches messages: name its `column_names`")
        self._life.check_running()
        try:
            while True:
                self._life.check_running()
                self._count_last_as_done()
                began_s = perf_counter()
                while (taken := self._line.take_batch()) is None:
                    await self._line.wait()
                    self._life.check_running()
                queue, batch = taken
                if self._telemetry is not None:
                    self._telemetry.polled_rows(queue, batch.num_rows, self.group, began_s=began_s)
                yield batch
        except ClientNotRunning:
            return

    def position(self, queue: MessageQueue) -> int:
        """The queue offset that is polled next.

        Raises:
            IllegalArgument: The queue is not assigned to this consumer.
        """
        return self._queue(queue).position

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's stored consumer offset; ``None`` if there is none.

        Raises:
            IllegalArgument: The queue is not assigned to this consumer.
            CallError: The broker did not answer.
        """
        self._queue(queue)
        owned = self._life.owned
        failover = self._life.session.failover
        return await failover.ask(lambda: owned.kept_offset(queue), [queue.topic], reads=True)

    async def seek(self, queue: MessageQueue, to: int | StartPosition) -> None:
        """Continue elsewhere in a queue; the stored offset follows when messages there are done.

        Args:
            queue: The queue.
            to: A queue offset, "earliest", "latest", or the first message since a time.

        Raises:
            IllegalArgument: The queue is not assigned to this consumer, or the position is invalid.
            CallError: The broker did not return the position.
        """
        polled = self._queue(queue)
        if isinstance(to, int):
            # The application's offset: of the same epoch as its messages of the queue.
            position = QueuePosition(checked_offset(to), polled.log_epoch)
        else:
            session, owned = self._life.session, self._life.owned
            position = await session.failover.ask(
                lambda: position_of(session.calls, owned.broker_of(queue), queue, to),
                [queue.topic],
                reads=True,
            )
        polled.seek(position)
        self._line.put_down(polled)

    def pause(self, *queues: MessageQueue) -> None:
        """Stop pulling and returning messages of these queues, until ``resume``.

        Raises:
            IllegalArgument: A queue is not assigned to this consumer.
        """
        for polled in list(map(self._queue, queues)):
            polled.pause()

    def resume(self, *queues: MessageQueue) -> None:
        """Continue with paused queues.

        Raises:
            IllegalArgument: A queue is neither paused nor assigned to this consumer.
        """
        left = self._line.resumed(map(checked_queue, queues), self.assignment)
        for polled in list(map(self._queue, left)):
            polled.resume()

    async def commit(
        self, offsets: Mapping[MessageQueue, int] | None = None, *, durable: bool = True
    ) -> None:
        """Mark polled messages as done, and store the offsets.

        Args:
            offsets: The next queue offset to be consumed, by queue; default: behind the polled
                messages, in all queues.
            durable: Whether to wait until the offsets are on a disk; otherwise they are within 5 s.

        Raises:
            ClientNotRunning: The consumer is not running.
            IllegalArgument: A queue is not assigned to this consumer, or an offset is invalid.
            CallError: A broker did not store them.
        """
        self._life.check_running()
        self._count_as_done(offsets)
        owned = self._life.owned
        # Offsets that are stored already are not stored again, unless they must be on a disk.
        await self._life.session.failover.ask(
            lambda: owned.store(durable=durable), {queue.topic for queue in self.assignment}
        )

    def commit_nowait(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Mark polled messages as done, and store the offsets without waiting.

        A failure is logged, and the offsets are stored with the next ones.

        Args:
            offsets: As in ``commit``.

        Raises:
            ClientNotRunning: The consumer is not running.
            IllegalArgument: A queue is not assigned to this consumer.
        """
        self._life.check_running()
        self._count_as_done(offsets)
        task = start_task(self._store_by_and_by(), "commit")
        self._commits[task] = None
        task.add_done_callback(self._commits.pop)

    async def _store_by_and_by(self) -> None:
        try:
            await self._life.owned.store(durable=False)
        except ArianeError as error:
            logger.info("offsets of group %s are stored later: %s", self.group, error)

    async def _close(self, *, done: bool) -> None:
        if done:
            self._line.count_as_done()
        else:
            self._line.forget_in_hand()
        await asyncio.gather(*self._commits, return_exceptions=True)
        await self._life.close()

    def _make_owned(
        self, queue: MessageQueue, begin_offset: int, on_room: Callable[[], None]
    ) -> PolledQueue:
        return polled_queue(
            queue,
            begin_offset,
            self._column_names,
            self._plan.settings,
            paused=self._line.paused,
            on_room=on_room,
            on_arrival=self._line.join,
        )

    def _count_last_as_done(self) -> None:
        if self._auto_commit:
            self._line.count_as_done()

    def _count_as_done(self, offsets: Mapping[MessageQueue, int] | None) -> None:
        if offsets is None:
            self._line.count_as_done()
            return
        # A queue that is being given up is still this consumer's to commit.
        in_hand = dict(self._line.in_hand())
        known = [
            (in_hand.get(queue) or self._queue(queue), queue_offset)
            for queue, queue_offset in checked_offsets(offsets).items()
        ]
        for polled, queue_offset in known:
            polled.count_as_done(queue_offset)
            if queue_offset >= polled.position:
                self._line.put_down(polled)

    def _queues(self) -> Iterable[PolledQueue]:
        if not self.assignment:
            return ()
        return (each for each in self._life.owned.in_work() if isinstance(each, PolledQueue))

    def _queue(self, queue: MessageQueue) -> PolledQueue:
        self._life.check_running()
        polled = self._life.owned.find(checked_queue(queue))
        if not isinstance(polled, PolledQueue):
            raise IllegalArgument(f"{queue} is not assigned to this consumer")
        return polled
