"""The common part of push and pull consumers: routes, attachments, rebalance, and owned queues."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from ariane.broker.v1.client_service_pb2 import AttachResponse
from ariane_record.encoding.kept_memory import expect_large_blocks
from ariane_record.names import RETRY_PREFIX, retry_topic
from ariane_sdk.client.operator_answers import Consume, OperatorAnswers, settings_facts
from ariane_sdk.client.session import Session, new_incarnation
from ariane_sdk.consumer.delivery.damaged_bodies import DamagedBodies
from ariane_sdk.consumer.delivery.message_returns import MessageReturns
from ariane_sdk.consumer.delivery.owned_queue import MakeOwned
from ariane_sdk.consumer.group.agreement import check_agreement
from ariane_sdk.consumer.group.attachments import Attachments
from ariane_sdk.consumer.group.consumer_plan import ConsumerPlan
from ariane_sdk.consumer.group.handovers import Handovers
from ariane_sdk.consumer.group.membership import GroupView, membership_of
from ariane_sdk.consumer.group.queue_lock_calls import QueueLockCalls
from ariane_sdk.consumer.group.queue_locks import QueueLocks
from ariane_sdk.consumer.offsets.offset_file import OffsetFile
from ariane_sdk.consumer.offsets.offset_keeping import BrokerOffsets, OffsetKeeping
from ariane_sdk.consumer.owned_queues import OwnedQueues
from ariane_sdk.consumer.pulling.replica_reads import NO_PRIMARY_REASON
from ariane_sdk.errors import (
    CallError,
    ClientNotRunning,
    QueueNotFound,
    RouteNotFound,
)
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.timestamps import duration_s
from ariane_sdk.routing.broker_addresses import broker_named, broker_of
from ariane_sdk.routing.failover import PATIENCE_S, REPEAT_S_MAX
from ariane_sdk.routing.route import Route
from ariane_sdk.runtime.home import HomeGuard
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import loop_for_ever, start_task
from ariane_sdk.runtime.unclosed import warn_unclosed

HOLDS_LOOK_S: Final = 1.0
"""How often it is looked whether brokers must hear of queues that wait."""


class ConsumerLife:
    """A consumer between start and close."""

    owned: OwnedQueues
    """Its queues; there are none before it starts."""
    locks: QueueLocks
    """The locks of its queues, if it consumes in order; there are none before it starts."""
    session: Session
    """Its connections; there are none before it starts."""

    def __init__(self, plan: ConsumerPlan) -> None:
        expect_large_blocks()
        self.plan = plan
        """What it is to be."""
        self.failure: CallError | None = None
        """Why the group does not let it in any longer."""
        self.stopped = asyncio.Event()
        """Set when it has stopped, or cannot go on."""
        self.consume: Consume | None = None
        """Consumes a message that an operator asks for; nothing where that is refused."""
        self.consume_refusal = "only push consumers consume on request"
        """Why it is."""
        self.on_end: Callable[[], None] = _nothing
        """Called when it begins to stop, or cannot go on."""
        self.more_facts: Callable[[], Mapping[str, str]] = dict
        """Returns facts for operators, beside its settings."""
        self._home = HomeGuard()
        self._started = False
        self._closing = False
        self._close_task: asyncio.Task[None] | None = None
        self._offset_file: OffsetFile | None = None
        self._by_hand = False
        self._assigned_by_hand: frozenset[MessageQueue] = frozenset()
        self._tasks: list[asyncio.Task[None]] = []
        self._rebalance_wanted = asyncio.Event()
        self._assigned = asyncio.Event()
        self._handovers: Handovers
        self._group_view: GroupView
        self._attachments: Attachments
        self._operator_answers: OperatorAnswers

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that this consumer has now."""
        return self.owned.queues if self._started else frozenset()

    @property
    def lost_count(self) -> int:
        """How many damaged messages were passed over."""
        return self.owned.lost_count if self._started else 0

    def check_running(self) -> None:
        """Refuse to serve a consumer that does not run.

        Raises:
            ClientNotRunning: It was not started, or has stopped.
            ClientForked: It was made in a parent process.
            CallError: The group does not admit it any longer.
        """
        self._home.check()
        if self.failure is not None:
            raise self.failure
        if not self._started or self._closing:
            raise ClientNotRunning("the consumer is not running: start it, or use `async with`")

    async def start(self, make_owned: MakeOwned, *, by_hand: bool = False) -> None:
        """Attach to the brokers of all topics, and begin to consume.

        Args:
            make_owned: Makes the object that hands out a queue.
            by_hand: Whether queues are assigned by ``assign``, without being a member.

        Raises:
            ClientNotRunning: It was started before, or stopped meanwhile.
            NameServersUnreachable: None answered.
            GroupRefused: Other members of the group have other subscriptions.
            OffsetFileDamaged: The file of a broadcasting consumer cannot be read.
            CallError: No broker admits the consumer.
        """
        self._home.settle()
        if self._started:
            raise ClientNotRunning("a consumer is started once; make another one")
        plan = self.plan
        session = Session(
            plan.addresses,
            timeout_s=plan.settings.call_timeout_s,
            clock=plan.clock,
            random=plan.random,
            access=plan.access,
            client_id=plan.client_id,
        )
        keeping_file = self._open_offset_file()
        self._started = True
        self._by_hand = by_hand
        self.session = session
        session.routes.on_change(lambda _: self._rebalance_wanted.set())
        self._group_view = GroupView(session.calls, plan)
        self.locks = QueueLocks(
            QueueLockCalls(session, plan),
            broker_named=partial(broker_named, session.routes),
            is_used=self._uses,
            on_lost=self._drop,
            clock=plan.clock,
        )
        keeping: OffsetKeeping = keeping_file or BrokerOffsets(
            session.calls,
            group=plan.group,
            client_id=plan.client_id,
            lock_epoch_of=self.locks.epoch_of,
        )
        self.owned = OwnedQueues(
            session,
            plan,
            keeping=keeping,
            locks=self.locks if plan.ordered else None,
            make_owned=make_owned,
            on_lost=self._rebalance_wanted.set,
            on_fatal=self._fail,
            damaged_bodies=self._make_damaged_bodies(),
        )
        self._operator_answers = self._make_operator_answers()
        self._attachments = self._make_attachments()
        self._handovers = Handovers(
            plan.settings.handover_s, plan.clock, is_attached=self._attachments.is_attached
        )
        self.owned.others_left_s = self._handovers.left_s
        if not by_hand:
            await self._join_or_stop()
        session.routes.start()
        self._begin_work(by_hand=by_hand)

    def _make_attachments(self) -> Attachments:
        return Attachments(
            membership_of(self.plan),
            self.session.connections,
            client_id=self.plan.client_id,
            incarnation=new_incarnation(self.plan.random),
            clock=self.plan.clock,
            call_timeout_s=self.plan.settings.call_timeout_s,
            on_notice=self._take_notice,
            on_fatal=self._fail,
            on_turn=self._doubt_routes,
            answers=self._operator_answers,
            holds=self.owned.holds,
        )

    def _make_damaged_bodies(self) -> DamagedBodies:
        plan, session = self.plan, self.session
        if self._by_hand or plan.model == "broadcasting":
            return DamagedBodies(None)
        return DamagedBodies(
            MessageReturns(
                lambda: session.connections,
                group=plan.group,
                broker_of=partial(broker_of, session.routes),
                call_timeout_s=plan.settings.call_timeout_s,
                clock=plan.clock,
                random=plan.random,
            )
        )

    def _make_operator_answers(self) -> OperatorAnswers:
        settings = self.plan.settings
        return OperatorAnswers(
            facts=lambda: {**settings_facts(settings), **self.more_facts()},
            queues=self.owned.states,
            stacks_allowed=settings.stacks_on_request,
            consume=self.consume,
            consume_refusal=self.consume_refusal,
        )

    def _begin_work(self, *, by_hand: bool) -> None:
        """Start the loops that run until the consumer stops."""
        clock = self.plan.clock
        self._tasks.append(start_task(self.owned.store_loop(), "store-offsets"))
        self._tasks.append(start_task(self.owned.watch_loop(), "watch-queues"))
        holds = loop_for_ever(self._send_holds_by_and_by, clock)
        self._tasks.append(start_task(holds, "send-holds"))
        if self.plan.ordered:
            renew = loop_for_ever(self.locks.renew_by_and_by, clock)
            self._tasks.append(start_task(renew, "renew-locks"))
            give_back = loop_for_ever(self.locks.return_by_and_by, clock)
            self._tasks.append(start_task(give_back, "return-locks"))
        if not by_hand:
            self._rebalance_wanted.set()
        rebalance = loop_for_ever(self._rebalance_when_wanted, clock)
        self._tasks.append(start_task(rebalance, "rebalance"))

    async def _send_holds_by_and_by(self) -> None:
        await self.plan.clock.sleep(HOLDS_LOOK_S)
        self._attachments.send_holds()

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Own exactly these queues, independent of other members of the group.

        Raises:
            RouteNotFound: No live broker carries a topic.
            QueueNotFound: No live broker has such a readable queue.
            NameServersUnreachable: None answered.
        """
        wanted = set(queues)
        await self._check_queues(wanted)
        self._assigned_by_hand = frozenset(wanted)
        self.owned.change_to(wanted, handover_s=0.0)
        self._assigned.set()
        await self.owned.wait_acquired()

    async def _check_queues(self, queues: Collection[MessageQueue]) -> None:
        """Check that queues exist; an outdated route is looked up again."""
        routes = self.session.routes
        known: set[MessageQueue] = set()
        topics = {queue.topic for queue in queues}
        for ask in (routes.get, routes.refresh):
            for route in await asyncio.gather(*map(ask, topics)):
                known.update(route.read_queues)
            topics = {queue.topic for queue in queues if queue not in known}
        if topics:
            missing = ", ".join(str(queue) for queue in queues if queue not in known)
            raise QueueNotFound(f"no broker that lives has {missing} to read", retriable=True)

    async def close(self) -> None:
        """Finish what is in work, store offsets, leave the group, and disconnect.

        Cancelling ends only the wait: if a member stopped half way, it would keep its queues.
        """
        if not self._started:
            return
        self._home.check()
        if self._close_task is None:
            self._closing = True
            self._close_task = start_task(self._close(), "close-consumer")
        await asyncio.shield(self._close_task)

    def __del__(self) -> None:
        running = self._started and not self._closing and self.failure is None
        if running and self._home.in_its_process:
            warn_unclosed(self, f"the consumer of group {self.plan.group}")

    async def _close(self) -> None:
        self.on_end()
        self.owned.deliver_nothing_new()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        timeout_s = self.plan.settings.release_timeout_s
        await asyncio.gather(self._operator_answers.close(timeout_s), self.owned.close())
        await self._attachments.close()
        await self.session.close()
        if self._offset_file is not None:
            await self._offset_file.close()
        self.stopped.set()

    async def wait_stopped(self) -> None:
        """Wait until ``close`` is called.

        Raises:
            CallError: The group does not admit this member any longer.
        """
        await self.stopped.wait()
        if self.failure is not None:
            raise self.failure

    async def wait_assigned(self) -> None:
        """Wait until the queues that fall to this member are being pulled; there may be none.

        Raises:
            CallError: The group does not admit this member any longer.
        """
        await self._assigned.wait()
        await self.owned.wait_acquired()
        if self.failure is not None:
            raise self.failure

    def _open_offset_file(self) -> OffsetFile | None:
        if self.plan.model == "clustering":
            return None
        settings = self.plan.settings
        self._offset_file = OffsetFile.open(
            settings.local_offsets_path, settings.instance_name, self.plan.group
        )
        return self._offset_file

    async def _join_or_stop(self) -> None:
        """Join the group; after a failure, stop."""
        try:
            await self._join()
        except BaseException as error:
            stopped = self._closing
            await self.close()
            task = asyncio.current_task()
            if stopped and not (task and task.cancelling()):
                # Its connections were closed meanwhile: that error would not explain anything.
                raise _stopped_meanwhile() from error
            raise
        if self._closing:
            await self.close()
            raise _stopped_meanwhile()

    async def _join(self) -> None:
        returning = retry_topic(self.plan.group)
        wanted = [topic for topic in self.plan.filters if topic != returning]
        await asyncio.gather(*map(self._learn_route, wanted))
        if self._closing:
            return  # The consumer was stopped: new attachments would never be closed.
        await self._wait_admitted()
        if returning in self.plan.filters:
            # Brokers create it when the first member of a group attaches.
            await self._learn_route(returning)
        attachments = self._attachments
        await check_agreement(
            self.session, self.plan.client_id, attachments.membership, attachments.broker_names
        )

    async def _wait_admitted(self) -> None:
        """Attach to the brokers of all topics; while a primary is being elected, wait for it."""
        clock = self.plan.clock
        deadline_s = clock.monotonic_s() + PATIENCE_S
        while routes := self._known_routes():
            self._attachments.follow(routes)
            refusal = await self._attachments.wait_tried()
            refusal = self.failure or refusal
            if refusal is None:
                return
            left_s = deadline_s - clock.monotonic_s()
            if refusal.reason != NO_PRIMARY_REASON or left_s <= 0 or self._closing:
                raise refusal
            logger.info("group %s waits for a primary: %s", self.plan.group, refusal)
            await self.session.failover.wait(refusal, self.plan.filters, REPEAT_S_MAX, left_s)

    async def _learn_route(self, topic: str) -> None:
        try:
            await self.session.routes.get(topic)
        except RouteNotFound as error:
            # Brokers create the group's retry topic by themselves.
            level = logging.DEBUG if topic.startswith(RETRY_PREFIX) else logging.WARNING
            logger.log(level, "group %s waits for topic %s: %s", self.plan.group, topic, error)
            self.session.routes.watch(topic)
        else:
            self.session.routes.confirm(topic)

    def _known_routes(self) -> Sequence[Route]:
        return self.session.routes.latest_first(self.plan.filters)

    def _doubt_routes(self) -> None:
        for route in self._known_routes():
            self.session.routes.doubt(route.topic)

    def _uses(self, queue: MessageQueue) -> bool:
        return self.owned.uses(queue)

    def _drop(self, queue: MessageQueue) -> None:
        self.owned.drop(queue)

    def _take_notice(self, broker_name: str, response: AttachResponse) -> None:
        kind = response.WhichOneof("content")
        if kind == "accepted":
            others_s = duration_s(response.accepted.others_return)
            self._handovers.accepted(broker_name, others_s)
        if kind in ("accepted", "membership_changed"):
            self._rebalance_wanted.set()
        elif kind == "offsets_reset" and response.offsets_reset.consumer_group == self.plan.group:
            reset = response.offsets_reset
            self.owned.forget(
                MessageQueue(reset.topic, broker_name, queue_id) for queue_id in reset.queue_offsets
            )
            self._rebalance_wanted.set()
        elif kind == "broker_draining":
            parting = start_task(self._part_with(broker_name), f"part-with-{broker_name}")
            self._tasks.append(parting)
            parting.add_done_callback(self._tasks.remove)

    async def _part_with(self, broker_name: str) -> None:
        """Store the offsets of a broker that goes, which waits for that."""
        try:
            await self.owned.store(durable=False, broker_name=broker_name)
        except CallError as error:
            logger.info("offsets of group %s are stored later: %s", self.plan.group, error)
        self._attachments.say_offsets_stored(broker_name)

    def _fail(self, error: CallError) -> None:
        """Stop for good; calls that wait raise the error."""
        if self.failure is None:
            self.failure = error
            logger.error("this member of group %s ends: %s", self.plan.group, error)
            self._assigned.set()
            self.stopped.set()
            self.on_end()

    async def _rebalance_when_wanted(self) -> None:
        """One round of the loop: wait for a notice or the interval, then divide the queues anew."""
        settings = self.plan.settings
        try:
            async with asyncio.timeout(settings.rebalance_interval_s):
                await self._rebalance_wanted.wait()
        except TimeoutError:
            pass
        self._rebalance_wanted.clear()
        try:
            settled = await self._rebalance()
        except CallError as error:
            logger.info("group %s keeps its assignment: %s", self.plan.group, error)
            self.session.failover.note(error, self.plan.filters)
            self._rebalance_wanted.set()
            settled = True
        if settled:
            await self.plan.clock.sleep(settings.rebalance_gap_s_min)
        else:
            # A notice follows for missing members; it must not wait for the gap.
            with suppress(TimeoutError):
                async with asyncio.timeout(settings.rebalance_gap_s_min):
                    await self._rebalance_wanted.wait()
            self._rebalance_wanted.set()

    async def _rebalance(self) -> bool:
        """Own this member's part of the queues, and no others; keep all if the members are unknown.

        Returns:
            False if no topic is known yet, or no broker knows this member yet.
        """
        if self._by_hand:
            # A queue that was dropped, because its offset was reset, is taken over again.
            self.owned.change_to(self._assigned_by_hand, handover_s=0.0)
            return True
        routes = self._known_routes()
        self._attachments.follow(routes)
        if self.plan.model == "broadcasting":
            everything = (queue for route in routes for queue in route.read_queues)
            self.owned.change_to(everything, handover_s=0.0)
            self._assigned.set()
            return bool(routes)
        shares = await self._group_view.shares(routes)
        if shares is None:
            return False
        wanted = {queue for share in shares for queue in share.queues}
        if getattr(self.plan.strategy, "needs_owners", False):
            self._attachments.change(membership_of(self.plan, wanted))
        handover_s = self._handovers.wait_s(share.member_count for share in shares)
        self.owned.change_to(wanted, handover_s=handover_s)
        self._assigned.set()
        return bool(routes)


def _stopped_meanwhile() -> ClientNotRunning:
    return ClientNotRunning("the consumer was stopped while it started")


def _nothing() -> None:
    pass
