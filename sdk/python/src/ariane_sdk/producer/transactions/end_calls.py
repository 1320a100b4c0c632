"""Ends of transactions on their way to brokers: those of one turn of the loop share a call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias

from ariane.broker.v1.client_service_pb2 import (
    TRANSACTION_OUTCOME_COMMIT,
    TRANSACTION_OUTCOME_ROLLBACK,
    TRANSACTION_OUTCOME_UNKNOWN,
)
from ariane.broker.v1.transaction_service_pb2 import (
    TransactionEndResult,
    TransactionToEnd,
    UpdateTransactionsRequest,
    UpdateTransactionsResponse,
)
from ariane_sdk.errors import ArianeError, CallError, ClientNotRunning
from ariane_sdk.net.answers import Call, failure_of
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.error_copy import error_copy
from ariane_sdk.net.status import error_from_status
from ariane_sdk.producer.transactions.transaction import TransactionOutcome

TOGETHER_MAX: Final = 64
"""Ends in one call. With more, the broker would wait while the client makes the next one."""

WIRE_OUTCOMES: Final = {
    TransactionOutcome.COMMIT: TRANSACTION_OUTCOME_COMMIT,
    TransactionOutcome.ROLLBACK: TRANSACTION_OUTCOME_ROLLBACK,
    TransactionOutcome.UNKNOWN: TRANSACTION_OUTCOME_UNKNOWN,
}
"""Outcomes as the contract has them."""

_Waiting: TypeAlias = tuple[TransactionToEnd, "asyncio.Future[TransactionEndResult]"]
"""An end, and the future of its caller."""


class EndCalls:
    """The ends of one producer; lives on one event loop."""

    def __init__(self, connections: Connections, *, timeout_s: float) -> None:
        self._connections = connections
        self._timeout_s = timeout_s
        self._waiting: dict[str, list[_Waiting]] = {}
        self._calls: dict[Call[UpdateTransactionsResponse], None] = {}
        self._closed = False

    async def end(self, address: str, peer: str, end: TransactionToEnd) -> TransactionEndResult:
        """Have a broker end a transaction.

        Args:
            address: The broker, "host:port".
            peer: Its name and address, for the text of errors.
            end: The transaction and its outcome.

        Raises:
            CallError: The broker's error; ``outcome_unknown`` says whether the transaction may have
                ended.
        """
        self._connections.check()
        if self._closed:
            raise ClientNotRunning("the client is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[TransactionEndResult] = loop.create_future()
        if address not in self._waiting:
            self._waiting[address] = []
            loop.call_soon(self._send_waiting, address, peer)
        self._waiting[address].append((end, future))
        result = await future
        if result.HasField("error"):
            raise error_from_status(result.error, peer=peer)
        return result

    def close(self) -> None:
        """Give all calls up; the outcome of those in flight stays unknown."""
        self._closed = True
        for call in list(self._calls):
            call.cancel()

    def _send_waiting(self, address: str, peer: str) -> None:
        """Send the ends whose callers still wait."""
        waiting = [each for each in self._waiting.pop(address) if not each[1].done()]
        for begin in range(0, len(waiting), TOGETHER_MAX):
            self._send(address, peer, waiting[begin : begin + TOGETHER_MAX])

    def _send(self, address: str, peer: str, together: Sequence[_Waiting]) -> None:
        futures = [future for _, future in together]
        request = UpdateTransactionsRequest(ends=[end for end, _ in together])
        try:
            if self._closed:
                raise ClientNotRunning("the client is closed")
            call = self._connections.update_transactions(
                address, request.SerializeToString(), self._timeout_s
            )
        except ArianeError as error:
            _fail(futures, error)
            return
        self._calls[call] = None
        call.add_done_callback(partial(self._answered, peer, futures))

    def _answered(
        self,
        peer: str,
        futures: Sequence[asyncio.Future[TransactionEndResult]],
        call: Call[UpdateTransactionsResponse],
    ) -> None:
        """Give each caller its result."""
        self._calls.pop(call, None)
        try:
            results = call.result().ends
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - callers need every error.
            _fail(futures, failure_of(error, peer))
            return
        if len(results) != len(futures):
            text = f"{peer}: {len(results)} results for {len(futures)} ends"
            _fail(futures, CallError(text, outcome_unknown=True))
            return
        for future, result in zip(futures, results, strict=True):
            if not future.done():
                future.set_result(result)


def _fail(futures: Sequence[asyncio.Future[TransactionEndResult]], error: ArianeError) -> None:
    """Give each caller an error of its own, since a caller may change it."""
    for future in futures:
        if not future.done():
            future.set_exception(error_copy(error, type(error)))
