"""Receiving: hands out the messages that are ready, or lets the call wait for some."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, TypeAlias

from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.members.membership import ConsumeModel
from ariane_broker.errors.receiving import group_owns_queues
from ariane_broker.filters.filter import filter_for
from ariane_broker.groups.group_changes import GroupChanges
from ariane_broker.log.cold_reads import ColdReads
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out.attempts import Attempts
from ariane_broker.receive.handing_out.hand_outs import HandOuts
from ariane_broker.receive.handing_out.lane import Filters, Lane
from ariane_broker.receive.handing_out.queue_walk import QueueWalk
from ariane_broker.receive.handing_out.receive_order import HandedOut, Look, ReceiveOrder
from ariane_broker.receive.handing_out.waiting_line import WaitingLine, WaitingLines
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.turn_budget import TurnBudget
from ariane_servicekit import AnswerLease
from ariane_storage.disk.cold import BytesCold

_Received: TypeAlias = list[HandedOut] | Coroutine[Any, Any, list[HandedOut]]


class _Asked(NamedTuple):
    """A call: its order, the filters of its topics, and memory for its answer."""

    order: ReceiveOrder
    filters: Filters
    lease: AnswerLease


@dataclass(frozen=True, slots=True, eq=False)
class Receiving:
    """Serves receiving clients."""

    hand_outs: HandOuts
    lines: WaitingLines
    log: ReceiveLog
    _: KW_ONLY
    group_changes: GroupChanges
    clients: ClientTable
    attempts: Attempts
    cold_reads: ColdReads
    monotonic: Callable[[], float]
    now_ms: Callable[[], int]

    def receive(self, order: ReceiveOrder, lease: AnswerLease) -> _Received:
        """Hand out the messages that are ready, at once, or wait for some.

        Args:
            order: The order, defaults filled in.
            lease: Memory for the answer; the sender of the answer releases it.

        Returns:
            The messages; none if the hold time ended. Or what is to be awaited for them, in this
            turn of the loop.

        Raises:
            ServiceError: GROUP_NAME_ILLEGAL, GROUP_NOT_FOUND, ACCESS_DENIED, TOPIC_NOT_FOUND,
                TOPIC_NOT_READABLE, SUBSCRIPTION_CONFLICT, FILTER_EXPRESSION_INVALID,
                GROUP_OWNS_QUEUES, HELD_PULLS_EXHAUSTED; FLUSH_UNCONFIRMED before the first message.
            StorageError: Nothing is handed out.
        """
        filters = {topic: filter_for(each) for topic, each in order.filters.items()}
        counts = self.hand_outs.queue_counts(order)
        if not (self.log.is_secured and self.group_changes.may_receive(order.group)):
            return self._receive_first(order, lease)
        self.clients.check_receive(order.group, order.client_id, order.filters, order.hold_seconds)
        self._check_nobody_owns(order.group)
        if order.attempt_id:
            return self._receive_attempt(order, filters, lease)
        return self._look(_Asked(order, filters, lease), counts)

    async def _receive_first(self, order: ReceiveOrder, lease: AnswerLease) -> list[HandedOut]:
        """Receive for a group that may be new, or before the secret of receipts is safe."""
        await self.group_changes.admit(order.group, client_id=order.client_id)
        await self.log.secured()
        handed = self.receive(order, lease)
        return handed if isinstance(handed, list) else await handed

    async def _receive_attempt(
        self, order: ReceiveOrder, filters: Filters, lease: AnswerLease
    ) -> list[HandedOut]:
        self.attempts.repeat(order.group, order.attempt_id, self.now_ms())
        handed = await self._receive(order, filters, lease)
        self.attempts.note(order.group, order.attempt_id, handed)
        return handed

    async def _receive(
        self, order: ReceiveOrder, filters: Filters, lease: AnswerLease
    ) -> list[HandedOut]:
        counts = self.hand_outs.queue_counts(order)
        handed = self._look(_Asked(order, filters, lease), counts)
        return handed if isinstance(handed, list) else await handed

    def _look(self, asked: _Asked, counts: Mapping[str, int]) -> _Received:
        """Hand out what the first queues have; else look at the others, then wait.

        ``counts`` are those of this turn.
        """
        order, lease = asked.order, asked.lease
        self.lines.serve(order.group)  # Calls that wait already are served first.
        walk = self.hand_outs.walk(counts)
        queues, look = walk.take(), None
        granted = lease.take_at_once(order.size_bytes_max) if queues else 0
        if granted:
            look = self._look_at(queues, asked, counts, granted)
            if isinstance(look, Look) and look.handed:
                return look.handed
        return self._look_on(asked, walk, queues, look)

    async def _look_on(
        self, asked: _Asked, walk: QueueWalk, queues: list[QueueKey], look: Look | BytesCold | None
    ) -> list[HandedOut]:
        """Look at the queues that a walk has left, then wait.

        Args:
            asked: The call.
            walk: The walk.
            queues: What it has taken already.
            look: What a look at these gave; None if there was none.
        """
        order, filters, lease = asked
        deadline = self.monotonic() + order.hold_seconds
        line, lane = self.lines.enter(order, filters)
        try:
            if isinstance(look, Look):
                # In the turn that looked at them, so that no arrival is missed.
                lane.watch(queues)
                walk.put_back(look.left)
            else:
                walk.put_first(queues)
                if look is not None:
                    await self.cold_reads.fetch(order.group, look, order.group)
            while True:
                handed = await self._hand_out(asked, walk, line, lane)
                remaining = deadline - self.monotonic()
                if handed or remaining <= 0:
                    return handed
                handed, again = await line.wait(lane, order, filters, lease, remaining)
                if handed or not again:
                    return handed
                walk = self.hand_outs.walk(self.hand_outs.queue_counts(order))
        finally:
            self.lines.leave(order.group, line, lane)

    async def _hand_out(
        self, asked: _Asked, walk: QueueWalk, line: WaitingLine, lane: Lane
    ) -> list[HandedOut]:
        """Hand out ready messages, looking at some queues in each of the next turns of the loop.

        Reads on past all that the filters leave out.
        """
        order = asked.order
        while queues := walk.take():
            await asyncio.sleep(0)
            granted = await asked.lease.take(order.size_bytes_max)
            line.serve()  # As above.
            counts = self.hand_outs.queue_counts(order)
            look = self._look_at(queues, asked, counts, granted)
            if isinstance(look, BytesCold):
                await self.cold_reads.fetch(order.group, look, order.group)
                walk.put_first(queues)
                continue
            if look.handed:
                return look.handed
            lane.watch(queues)
            walk.put_back(look.left)
        return []

    def _look_at(
        self, queues: list[QueueKey], asked: _Asked, counts: Mapping[str, int], granted: int
    ) -> Look | BytesCold:
        """One look, or what it has not found in memory."""
        used = 0
        try:
            look = self.hand_outs.hand_out(
                asked.order,
                asked.filters,
                counts,
                queues,
                bytes_max=granted,
                budget=TurnBudget(),
            )
            used = sum([out.size_bytes for out in look.handed])
        except BytesCold as cold:
            return cold
        finally:
            asked.lease.settle(granted, used)
        return look

    def _check_nobody_owns(self, group: str) -> None:
        for client in self.clients.owners(group):
            if client.memberships[group].model is ConsumeModel.CLUSTERING:
                raise group_owns_queues(group, client.client_id)
