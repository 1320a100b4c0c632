"""A receiving consumer while it runs: a member of its group that owns no queues."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any
from weakref import WeakSet

from ariane.broker.v1.client_service_pb2 import CONSUME_MODEL_RECEIVING, Membership
from ariane.broker.v1.receive_service_pb2 import ReceiveOrder
from ariane_sdk.client.lost_messages import LostMessages
from ariane_sdk.client.operator_answers import OperatorAnswers
from ariane_sdk.client.session import Session
from ariane_sdk.consumer.group.attachments import Attachments
from ariane_sdk.consumer.group.pause_notice import PauseNotice
from ariane_sdk.consumer.offsets.group_start import BEGIN_S, GroupStart
from ariane_sdk.consumer.offsets.offset_keeping import BrokerOffsets
from ariane_sdk.consumer.receiving.asking import Asking, Receive
from ariane_sdk.consumer.receiving.fetched import Fetched
from ariane_sdk.consumer.receiving.only_broker import OnlyBroker
from ariane_sdk.consumer.receiving.primaries import Primaries
from ariane_sdk.consumer.receiving.receipt_reports import ReceiptReports
from ariane_sdk.consumer.receiving.receive_calls import (
    DONE,
    Answer,
    ReceiveCalls,
    Settlement,
    failed,
)
from ariane_sdk.errors import CallError
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.net.timestamps import duration_s
from ariane_sdk.routing.route import BrokerRoute, Route
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
        self._routes = session.routes
        self._order = order
        self._topics = [subscription.topic for subscription in order.subscriptions]
        self._clock = clock
        self._refusal: CallError | None = None
        self._only: BrokerRoute | None = None
        self._only_in: list[Route | None] = []
        self._pause = PauseNotice()
        self._askings: WeakSet[Asking] = WeakSet()
        self._primaries = Primaries(session.routes, self._topics, clock)
        self.calls = ReceiveCalls(
            session.connections,
            order.consumer_group,
            self._primaries,
            timeout_s=call_timeout_s,
            clock=clock,
            lost=lost,
        )
        """Settles messages."""
        self.only_broker = OnlyBroker(
            self.calls, order, pause=self._pause, doubt=self._primaries.doubt
        )
        """Asks the only broker, where there is but one."""
        self._begun: set[str] = set()
        """The brokers at which the group has begun; only asked where new messages are wanted."""
        self._starts: GroupStart | None = None
        if not from_oldest:
            # A broker alone cannot tell a group that is new from one that consumes elsewhere.
            group = order.consumer_group
            self._starts = GroupStart(
                session.calls,
                BrokerOffsets(session.calls, group=group, client_id=order.client_id),
                session.routes.cached,
                group=group,
                start="latest",
                clock=clock,
            )
        invisible_s = duration_s(order.invisible_duration)
        self.receipts = ReceiptReports(
            self.calls, order.client_id, invisible_s=invisible_s, clock=clock
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
        order = ReceiveOrder()
        order.CopyFrom(self._order)
        order.message_count_max = count_max
        asking = Asking(
            partial(self._receive, self.receipts.receive if keeps else self.calls.receive),
            self._attached_brokers if keeps else self._brokers,
            order,
            fetched,
            clock=self._clock,
            timeout_s=timeout_s,
            doubt=self._primaries.doubt,
            keeps=keeps,
        )
        self._askings.add(asking)
        return asking

    def only(self) -> BrokerRoute | None:
        """The only broker of all topics, if it is known that there is but one.

        None also where more is to be done before it is asked: only ``asking`` does that.
        """
        if self._only is None or self._starts is not None:
            return None
        routes = list(map(self._routes.known.get, self._topics))
        # Mostly the same objects: to compare those takes no call for each.
        if routes != self._only_in:
            self._only = None
        return self._only

    async def end_asking(self) -> None:
        """End the calls of the application that wait for messages."""
        self.only_broker.end()
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

    async def _receive(
        self, receive: Receive, broker: BrokerRoute, order: ReceiveOrder, hold_s: float
    ) -> Answer:
        """Receive from a broker at which the group has begun."""
        if self._starts is not None and broker.broker_name not in self._begun:
            await self._begin(self._starts, broker)
            self._begun.add(broker.broker_name)
        try:
            answer = await receive(broker, self._order_at(broker, order), hold_s)
        except CallError as error:
            self._pause.refused(broker.broker_name, error)
            raise
        self._pause.answered(broker.broker_name)
        return answer

    def _order_at(self, broker: BrokerRoute, order: ReceiveOrder) -> ReceiveOrder:
        """The order without topics that the broker does not have: it would refuse all."""
        there = {
            route.topic
            for route in self._routes.latest_first(self._topics)
            if any(each.broker_name == broker.broker_name for each in route.brokers)
        }
        wanted = [each for each in order.subscriptions if each.topic in there]
        if not wanted or len(wanted) == len(order.subscriptions):
            return order
        own = ReceiveOrder()
        own.CopyFrom(order)
        del own.subscriptions[:]
        own.subscriptions.extend(wanted)
        return own

    async def _begin(self, starts: GroupStart, broker: BrokerRoute) -> None:
        routes = self._routes.latest_first(self._topics)
        name = broker.broker_name
        left = {queue for route in routes for queue in route.read_queues}
        left = {queue for queue in left if queue.broker_name == name}
        while True:
            offsets, unknown = await starts.begin(broker, sorted(left))
            left -= offsets.keys() | unknown
            if not left:
                return
            await self._clock.sleep(BEGIN_S)

    async def _brokers(self) -> dict[str, BrokerRoute]:
        """The brokers of the topics in the present routes, by address.

        A replica is asked while there is no primary: it may be about to become the primary.
        """
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal
        for topic in self._topics:
            await self._routes.get(topic)
        routes = self._routes.latest_first(self._topics)
        if self._starts is not None:
            self._starts.note_topics(set(self._topics))
        self._attachments.follow(routes)
        brokers = {
            each.read_address: each
            for route in routes
            for each in route.brokers
            if each.read_address
        }
        self._note_only(brokers)
        return brokers

    def _note_only(self, brokers: Mapping[str, BrokerRoute]) -> None:
        """Note the only broker, if there is but one, and it has all topics."""
        self._only, self._only_in = None, list(map(self._routes.known.get, self._topics))
        if len(brokers) == 1:
            (only,) = brokers.values()
            if all(route and route.broker(only.broker_name) for route in self._only_in):
                self._only = only

    async def _attached_brokers(self) -> dict[str, BrokerRoute]:
        """The same, once this member is attached: only then do brokers renew invisible times."""
        brokers = await self._brokers()
        await self._attachments.wait_tried()
        return brokers

    def _refuse(self, error: CallError) -> None:
        self._refusal, self._only = error, None


def _nothing(*_: object) -> None:
    """Ignore a notice: a member without queues needs none."""
