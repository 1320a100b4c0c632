r"""Half messages and ends on their way to brokers: those of one loop turn share a request.

::

    store_half --\                                      /--> its half message is stored
    store_half ---+--> one request on the stream --> answer
    end ---------/     of a broker                      \--> how its transaction ended

No request waits for others: a single half message is sent at the end of its loop turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from ariane.broker.v1.transaction_service_pb2 import (
    HalfMessageResult,
    HalfMessageToStore,
    StreamTransactionsRequest,
    StreamTransactionsResponse,
    TransactionEndResult,
    TransactionToEnd,
)
from ariane.common.v1.message_pb2 import ACKNOWLEDGED_LEVEL_MEMORY
from ariane_sdk.errors import ArianeError, CallError, RequestTooLarge
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.error_copy import error_copy
from ariane_sdk.net.status import error_from_status
from ariane_sdk.producer.sending.append_stream import AppendStream
from ariane_sdk.settings import ProducerSettings

TOGETHER_MAX: Final = 64
"""Half messages and ends in one request. Half as many cost a quarter more CPU, measured. With more,
the broker would wait for the next request while the producer makes it."""

HALF_MIN: Final = 16
"""If none is in flight, twice as many or more are sent in two requests: the client makes the next
request while the broker works on one. In one request, all would wait for one answer, and client and
broker would work in turn."""

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


class TransactionRequests:
    """The streams of one producer; lives on one event loop."""

    __slots__ = (
        "_answering_late",
        "_connections",
        "_gathered",
        "_sent",
        "_settings",
        "_streams",
    )

    def __init__(self, connections: Connections, *, settings: ProducerSettings) -> None:
        self._connections = connections
        self._settings = settings
        self._streams: dict[str, AppendStream[StreamTransactionsResponse]] = {}
        self._gathered: dict[str, list[_Waiting]] = {}
        self._sent: set[asyncio.Future[_Result]] = set()
        # Addresses of brokers that wait for the disk or a replica: a second request would only wait
        # for another flush.
        self._answering_late: set[str] = set()

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
        """End all streams; the outcome of requests in flight stays unknown."""
        for stream in self._streams.values():
            stream.close()
        error = CallError("the client is closed", outcome_unknown=True, retriable=True)
        waiting = [each.future for gathered in self._gathered.values() for each in gathered]
        _fail((*waiting, *self._sent), error)

    async def _ask(self, address: str, peer: str, entry: _Entry) -> _Result:
        """Send a half message or an end, and wait for its result.

        Raises:
            CallError: The broker's error, or the reason why the result is unknown.
        """
        self._connections.check()
        loop = asyncio.get_running_loop()
        waiting = _Waiting(entry, loop.create_future())
        gathered = self._gathered.get(address)
        if gathered is None:
            self._gathered[address] = [waiting]
            loop.call_soon(self._send_gathered, address, peer)
        else:
            gathered.append(waiting)
        result = await waiting.future
        if result.HasField("error"):
            raise error_from_status(result.error, peer=peer)
        return result

    def _send_gathered(self, address: str, peer: str) -> None:
        """Send the entries of this turn of the loop whose callers still wait."""
        gathered = [each for each in self._gathered.pop(address) if not each.future.done()]
        count_max = self._count_max(address, len(gathered))
        for together in _requests_of(gathered, count_max, self._settings.request_bytes_max):
            self._send(address, peer, together)

    def _count_max(self, address: str, count: int) -> int:
        """How many half messages and ends go into one request."""
        stream = self._streams.get(address)
        half = (count + 1) // 2
        is_cut = (
            half >= HALF_MIN
            and (stream is None or stream.idle)
            and address not in self._answering_late
        )
        return min(half, TOGETHER_MAX) if is_cut else TOGETHER_MAX

    def _send(self, address: str, peer: str, together: Sequence[_Waiting]) -> None:
        request = StreamTransactionsRequest()
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
            stream = self._stream(address, peer)
        except ArianeError as error:
            _fail(futures, error)
            return

        def answered(answer: StreamTransactionsResponse | CallError) -> None:
            self._sent.difference_update(futures)
            if isinstance(answer, StreamTransactionsResponse):
                self._note_level(address, answer)
                _hand_on(answer, futures, peer)
            elif isinstance(answer, RequestTooLarge) and len(together) > 1:
                # The broker has not worked on it. In requests of its own, each may be small enough.
                for each in together:
                    self._send(address, peer, [each])
            else:
                _fail(futures, answer)

        self._sent.update(futures)
        stream.send([request.SerializeToString()], self._settings.call_timeout_s, answered)

    def _note_level(self, address: str, answer: StreamTransactionsResponse) -> None:
        """Note whether a broker answers only when messages are safer than in its memory."""
        levels = [half.acknowledged_level for half in answer.half_messages[:1]]
        levels += [end.acknowledged_level for end in answer.ends[:1]]
        if any(level > ACKNOWLEDGED_LEVEL_MEMORY for level in levels):
            self._answering_late.add(address)
        elif levels:
            self._answering_late.discard(address)

    def _stream(self, address: str, peer: str) -> AppendStream[StreamTransactionsResponse]:
        stream = self._streams.get(address)
        if stream is None or not stream.open:
            stream = AppendStream(self._connections.transaction_stream(address), peer)
            self._streams[address] = stream
        return stream


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
    answer: StreamTransactionsResponse, futures: Sequence[asyncio.Future[_Result]], peer: str
) -> None:
    """Give each caller its result."""
    results: list[_Result] = [*answer.half_messages, *answer.ends]
    if answer.HasField("error"):
        _fail(futures, error_from_status(answer.error, peer=peer))
    elif len(results) != len(futures):
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
