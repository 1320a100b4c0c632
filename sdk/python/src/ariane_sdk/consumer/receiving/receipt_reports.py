"""Asking brokers to renew the invisible time of messages that have arrived here.

A broker cannot know whether its answers arrive. So a client reports the receipts that it has, of
all answers of a moment together::

    answers     a   b c          d
    reported     (a b c)         (d)      each within a quarter of the invisible time
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from ariane_sdk.consumer.receiving.receive_calls import Answer, ReceiveCalls
from ariane_sdk.errors import CallError
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task

WAIT_S_MAX: Final = 1.0
"""The longest delay of a report; shorter if the invisible time is short."""
DELAY_SHARE: Final = 1 / 4
"""A report is delayed by at most this share of the invisible time."""
RECEIPTS_MAX: Final = 4096
"""The most receipts that a broker accepts in one call."""


class _Receipt(NamedTuple):
    """A receipt to report."""

    broker_name: str
    """The broker that gave it."""
    address: str
    """The broker's address then."""
    token: bytes
    """The receipt."""
    until_s: float
    """When it expires, by the monotonic clock."""


class ReceiptReports:
    """Reports the receipts of a consumer to brokers."""

    def __init__(
        self, calls: ReceiveCalls, client_id: str, *, invisible_s: float, clock: Clock
    ) -> None:
        """``invisible_s`` is the invisible time without renewal."""
        self._calls = calls
        self._client_id = client_id
        self._invisible_s = invisible_s
        self._wait_s = min(WAIT_S_MAX, invisible_s * DELAY_SHARE)
        self._clock = clock
        self._waiting: list[_Receipt] = []
        self._reporting_lock = asyncio.Lock()
        self._reporting: asyncio.Task[None] | None = None

    def note(self, answer: Answer) -> None:
        """Report the receipts of an answer that has just come, soon."""
        until_s = self._clock.monotonic_s() + self._invisible_s
        self._waiting += [
            _Receipt(answer.broker_name, answer.address, queue.head.receipt, until_s)
            for queue in answer.queues
        ]
        if self._waiting and (self._reporting is None or self._reporting.done()):
            self._reporting = start_task(self._report_until_none_waits(), "keep-invisible")

    async def report_before(self, messages: Iterable[ReceivedMessage]) -> None:
        """Report receipts before another request about the same messages.

        A report that fails now is not repeated: later it would undo that request.
        """
        if not self._waiting:
            return
        await self._report()
        tokens = {message.receipt.token for message in messages}
        self._waiting = [each for each in self._waiting if each.token not in tokens]

    async def close(self) -> None:
        """Report nothing any more."""
        self._waiting.clear()
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.wait([self._reporting])

    async def _report_until_none_waits(self) -> None:
        while self._waiting:
            await self._clock.sleep(self._wait_s)
            await self._report()

    async def _report(self) -> None:
        async with self._reporting_lock:
            by_broker: dict[str, list[_Receipt]] = defaultdict(list)
            for each in self._waiting:
                by_broker[each.broker_name].append(each)
            await asyncio.gather(
                *(
                    self._report_to_broker(receipts[first : first + RECEIPTS_MAX])
                    for receipts in by_broker.values()
                    for first in range(0, len(receipts), RECEIPTS_MAX)
                )
            )

    async def _report_to_broker(self, receipts: list[_Receipt]) -> None:
        """Report to one broker; after a failure, receipts are reported again until they expire."""
        name, tokens = receipts[0].broker_name, [each.token for each in receipts]
        try:
            await self._calls.keep(name, receipts[-1].address, self._client_id, tokens)
            over = set(tokens)
        except CallError as error:
            logger.info("broker %s did not learn which messages to keep invisible: %s", name, error)
            now_s = self._clock.monotonic_s()
            over = {each.token for each in receipts if each.until_s <= now_s}
        self._waiting = [each for each in self._waiting if each.token not in over]
