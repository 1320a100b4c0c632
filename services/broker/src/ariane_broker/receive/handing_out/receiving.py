"""Receiving: hands out the messages that are ready, or lets the call wait for some."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.members.membership import ConsumeModel
from ariane_broker.errors.receiving import group_owns_queues
from ariane_broker.filters.filter import filter_for
from ariane_broker.groups.group_changes import GroupChanges
from ariane_broker.log.cold_reads import ColdReads
from ariane_broker.receive.handing_out.attempts import Attempts
from ariane_broker.receive.handing_out.hand_outs import HandOuts
from ariane_broker.receive.handing_out.lane import Filters, Lane
from ariane_broker.receive.handing_out.receive_order import HandedOut, ReceiveOrder
from ariane_broker.receive.handing_out.waiting_line import WaitingLine, WaitingLines
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.turn_budget import TurnBudget
from ariane_servicekit import AnswerLease
from ariane_storage.disk.cold import BytesCold


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

    async def receive(self, order: ReceiveOrder, lease: AnswerLease) -> list[HandedOut]:
        """Hand out the messages that are ready, or wait for some.

        Args:
            order: The order, defaults filled in.
            lease: Memory for the answer; the sender of the answer releases it.

        Returns:
            The messages; none if the hold time ended.

        Raises:
            ServiceError: GROUP_NAME_ILLEGAL, GROUP_NOT_FOUND, ACCESS_DENIED, TOPIC_NOT_FOUND,
                TOPIC_NOT_READABLE, SUBSCRIPTION_CONFLICT, FILTER_EXPRESSION_INVALID,
                GROUP_OWNS_QUEUES, HELD_PULLS_EXHAUSTED; FLUSH_UNCONFIRMED before the first message.
            StorageError: Nothing is handed out.
        """
        filters = {topic: filter_for(each) for topic, each in order.filters.items()}
        self.hand_outs.queue_counts(order)
        await self.group_changes.admit(order.group, client_id=order.client_id)
        self.group_changes.check_not_paused(order.group)
        self.clients.check_receive(order.group, order.client_id, order.filters, order.hold_seconds)
        self._check_nobody_owns(order.group)
        await self.log.secured()
        self.attempts.repeat(order.group, order.attempt_id, self.now_ms())
        handed = await self._receive(order, filters, lease)
        self.attempts.note(order.group, order.attempt_id, handed)
        return handed

    async def _receive(
        self, order: ReceiveOrder, filters: Filters, lease: AnswerLease
    ) -> list[HandedOut]:
        """Hand out the messages that are ready, or wait for some."""
        deadline = self.monotonic() + order.hold_seconds
        with self.lines.lane(order, filters) as (line, lane):
            while True:
                handed = await self._hand_out(order, filters, lease, line, lane)
                remaining = deadline - self.monotonic()
                if handed or remaining <= 0:
                    return handed
                handed, again = await line.wait(lane, order, filters, lease, remaining)
                if handed or not again:
                    return handed

    async def _hand_out(
        self,
        order: ReceiveOrder,
        filters: Filters,
        lease: AnswerLease,
        line: WaitingLine,
        lane: Lane,
    ) -> list[HandedOut]:
        """Hand out ready messages, looking at some queues in each turn of the loop.

        Reads on past all that the filters leave out.
        """
        walk = self.hand_outs.walk(order)
        queues = walk.take()
        while queues:
            granted = await lease.take(order.size_bytes_max)
            used = 0
            try:
                line.serve()  # Calls that wait already are served first.
                look = self.hand_outs.hand_out(
                    order, filters, queues, bytes_max=granted, budget=TurnBudget()
                )
                used = sum(out.size_bytes for out in look.handed)
                missing = None
            except BytesCold as cold:
                missing = cold
            finally:
                lease.settle(granted, used)
            if missing is not None:
                await self.cold_reads.fetch(order.group, missing, order.group)
                continue
            if look.handed:
                return look.handed
            # In the turn that looked at them, so that no arrival is missed.
            lane.watch(queues)
            walk.put_back(look.left)
            queues = walk.take()
            if queues:
                await asyncio.sleep(0)
        return []

    def _check_nobody_owns(self, group: str) -> None:
        for client in self.clients.owners(group):
            if client.memberships[group].model is ConsumeModel.CLUSTERING:
                raise group_owns_queues(group, client.client_id)
