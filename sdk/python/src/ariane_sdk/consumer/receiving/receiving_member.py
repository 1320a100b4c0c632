"""A receiving consumer while it runs: a member of its group that owns no queues."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any
from weakref import WeakSet

from ariane.broker.v1.client_service_pb2 import CONSUME_MODEL_RECEIVING, Membership
from ariane.broker.v1.receive_service_pb2 import ReceiveOrder
from ariane_sdk.client.lost_messages import LostMessages
from ariane_sdk.client.operator_answers import OperatorAnswers
from ariane_sdk.client.session import Session
from ariane_sdk.consumer.group.attachments import Attachments
from ariane_sdk.consumer.offsets.group_start import GroupStart
from ariane_sdk.consumer.offsets.offset_keeping import BrokerOffsets
from ariane_sdk.consumer.receiving.asked_brokers import AskedBrokers, MemberBrokers
from ariane_sdk.consumer.receiving.asking import Asking
from ariane_sdk.consumer.receiving.fetched import Fetched
from ariane_sdk.consumer.receiving.primaries import Primaries
from ariane_sdk.consumer.receiving.receipt_reports import ReceiptReports
from ariane_sdk.consumer.receiving.receive_calls import (
    DONE,
    ReceiveCalls,
    Settlement,
    failed,
)
from ariane_sdk.errors import CallError
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.net.timestamps import duration_s
from ariane_sdk.runtime.clock import Clock


class ReceivingMember:
    """Receives from the brokers of its topics, and is attached to them."""

    def __init__(
        self,
        session: Session,
        order: ReceiveOrder,
        *,
        from_oldest: bool,
        lost: LostMessages,
        call_timeout_s: float,
        clock: Clock,
        answers: OperatorAnswers,
    ) -> None:
        """Receive nothing yet.

        ``from_oldest`` tells where the group begins in a topic that is new to it.
        ``lost`` hears of messages that brokers have lost. ``call_timeout_s`` is
        how long one call may take, beyond its hold time.
        """
        self._clock = clock
        self._askings: WeakSet[Asking] = WeakSet()
        self._invisible_s = duration_s(order.invisible_duration)
        topics = [subscription.topic for subscription in order.subscriptions]
        primaries = Primaries(session.routes, topics, clock)
        self.calls = ReceiveCalls(
            session.connections,
            order.consumer_group,
            primaries,
            timeout_s=call_timeout_s,
        )
        """Settles messages."""
        starts: GroupStart | None = None
        if not from_oldest:
            # A broker alone cannot tell a group that is new from one that consumes elsewhere.
            group = order.consumer_group
            starts = GroupStart(
                session.calls,
                BrokerOffsets(session.calls, group=group, client_id=order.client_id),
                session.routes.cached,
                group=group,
                start="latest",
                clock=clock,
            )
        self.receipts = ReceiptReports(
            self.calls, order.client_id, invisible_s=self._invisible_s, clock=clock
        )
        """Asks brokers to renew invisible times."""
        self._attachments = Attachments(
            Membership(
                consumer_group=order.consumer_group,
                model=CONSUME_MODEL_RECEIVING,
                subscriptions=order.subscriptions,
            ),
            session.connections,
            client_id=order.client_id,
            clock=clock,
            call_timeout_s=call_timeout_s,
            on_notice=_nothing,
            on_fatal=self._refuse,
            on_turn=_nothing,
            answers=answers,
        )
        self._brokers = MemberBrokers(
            session.routes,
            session.connections,
            order,
            primaries=primaries,
            attachments=self._attachments,
            receipts=self.receipts,
            starts=starts,
            lost=lost,
            clock=clock,
        )
        self._asked = {keeps: AskedBrokers(self._brokers, keeps=keeps) for keeps in (False, True)}

    def asking(
        self, fetched: Fetched, *, count_max: int, timeout_s: float | None, keeps: bool
    ) -> Asking:
        """Make an ``Asking`` for all brokers.

        Args:
            fetched: As in ``Asking``.
            count_max: Messages of a batch.
            timeout_s: Ends after this time without a message; None: never.
            keeps: Whether brokers renew the invisible time of messages by themselves.
        """
        asking = Asking(
            self._asked[keeps],
            fetched,
            count_max=count_max,
            timeout_s=timeout_s,
            clock=self._clock,
            invisible_s=math.inf if keeps else self._invisible_s,
        )
        self._askings.add(asking)
        return asking

    async def end_asking(self) -> None:
        """End the calls of the application that wait for messages."""
        await asyncio.gather(*(asking.close() for asking in list(self._askings)))

    def ack(
        self,
        *messages: ReceivedMessage,
        timeout_s: float | None = None,
        patience_s: float = 0.0,
    ) -> Coroutine[Any, Any, None]:
        """Settle messages as done; the arguments and errors are those of ``ReceiveCalls.settle``.

        Without patience, the caller makes the call again until the broker has answered.
        """
        return self.calls.settle(messages, DONE, timeout_s=timeout_s, patience_s=patience_s)

    async def nack(
        self,
        *messages: ReceivedMessage,
        delay_s: float | None = None,
        dead_letter: bool = False,
        cause: str = "",
        patience_s: float = 0.0,
    ) -> None:
        """Settle messages as failed; likewise."""
        outcome = failed(delay_s, dead_letter=dead_letter, cause=cause)
        await self.calls.settle(messages, outcome, patience_s=patience_s)

    async def extend(
        self, *messages: ReceivedMessage, seconds: float, patience_s: float = 0.0
    ) -> None:
        """Set the invisible time of messages from now on; likewise."""
        await self.receipts.report_before(messages)
        outcome = Settlement(invisible_s=seconds)
        await self.calls.settle(messages, outcome, patience_s=patience_s)

    async def close(self) -> None:
        """Leave the group."""
        await self.receipts.close()
        await self._attachments.close()

    def _refuse(self, error: CallError) -> None:
        self._brokers.refuse(error)


def _nothing(*_: object) -> None:
    """Ignore a notice: a member without queues needs none."""
