"""Batches of the only broker of the topics, in the task of the application that waits for them.

Where several brokers are asked (``asking``), each has a task, and a line leads from the tasks to
the application. One broker needs neither: its call is begun, awaited and decoded by who wants its
messages. As there, a call outlives a wait that is given up, and its messages are not lost::

    the application    receive_batch ... batch        receive_batch ... cancelled
    the broker               call ... answer                call ............. answer: kept
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from grpc.aio import AioRpcError

from ariane.broker.v1.receive_service_pb2 import ReceiveOrder, ReceiveRecordsRequest
from ariane_sdk.client.broker_calls import peer_name
from ariane_sdk.consumer.group.pause_notice import PauseNotice
from ariane_sdk.consumer.receiving.fetched import Batch, Fetched
from ariane_sdk.consumer.receiving.receive_calls import (
    ANSWER_SECONDS,
    HOLD_S,
    ReceiveCalls,
    messages_of,
    receive_request,
)
from ariane_sdk.errors import CallError, ClientNotRunning, DeadlinePassed, ServiceUnavailable
from ariane_sdk.net.answers import Call, failure_of
from ariane_sdk.net.timestamps import duration_s
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.log import logger


class _Wait(NamedTuple):
    """A call that is waited for."""

    broker: BrokerRoute
    """The broker."""
    call: Call[bytes]
    """The call."""
    fetched: Fetched
    """Takes it over once nobody waits."""


def _wake(waiting: asyncio.Future[bool], _: object = None, *, answered: bool) -> None:
    if not waiting.done():
        waiting.set_result(answered)


class OnlyBroker:
    """Asks one broker for one batch after the other."""

    def __init__(
        self,
        calls: ReceiveCalls,
        order: ReceiveOrder,
        *,
        pause: PauseNotice,
        doubt: Callable[[], None],
    ) -> None:
        """``pause`` hears of all answers; ``doubt`` is called when the broker does not answer."""
        self._calls = calls
        self._order = order
        self._pause = pause
        self._doubt = doubt
        self._invisible_s: Final = duration_s(order.invisible_duration)
        self._request = ReceiveRecordsRequest()
        self._asked = (0, math.nan)
        self._waits: dict[asyncio.Future[bool], _Wait] = {}

    async def batch(
        self, broker: BrokerRoute, count_max: int, timeout_s: float, fetched: Fetched
    ) -> Batch | None:
        """The next messages of a broker.

        Args:
            broker: The broker.
            count_max: The most messages.
            timeout_s: The longest wait.
            fetched: Takes over a call that is not waited for any longer.

        Returns:
            The messages; none if the hold or the wait is over; None if the call failed in a way
            that may pass.

        Raises:
            ClientNotRunning: The consumer was closed.
            CallError: The group may not receive.
            RecordDamaged: The answer cannot be decoded.
        """
        hold_s = max(0.0, min(HOLD_S, timeout_s))
        if self._asked != (count_max, hold_s):
            self._request = receive_request(self._order, hold_s, count_max)
            self._asked = (count_max, hold_s)
        call = self._calls.begin(broker, self._request, hold_s)
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        self._waits[waiting] = _Wait(broker, call, fetched)
        call.add_done_callback(partial(_wake, waiting, answered=True))
        timer = None
        if timeout_s < hold_s + ANSWER_SECONDS:  # Else the call ends before.
            timer = loop.call_later(timeout_s, partial(_wake, waiting, answered=False))
        try:
            if not await waiting:
                self._leave(waiting)
                return []
        except asyncio.CancelledError:
            self._leave(waiting)
            raise
        finally:
            self._waits.pop(waiting, None)
            if timer is not None:
                timer.cancel()
        try:
            octets = call.result()
        except (AioRpcError, asyncio.CancelledError) as error:
            self._failed(broker, failure_of(error, peer_name(broker)))
            return None
        self._pause.answered(broker.broker_name)
        messages = messages_of(self._calls.answer(broker, octets, self._invisible_s))
        if len(messages) > count_max:
            fetched.kept.append(messages[count_max:])
            del messages[count_max:]
        return messages

    def end(self) -> None:
        """End all waits with ``ClientNotRunning``; answers to come are kept."""
        for waiting in [each for each in self._waits if not each.done()]:
            self._leave(waiting)
            waiting.set_exception(ClientNotRunning("the consumer was closed"))

    def _failed(self, broker: BrokerRoute, error: CallError) -> None:
        self._pause.refused(broker.broker_name, error)
        if not (error.retriable or isinstance(error, ServiceUnavailable | DeadlinePassed)):
            raise error
        logger.info("broker %s gives no messages: %s", broker.broker_name, error)
        self._doubt()

    def _leave(self, waiting: asyncio.Future[bool]) -> None:
        """Leave a call in flight: cancelled, it could leave messages on their way to nobody."""
        wait = self._waits.pop(waiting, None)
        if wait is not None:
            address = wait.broker.read_address
            answer = self._calls.answered(wait.broker, wait.call, self._invisible_s)
            name = f"ariane-receive-{address}"
            wait.fetched.add_late(address, [asyncio.create_task(answer, name=name)])
