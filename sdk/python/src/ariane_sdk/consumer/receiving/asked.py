"""Calls that ask brokers for messages, as whoever waits for one of several sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from ariane_sdk.consumer.receiving.receive_calls import Answer
from ariane_sdk.errors import CallError, DeadlinePassed, ServiceUnavailable
from ariane_sdk.net.answers import Call
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.log import logger


class Asked(Protocol):
    """A call that is on its way, or over."""

    def done(self) -> bool:
        """Whether it is over."""
        ...

    def result(self) -> Answer:
        """The answer of a call that is over.

        Raises:
            CallError: It failed.
            MessagesLost: The broker has lost messages, and that is an error.
            RecordDamaged: The answer cannot be decoded.
        """
        ...

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Call back with it when it is over, at once if it is."""
        ...

    def cancel(self) -> object:
        """Give it up. Messages on their way stay invisible to all until their time is over."""
        ...


class Brokers(Protocol):
    """The brokers of the topics."""

    def known(self) -> Mapping[str, BrokerRoute] | None:
        """They by address, the same object while nothing has changed; None: they are to be found.

        Those that have queues of the topics now.
        """
        ...

    async def find(self) -> Mapping[str, BrokerRoute]:
        """Find them in the present routes.

        Raises:
            RouteNotFound: No live broker carries a topic.
            CallError: The group may not receive.
        """
        ...

    def ask(self, broker: BrokerRoute, count_max: int, hold_s: float) -> Asked:
        """Ask one for so many messages; it holds the call for so many seconds if it has none."""
        ...

    def doubt(self) -> None:
        """One does not answer, or has become a replica."""
        ...


class AskedCall:
    """One call to a broker, without a task; it ends at its deadline at the latest.

    Its answer is taken in the turn of the loop in which it comes: the time that its messages are
    held begins then, however long they wait for the application.
    """

    __slots__ = ("_answer", "_call", "_callbacks", "_error", "_take")

    def __init__(self, call: Call[bytes], take: Callable[[Call[bytes]], Answer]) -> None:
        """``take`` makes the answer of the call once it is over, or raises why there is none."""
        self._call = call
        self._take = take
        self._answer: Answer | None = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[Any], object]] = []
        call.add_done_callback(self._end)

    def done(self) -> bool:
        """As ``Asked``."""
        return self._answer is not None or self._error is not None

    def result(self) -> Answer:
        """As ``Asked``."""
        if self._answer is None:
            raise self._error or asyncio.InvalidStateError("the call is not over")
        return self._answer

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """As ``Asked``."""
        if self._answer is None and self._error is None:
            self._callbacks.append(callback)
        else:
            callback(self)

    def cancel(self) -> None:
        """As ``Asked``."""
        self._call.cancel()

    def _end(self, call: Call[bytes]) -> None:
        try:
            self._answer = self._take(call)
        except Exception as error:  # noqa: BLE001 - raised to whoever takes the answer.
            self._error = error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:  # noqa: BLE001 - logged: the others belong to other consumers.
                logger.exception("a callback of a call for messages failed")


def is_passing(error: CallError) -> bool:
    """Whether a broker that failed so may answer soon, there or elsewhere."""
    # A broker that has become a replica refuses; its address is of no use then.
    return error.retriable or isinstance(error, ServiceUnavailable | DeadlinePassed)


def is_outdated(asked: Asked) -> bool:
    """Whether a call that is over failed in a way that may have passed since."""
    try:
        asked.result()
    except CallError as error:
        return is_passing(error)
    except Exception:  # noqa: BLE001 - raised to whoever takes the answer.
        return False
    return False


async def answer_of(asked: Asked) -> Answer:
    """Wait for an answer; a wait that is cancelled gives the call up. Errors as of ``result``."""
    try:
        await all_over((asked,))
    except asyncio.CancelledError:
        asked.cancel()
        raise
    return asked.result()


async def all_over(several: Sequence[Asked]) -> None:
    """Wait until some calls are over."""
    for asked in several:
        if not asked.done():
            over = asyncio.get_running_loop().create_future()
            asked.add_done_callback(partial(wake, over))
            await over


def wake(waiting: asyncio.Future[None], _: object = None) -> None:
    """End a wait, if it has not ended."""
    if not waiting.done():
        waiting.set_result(None)
