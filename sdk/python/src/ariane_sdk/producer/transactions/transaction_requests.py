r"""Half messages and ends on their way to brokers: those of one loop turn share a request.

::

    store_half --\                              /--> its half message is stored
    store_half ---+--> one call to a broker --> answer
    end ---------/                              \--> how its transaction ended

No call waits for others, unless very many are in flight: a single half message is sent at the end
of its loop turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from ariane.broker.v1.transaction_service_pb2 import (
    HalfMessageResult,
    HalfMessageToStore,
    TransactionEndResult,
    TransactionToEnd,
    UpdateTransactionsRequest,
    UpdateTransactionsResponse,
)
from ariane.common.v1.message_pb2 import ACKNOWLEDGED_LEVEL_MEMORY
from ariane_sdk.errors import ArianeError, CallError, ClientNotRunning, RequestTooLarge
from ariane_sdk.net.answers import Call, failure_of
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.error_copy import error_copy
from ariane_sdk.net.status import error_from_status
from ariane_sdk.settings import ProducerSettings

TOGETHER_MAX: Final = 64
"""Half messages and ends in one call. Half as many cost a quarter more CPU, measured. With more,
the broker would wait for the next request while the producer makes it."""

HALF_MIN: Final = 16
"""If none is in flight, twice as many or more are sent in two requests: the client makes the next
request while the broker works on one. In one request, all would wait for one answer, and client and
broker would work in turn."""

CALLS_MAX: Final = 64
"""Calls to one broker in flight; what comes meanwhile is gathered."""

_Entry: TypeAlias = HalfMessageToStore | TransactionToEnd
_Result: TypeAlias = HalfMessageResult | TransactionEndResult


class _Waiting(NamedTuple):
    """A caller that waits for one half message or one end.

    Attributes:
        entry: The half message or the end.
        future: The result.
    """

    entry: _Entry
    future: asyncio.Future[_Result]


class _Broker:
    """What one broker is asked for.

    Attributes:
        peer: Its name and address, for the text of errors.
        gathered: Half messages and ends that no call carries yet.
        calls: Calls in flight.
        answers_late: Whether it waits for the disk or a replica: a second call would only wait for
            another flush.
        sends_soon: Whether the gathered ones are sent at the end of this turn of the loop.
    """

    __slots__ = ("answers_late", "calls", "gathered", "peer", "sends_soon")

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.gathered: list[_Waiting] = []
        self.calls: dict[Call[UpdateTransactionsResponse], None] = {}
        self.answers_late = False
        self.sends_soon = False

    def together_max(self, count: int) -> int:
        """How many half messages and ends go into one call, if so many wait."""
        half = (count + 1) // 2
        is_cut = half >= HALF_MIN and not self.calls and not self.answers_late
        return min(half, TOGETHER_MAX) if is_cut else TOGETHER_MAX

    def note_level(self, answer: UpdateTransactionsResponse) -> None:
        """Note whether it answers only when messages are safer than in its memory."""
        levels = [half.acknowledged_level for half in answer.half_messages[:1]]
        levels += [end.acknowledged_level for end in answer.ends[:1]]
        if levels:
            self.answers_late = max(levels) > ACKNOWLEDGED_LEVEL_MEMORY


class TransactionRequests:
    """The half messages and ends of one producer; lives on one event loop."""

    __slots__ = ("_brokers", "_closed", "_connections", "_sent", "_settings")

    def __init__(self, connections: Connections, *, settings: ProducerSettings) -> None:
        self._connections = connections
        self._settings = settings
        self._brokers: dict[str, _Broker] = {}
        self._sent: dict[asyncio.Future[_Result], None] = {}
        self._closed = False

    async def store_half(self, address: str, peer: str, half: HalfMessageToStore) -> None:
        """Have a broker store a half message.

        Raises:
            CallError: The broker's error; ``outcome_unknown`` says whether the message may be
                stored.
        """
        await self._ask(address, peer, half)

    async def end(self, address: str, peer: str, end: TransactionToEnd) -> TransactionEndResult:
        """Have a broker end a transaction.

        Raises:
            CallError: The broker's error; ``outcome_unknown`` says whether the transaction may have
                ended.
        """
        result = await self._ask(address, peer, end)
        if not isinstance(result, TransactionEndResult):
            raise CallError(f"{peer}: an end was answered as a half message", outcome_unknown=True)
        return result

    def close(self) -> None:
        """Give all calls up; the outcome of those in flight stays unknown."""
        self._closed = True
        error = CallError("the client is closed", outcome_unknown=True, retriable=True)
        waiting = [each.future for broker in self._brokers.values() for each in broker.gathered]
        _fail((*waiting, *self._sent), error)
        for broker in self._brokers.values():
            for call in list(broker.calls):
                call.cancel()

    async def _ask(self, address: str, peer: str, entry: _Entry) -> _Result:
        """Send a half message or an end, and wait for its result.

        Raises:
            CallError: The broker's error, or the reason why the result is unknown.
        """
        self._connections.check()
        if self._closed:
            raise ClientNotRunning("the client is closed")
        broker = self._brokers.get(address)
        if broker is None:
            broker = self._brokers[address] = _Broker(peer)
        waiting = _Waiting(entry, asyncio.get_running_loop().create_future())
        broker.gathered.append(waiting)
        self._send_soon(address, broker)
        result = await waiting.future
        if result.HasField("error"):
            raise error_from_status(result.error, peer=peer)
        return result

    def _send_soon(self, address: str, broker: _Broker) -> None:
        if not broker.sends_soon and len(broker.calls) < CALLS_MAX:
            broker.sends_soon = True
            asyncio.get_running_loop().call_soon(self._send_gathered, address, broker)

    def _send_gathered(self, address: str, broker: _Broker) -> None:
        """Send the gathered entries whose callers still wait, as far as there may be calls."""
        broker.sends_soon = False
        gathered = [each for each in broker.gathered if not each.future.done()]
        broker.gathered = []
        together_max = broker.together_max(len(gathered))
        requests = _requests_of(gathered, together_max, self._settings.request_bytes_max)
        for together in requests:
            if len(broker.calls) < CALLS_MAX:
                self._send(address, broker, together)
            else:
                broker.gathered += together

    def _forget(self, futures: Iterable[asyncio.Future[_Result]]) -> None:
        for future in futures:
            self._sent.pop(future, None)

    def _send(self, address: str, broker: _Broker, together: Sequence[_Waiting]) -> None:
        request = UpdateTransactionsRequest()
        storing: list[asyncio.Future[_Result]] = []
        ending: list[asyncio.Future[_Result]] = []
        for entry, future in together:
            if isinstance(entry, HalfMessageToStore):
                request.half_messages.append(entry)
                storing.append(future)
            else:
                request.ends.append(entry)
                ending.append(future)
        futures = storing + ending
        try:
            call = self._connections.update_transactions(
                address, request.SerializeToString(), self._settings.call_timeout_s
            )
        except ArianeError as error:
            _fail(futures, error)
            return

        def answered(call: Call[UpdateTransactionsResponse]) -> None:
            broker.calls.pop(call, None)
            self._forget(futures)
            try:
                answer = call.result()
            except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - callers need every error.
                error = failure_of(raised, broker.peer)
                if isinstance(error, RequestTooLarge) and len(together) > 1:
                    # The broker has not worked on it. Alone, each may be small enough.
                    for each in together:
                        self._send(address, broker, [each])
                else:
                    _fail(futures, error)
            else:
                broker.note_level(answer)
                _hand_on(answer, futures, broker.peer)
            if broker.gathered:
                self._send_soon(address, broker)

        self._sent.update(dict.fromkeys(futures))
        broker.calls[call] = None
        call.add_done_callback(answered)


def _requests_of(
    gathered: Sequence[_Waiting], count_max: int, bytes_max: int
) -> Iterator[Sequence[_Waiting]]:
    """Divide entries by number and size; an entry that is larger than the limit goes alone."""
    begin = size = 0
    for place, each in enumerate(gathered):
        each_size = each.entry.ByteSize()
        if place > begin and (place - begin == count_max or size + each_size > bytes_max):
            yield gathered[begin:place]
            begin, size = place, 0
        size += each_size
    if gathered:
        yield gathered[begin:]


def _hand_on(
    answer: UpdateTransactionsResponse, futures: Sequence[asyncio.Future[_Result]], peer: str
) -> None:
    """Give each caller its result."""
    results: list[_Result] = [*answer.half_messages, *answer.ends]
    if len(results) != len(futures):
        text = f"{peer}: {len(results)} results for {len(futures)} entries"
        _fail(futures, CallError(text, outcome_unknown=True))
    else:
        for future, result in zip(futures, results, strict=True):
            if not future.done():
                future.set_result(result)


def _fail(futures: Sequence[asyncio.Future[_Result]], error: ArianeError) -> None:
    """Give each caller an error of its own, since a caller may change it."""
    for future in futures:
        if not future.done():
            future.set_exception(error_copy(error, type(error)))
