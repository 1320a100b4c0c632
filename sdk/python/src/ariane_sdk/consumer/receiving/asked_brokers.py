"""The brokers of a receiving member's topics, and the calls that ask them for messages."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from functools import partial
from typing import Final

from google.protobuf.message import DecodeError
from grpc.aio import AioRpcError

from ariane.broker.v1.receive_service_pb2 import ReceiveOrder
from ariane_sdk.client.broker_calls import peer_name
from ariane_sdk.client.lost_messages import LostMessages
from ariane_sdk.consumer.group.attachments import Attachments
from ariane_sdk.consumer.group.pause_notice import PauseNotice
from ariane_sdk.consumer.offsets.group_start import BEGIN_S, GroupStart
from ariane_sdk.consumer.receiving.asked import Asked, AskedCall, answer_of
from ariane_sdk.consumer.receiving.primaries import Primaries
from ariane_sdk.consumer.receiving.receipt_reports import ReceiptReports
from ariane_sdk.consumer.receiving.receive_calls import ANSWER_SECONDS, Answer, receive_request
from ariane_sdk.consumer.receiving.receive_wire import receive_answer
from ariane_sdk.errors import CallError, RecordDamaged
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.answers import Call, failure_of
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.timestamps import duration_s
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock

HELD_SHARE: Final = 0.95
"""Share of the invisible time for which a client relies on messages. The broker counts it from
before its answer, and its clock may be faster by 5 %."""


class MemberBrokers:
    """Finds the brokers, and asks them."""

    def __init__(
        self,
        routes: Routes,
        connections: Connections,
        order: ReceiveOrder,
        *,
        primaries: Primaries,
        attachments: Attachments,
        receipts: ReceiptReports,
        starts: GroupStart | None,
        lost: LostMessages,
        clock: Clock,
    ) -> None:
        """No broker is known yet; ``lost`` hears of messages that brokers have lost.

        ``order`` is what each is asked for. ``starts`` begins the group at a broker before it is
        asked; None where it begins with the oldest messages.
        """
        self._routes = routes
        self._order = order
        self._topics = [subscription.topic for subscription in order.subscriptions]
        self._connections = connections
        self._lost = lost
        self._primaries = primaries
        self._attachments = attachments
        self._receipts = receipts
        self._starts = starts
        self._clock = clock
        self._held_s = duration_s(order.invisible_duration) * HELD_SHARE
        self._pause = PauseNotice()
        self._begun: set[str] = set()
        self._refusal: CallError | None = None
        self._found: dict[str, BrokerRoute] | None = None
        self._found_in: list[Route | None] = []
        self._is_tried = False
        self._requests: dict[str, tuple[int, float, bytes]] = {}

    def refuse(self, error: CallError) -> None:
        """Have the next who looks for brokers raise why the member may not receive."""
        self._refusal = error

    def known(self, *, keeps: bool) -> Mapping[str, BrokerRoute] | None:
        """As ``Brokers``; ``keeps`` tells whether brokers renew invisible times."""
        if self._found is None or self._refusal is not None or (keeps and not self._is_tried):
            return None
        # Mostly the same objects: to compare those takes no call for each.
        if list(map(self._routes.known.get, self._topics)) != self._found_in:
            self._found = None
        return self._found

    async def find(self, *, keeps: bool) -> Mapping[str, BrokerRoute]:
        """As ``Brokers``.

        A replica is asked while there is no primary: it may be about to become the primary. Brokers
        renew invisible times only for members that are attached, so these wait for that.
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
        found = {
            each.read_address: each
            for route in routes
            for each in route.brokers
            if each.read_address
        }
        self._requests.clear()
        self._is_tried = False
        self._found, self._found_in = found, list(map(self._routes.known.get, self._topics))
        if keeps:
            await self._attachments.wait_tried()
            self._is_tried = self._found is found
        return found

    def ask(self, broker: BrokerRoute, count_max: int, hold_s: float, *, keeps: bool) -> Asked:
        """As ``Brokers``; a task only where the group has yet to begin at the broker."""
        if self._starts is not None and broker.broker_name not in self._begun:
            asking = self._begin_and_ask(self._starts, broker, count_max, hold_s, keeps=keeps)
            return asyncio.create_task(asking, name=f"ariane-receive-{broker.read_address}")
        address, known = broker.read_address, self._requests.get(broker.broker_name)
        if known is None or known[:2] != (count_max, hold_s):  # Mostly the same one as before.
            request = receive_request(self._order_at(broker), hold_s, count_max)
            known = self._requests[broker.broker_name] = count_max, hold_s, request
        call = self._connections.receive_records(address, known[2], hold_s + ANSWER_SECONDS)
        return AskedCall(call, partial(self._taken, broker, address, keeps=keeps))

    def doubt(self) -> None:
        """As ``Brokers``."""
        self._primaries.doubt()

    def _taken(
        self, broker: BrokerRoute, address: str, call: Call[bytes], *, keeps: bool
    ) -> Answer:
        """The answer of a call that has just ended.

        Raises:
            MessagesLost: The broker has lost messages, and that is an error.
            CallError: The broker refused or did not answer.
            RecordDamaged: The answer cannot be decoded.
        """
        held_until_s = self._clock.monotonic_s() + (math.inf if keeps else self._held_s)
        name = broker.broker_name
        try:
            queues = receive_answer(call.result())
        except DecodeError as error:
            raise RecordDamaged(f"{peer_name(broker)}: {error}") from error
        except (AioRpcError, asyncio.CancelledError) as error:
            failure = failure_of(error, peer_name(broker))
            self._pause.refused(name, failure)
            raise failure from error
        for queue in queues:
            if queue.head.lost:
                at = MessageQueue(queue.head.topic, name, queue.head.queue_id)
                self._lost.note(at, queue.head.lost)
        self._pause.answered(name)
        answer = Answer(name, address, queues, held_until_s)
        if keeps:
            self._receipts.note(answer)
        return answer

    def _order_at(self, broker: BrokerRoute) -> ReceiveOrder:
        """The order without topics that the broker does not have: it would refuse all."""
        there = {
            route.topic
            for route in self._routes.latest_first(self._topics)
            if any(each.broker_name == broker.broker_name for each in route.brokers)
        }
        wanted = [each for each in self._order.subscriptions if each.topic in there]
        if not wanted or len(wanted) == len(self._order.subscriptions):
            return self._order
        own = ReceiveOrder()
        own.CopyFrom(self._order)
        del own.subscriptions[:]
        own.subscriptions.extend(wanted)
        return own

    async def _begin_and_ask(
        self, starts: GroupStart, broker: BrokerRoute, count_max: int, hold_s: float, *, keeps: bool
    ) -> Answer:
        routes = self._routes.latest_first(self._topics)
        name = broker.broker_name
        left = {queue for route in routes for queue in route.read_queues}
        left = {queue for queue in left if queue.broker_name == name}
        while left:
            offsets, unknown = await starts.begin(broker, sorted(left))
            left -= offsets.keys() | unknown
            if left:
                await self._clock.sleep(BEGIN_S)
        self._begun.add(name)
        return await answer_of(self.ask(broker, count_max, hold_s, keeps=keeps))


class AskedBrokers:
    """The brokers as one asks them who wants them to renew invisible times, or does not."""

    def __init__(self, brokers: MemberBrokers, *, keeps: bool) -> None:
        self.known = partial(brokers.known, keeps=keeps)
        """As ``Brokers``."""
        self.find = partial(brokers.find, keeps=keeps)
        """As ``Brokers``."""
        self.ask = partial(brokers.ask, keeps=keeps)
        """As ``Brokers``."""
        self.doubt = brokers.doubt
        """As ``Brokers``."""
