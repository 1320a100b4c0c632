"""The push consumer: a member of a group that hands messages to a listener."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from random import Random
from types import TracebackType
from typing import Final, Self

from ariane.broker.v1.client_service_pb2 import AttachResponse
from ariane_sdk._allocation import AllocationStrategy, Averaging
from ariane_sdk._attachment import Attachment
from ariane_sdk._client_id import new_client_id
from ariane_sdk._clock import Clock, SystemClock, new_random
from ariane_sdk._fork import ForkGuard
from ariane_sdk._limits import checked_group, checked_topic
from ariane_sdk._listener import Listener, ListenerCalls
from ariane_sdk._log import logger
from ariane_sdk._membership import GroupView, membership_of
from ariane_sdk._message import MessageQueue
from ariane_sdk._name_servers import parse_addresses
from ariane_sdk._owned_queues import OwnedQueues
from ariane_sdk._route import Route
from ariane_sdk._session import Session
from ariane_sdk._settings import ConsumerSettings
from ariane_sdk._start_position import StartPosition, checked_start
from ariane_sdk._tag_filter import TagFilter
from ariane_sdk._tasks import loop_for_ever, start_task
from ariane_sdk.errors import CallError, ClientNotRunning, IllegalArgument, RouteNotFound

GOODBYE_TIMEOUT_S: Final = 1.0
"""How long a broker may take to end the stream of a consumer that leaves."""


class PushConsumer:
    """A member of a consumer group. The members share the queues of their topics.

    The listener gets messages of one queue at a time, in the order of the queue; several queues
    are in work at once. When it returns, the messages are done; when it raises, the same messages
    come again after a growing delay, and the rest of that queue waits. (Retry topics, which let the
    rest go on, come with a later version.)

    Every message is delivered at least once. Some come twice when members come or go, when a
    process ends without ``stop``, or a broker loses its last seconds.

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
        name_servers: str,
        *,
        group: str,
        subscriptions: Mapping[str, str],
        listener: Listener,
        start: StartPosition = "latest",
        batch_size: int = 32,
        ordered: bool = False,
        strategy: AllocationStrategy | None = None,
        settings: ConsumerSettings | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Set up; nothing is connected before ``start``.

        Args:
            name_servers: "host:port" of each name server, separated by commas.
            group: The consumer group. All members must have the same subscriptions.
            subscriptions: By topic, "*" for all messages or tags joined by "||".
            listener: Gets the messages. A coroutine function runs on the loop, a plain function in
                threads.
            start: Where the group begins in a queue that it has never consumed.
            batch_size: Messages for one call of the listener, at most.
            ordered: Whether the broker's queue locks are wanted, which keep two members from
                having one queue even for a moment. Not available yet.
            strategy: How members share queues; averaging if not given.
            settings: How it behaves.
            clock: For tests.
            random: For tests.

        Raises:
            IllegalArgument: An address, a name or an expression is none.
        """
        if ordered:
            raise IllegalArgument(
                "ordered=True needs queue locks, which come with a later version; order within"
                " each queue is kept without them, except while queues change hands",
                reason="FEATURE_NOT_AVAILABLE",
            )
        if not subscriptions:
            raise IllegalArgument("at least one subscription is needed")
        if batch_size < 1:
            raise IllegalArgument("batch_size is at least 1")
        self._addresses = parse_addresses(name_servers)
        self._group = checked_group(group)
        self._filters = {
            checked_topic(topic): TagFilter.parse(expression)
            for topic, expression in subscriptions.items()
        }
        self._listener = listener
        self._start_position = checked_start(start)
        self._batch_size = batch_size
        self._strategy = strategy or Averaging()
        self._settings = settings or ConsumerSettings()
        self._clock = clock or SystemClock()
        self._random = random or new_random()
        self._fork_guard = ForkGuard()
        self._client_id = new_client_id(self._random)
        self._session: Session | None = None
        self._attachments: dict[str, Attachment] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._farewells: set[asyncio.Task[None]] = set()
        self._rebalance_wanted = asyncio.Event()
        self._assigned = asyncio.Event()
        self._stopped = asyncio.Event()
        self._stopping = False
        self._failure: CallError | None = None
        self._group_view: GroupView
        self._listener_calls: ListenerCalls
        self._owned: OwnedQueues

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._group

    @property
    def client_id(self) -> str:
        """The id under which brokers know this member."""
        return self._client_id

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that this member has now."""
        return self._owned.queues if self._session is not None else frozenset()

    async def start(self) -> None:
        """Attach to the brokers of all topics, and begin to consume.

        A topic that does not exist yet is looked for until it does.

        Raises:
            ClientNotRunning: It was started before.
            NameServersUnreachable: None answered.
            GroupRefused: Other members of the group have other subscriptions.
            CallError: No broker lets the consumer in.
        """
        self._fork_guard.check()
        if self._session is not None:
            raise ClientNotRunning("a consumer is started once; make another one")
        session = Session(
            self._addresses,
            timeout_s=self._settings.call_timeout_s,
            clock=self._clock,
            random=self._random,
        )
        self._session = session
        session.routes.on_change(lambda _: self._rebalance_wanted.set())
        self._group_view = GroupView(
            session.calls, group=self._group, client_id=self._client_id, strategy=self._strategy
        )
        self._listener_calls = ListenerCalls(
            self._listener, threads=self._settings.listener_threads
        )
        self._owned = OwnedQueues(
            session,
            group=self._group,
            client_id=self._client_id,
            filters=self._filters,
            start=self._start_position,
            deliver=self._listener_calls.deliver,
            batch_size=self._batch_size,
            settings=self._settings,
            clock=self._clock,
        )
        try:
            await asyncio.gather(*(self._learn_route(session, topic) for topic in self._filters))
            routes = self._known_routes(session)
            self._attach(session, routes)
            if routes:
                await self._wait_attached()
        except BaseException:
            await self.stop()
            raise
        session.routes.start()
        self._rebalance_wanted.set()
        rebalance = partial(self._rebalance_when_wanted, session)
        self._tasks = [
            start_task(loop_for_ever(rebalance, self._clock), "rebalance"),
            start_task(self._owned.store_loop(), "store-offsets"),
        ]

    async def stop(self) -> None:
        """Finish what the listener has, store offsets, leave the group, and disconnect."""
        if self._session is None:
            return
        if self._stopping:
            await self._stopped.wait()
            return
        self._stopping = True
        self._owned.deliver_nothing_new()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._owned.close()
        self._listener_calls.close()
        await asyncio.gather(
            *(attachment.close(GOODBYE_TIMEOUT_S) for attachment in self._attachments.values()),
            *self._farewells,
        )
        await self._session.close()
        self._stopped.set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def run_until_stopped(self) -> None:
        """Wait until somebody calls ``stop``.

        Raises:
            CallError: The group does not let this member in any longer.
        """
        await self._stopped.wait()
        if self._failure is not None:
            raise self._failure

    async def wait_assigned(self) -> None:
        """Wait until the queues that fall to this member are being pulled; there may be none.

        Raises:
            CallError: The group does not let this member in any longer.
        """
        await self._assigned.wait()
        await self._owned.wait_acquired()
        if self._failure is not None:
            raise self._failure

    async def store_offsets(self) -> None:
        """Store now how far this member has come, and wait until that is on the brokers' disks.

        Raises:
            CallError: A broker did not store them.
        """
        await self._owned.store(durable=True)

    async def _learn_route(self, session: Session, topic: str) -> None:
        try:
            await session.routes.get(topic)
        except RouteNotFound as error:
            logger.warning("group %s waits for topic %s: %s", self._group, topic, error)
            session.routes.watch(topic)

    def _known_routes(self, session: Session) -> Sequence[Route]:
        routes = map(session.routes.cached, self._filters)
        return [route for route in routes if route is not None]

    def _attach(self, session: Session, routes: Iterable[Route]) -> None:
        """Be attached to every broker of the topics, where it is now, and to no other."""
        wanted = {
            broker.broker_name: broker.read_address
            for route in routes
            for broker in route.brokers
            if broker.read_address
        }
        for name, attachment in list(self._attachments.items()):
            if wanted.get(name) != attachment.address:
                del self._attachments[name]
                farewell = start_task(attachment.close(GOODBYE_TIMEOUT_S), f"farewell-{name}")
                self._farewells.add(farewell)
                farewell.add_done_callback(self._farewells.discard)
        membership = membership_of(self._group, self._filters, self._strategy, ordered=False)
        for name, address in wanted.items():
            if name not in self._attachments:
                self._attachments[name] = Attachment(
                    name,
                    address,
                    session.connections,
                    client_id=self._client_id,
                    membership=membership,
                    settings=self._settings,
                    clock=self._clock,
                    on_notice=self._hear,
                    on_fatal=self._fail,
                    facts=self._owned.facts,
                )

    async def _wait_attached(self) -> None:
        """Wait until every broker has been tried, and one at least has let the consumer in."""
        attachments = list(self._attachments.values())
        try:
            async with asyncio.timeout(self._settings.call_timeout_s):
                await asyncio.gather(*(attachment.wait_tried() for attachment in attachments))
        except TimeoutError:
            pass  # A broker that says nothing at all is one that is not there.
        if self._failure is not None:
            raise self._failure
        if any(attachment.attached for attachment in attachments):
            return
        errors = [a.error for a in attachments if a.error is not None]
        raise errors[0] if errors else CallError("no broker of the topics has an address")

    def _hear(self, response: AttachResponse) -> None:
        kind = response.WhichOneof("content")
        if kind in ("accepted", "membership_changed"):
            self._rebalance_wanted.set()
        elif kind == "offsets_reset" and response.offsets_reset.consumer_group == self._group:
            self._owned.forget(response.offsets_reset.topic)
            self._rebalance_wanted.set()

    def _fail(self, error: CallError) -> None:
        """Nothing can be done but to stop; whoever waits is told."""
        if self._failure is None:
            self._failure = error
            logger.error("group %s does not let this member in: %s", self._group, error)
            self._assigned.set()
            self._stopped.set()

    async def _rebalance_when_wanted(self, session: Session) -> None:
        """One round of the loop: wait until told or long enough, then divide the queues anew."""
        try:
            async with asyncio.timeout(self._settings.rebalance_interval_s):
                await self._rebalance_wanted.wait()
        except TimeoutError:
            pass
        self._rebalance_wanted.clear()
        try:
            await self._rebalance(session)
        except CallError as error:
            logger.info("group %s keeps its assignment: %s", self._group, error)
            self._rebalance_wanted.set()
        await self._clock.sleep(self._settings.rebalance_gap_s_min)

    async def _rebalance(self, session: Session) -> None:
        """Own what falls to this member, and nothing else; keep all when nobody can tell."""
        routes = self._known_routes(session)
        self._attach(session, routes)
        shares = await asyncio.gather(*map(self._group_view.share_of, routes))
        wanted: set[MessageQueue] = set()
        shared = False
        for share in shares:
            if share is None:
                self._rebalance_wanted.set()
                return
            wanted.update(share.queues)
            shared = shared or share.member_count > 1
        self._owned.change_to(wanted, handover_s=self._settings.handover_s if shared else 0.0)
        self._assigned.set()
