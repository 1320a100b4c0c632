"""Having brokers keep messages invisible: said of what has come, until brokers have heard it.

A broker cannot know whether its answers arrive. So a client says what it has, of all answers of a
moment together::

    answers     a   b c          d
    said             (a b c)         (d)      each within a quarter of the invisible duration
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from ariane.broker.v1.receive_service_pb2 import ReceiveOrder
from ariane_sdk.consumer.receiving.receive_calls import Answer, ReceiveCalls
from ariane_sdk.errors import CallError
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task

WAIT_S_MAX: Final = 1.0
"""A broker is told within this time; earlier where messages are invisible for a short time."""
SHARE: Final = 4
"""Of the invisible duration may pass one part in so many before a broker is told."""
RECEIPTS_MAX: Final = 4096
"""A broker takes so many in one call."""


class _Kept(NamedTuple):
    """A receipt that is to be said.

    Attributes:
        broker_name: Who gave it.
        address: Where.
        token: The receipt.
        until_s: Then it is too late, by the monotonic clock.
    """

    broker_name: str
    address: str
    token: bytes
    until_s: float


class Keeping:
    """Tells brokers what a consumer has."""

    def __init__(
        self, calls: ReceiveCalls, client_id: str, *, invisible_s: float, clock: Clock
    ) -> None:
        """Take the parts.

        Args:
            calls: Calls brokers.
            client_id: The consumer.
            invisible_s: How long its messages stay invisible by themselves.
            clock: Paces.
        """
        self._calls = calls
        self._client_id = client_id
        self._wait_s = min(WAIT_S_MAX, invisible_s / SHARE)
        self._clock = clock
        self._waiting: list[_Kept] = []
        self._turn = asyncio.Lock()
        self._saying: asyncio.Task[None] | None = None

    async def receive(self, broker: BrokerRoute, order: ReceiveOrder, hold_s: float) -> Answer:
        """As ``ReceiveCalls.receive``; the broker is told soon that it keeps what came."""
        answer = await self._calls.receive(broker, order, hold_s)
        self._waiting += [
            _Kept(answer.broker_name, answer.address, queue.head.receipt, answer.held_until_s)
            for queue in answer.queues
        ]
        if self._waiting and (self._saying is None or self._saying.done()):
            self._saying = start_task(self._say_on(), "keep-invisible")
        return answer._replace(held_until_s=math.inf)

    async def say_before(self, messages: Iterable[ReceivedMessage]) -> None:
        """Have brokers told before something else is said of messages.

        Whom it does not reach hears it never: it would undo what is said then.
        """
        if not self._waiting:
            return
        await self._say()
        tokens = {message.receipt.token for message in messages}
        self._waiting = [each for each in self._waiting if each.token not in tokens]

    async def close(self) -> None:
        """Say nothing any more."""
        self._waiting.clear()
        if self._saying is not None:
            self._saying.cancel()
            await asyncio.wait([self._saying])

    async def _say_on(self) -> None:
        while self._waiting:
            await self._clock.sleep(self._wait_s)
            await self._say()

    async def _say(self) -> None:
        async with self._turn:
            by_broker: dict[str, list[_Kept]] = defaultdict(list)
            for each in self._waiting:
                by_broker[each.broker_name].append(each)
            await asyncio.gather(
                *(
                    self._say_some(some[first : first + RECEIPTS_MAX])
                    for some in by_broker.values()
                    for first in range(0, len(some), RECEIPTS_MAX)
                )
            )

    async def _say_some(self, some: list[_Kept]) -> None:
        """Tell one broker; what it has not heard is said again while it is of use."""
        name, tokens = some[0].broker_name, [each.token for each in some]
        try:
            await self._calls.keep(name, some[-1].address, self._client_id, tokens)
            over = set(tokens)
        except CallError as error:
            logger.info("broker %s was not told what it keeps invisible: %s", name, error)
            now_s = self._clock.monotonic_s()
            over = {each.token for each in some if each.until_s <= now_s}
        self._waiting = [each for each in self._waiting if each.token not in over]
