"""The calls of a receiving consumer: what it is answered, and what it sends back.

It receives packed records (``asked_brokers`` asks for them), and sends receipts with ranges.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice, repeat
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from google.protobuf.duration_pb2 import Duration
from grpc.aio import AioRpcError

from ariane.broker.v1.receive_service_pb2 import (
    KeepInvisibleRequest,
    Nack,
    ReceiveOrder,
    ReceiveRecordsRequest,
    RecordSettlement,
    SettleRecordsRequest,
)
from ariane_record.errors import RecordCorrupted
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.consumer.pulling.received_messages import queue_offsets_of, received_messages
from ariane_sdk.consumer.receiving.primaries import Primaries
from ariane_sdk.consumer.receiving.receive_wire import QueueAnswer
from ariane_sdk.errors import IllegalArgument, ReceiptExpired, RecordDamaged
from ariane_sdk.message import Receipt, ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.status import error_from_rpc, error_from_status

_SIZE_BYTES: Final = 4
HOLD_S: Final = 5.0
"""How long one call is held while there are no messages. A broker that went silent is noticed only
after this time: its connections stay open."""
_pack_range = Struct("<qq").pack
_receipt_of = attrgetter("receipt")
CAUSE_LENGTH_MAX: Final = 1024
SETTLEMENTS_MAX: Final = 8192
"""The most settlements that a broker accepts in one call."""
ANSWER_BYTES_MAX: Final = 4 << 20
"""Bytes of records in one answer: more than a broker's default of 1 MiB, because each answer is
recorded and settled by itself."""
ANSWER_SECONDS: Final = 5.0
"""How much longer than its hold time a call may take."""

_Receipts: TypeAlias = dict[Receipt, list[ReceivedMessage]]
"""Messages by their receipts."""


class Settlement(NamedTuple):
    """The new state of messages: invisible, failed, or done if neither is set."""

    invisible_s: float | None = None
    """Their invisible time from now on."""
    nack: Nack | None = None
    """The failure."""


DONE: Final = Settlement()


def failed(delay_s: float | None, *, dead_letter: bool, cause: str) -> Settlement:
    """The settlement of messages that failed.

    Args:
        delay_s: Delay before the next attempt; None: the delay of the group's retry policy.
        dead_letter: Whether they become dead letters at once.
        cause: The reason in words; cut to the length that brokers accept.
    """
    printable = "".join(sign if sign.isprintable() else " " for sign in cause)
    nack = Nack(dead_letter=dead_letter, cause=printable[:CAUSE_LENGTH_MAX])
    if delay_s is not None:
        nack.delay.CopyFrom(duration_of(delay_s))
    return Settlement(nack=nack)


def duration_of(seconds: float) -> Duration:
    """A duration, to the millisecond."""
    duration = Duration()
    duration.FromMilliseconds(round(seconds * 1000))
    return duration


class Answer(NamedTuple):
    """The answer of one broker."""

    broker_name: str
    """The broker."""
    address: str
    """Its address."""
    queues: Sequence[QueueAnswer]
    """The parts of its queues."""
    held_until_s: float = math.inf
    """Until when the client relies on the messages, by its monotonic clock: a little less than
    their invisible time."""

    @property
    def message_count(self) -> int:
        """The number of messages."""
        return sum(len(queue.head.record_sizes) for queue in self.queues) // _SIZE_BYTES

    @property
    def size_bytes(self) -> int:
        """Bytes of their records."""
        return sum(len(queue.records) for queue in self.queues)


class ReceiveCalls:
    """Settles messages, and has brokers keep them invisible."""

    def __init__(
        self,
        connections: Connections,
        group: str,
        primaries: Primaries,
        *,
        timeout_s: float,
    ) -> None:
        """``timeout_s`` is how long one call may take."""
        self._connections = connections
        self._group = group
        self._primaries = primaries
        self._timeout_s = timeout_s

    async def settle(
        self,
        messages: Iterable[ReceivedMessage],
        outcome: Settlement,
        *,
        timeout_s: float | None = None,
        patience_s: float = 0.0,
    ) -> None:
        """Settle messages of any brokers, messages of one broker in one call.

        The calls go to the brokers' present primaries: a replica that took over since knows the
        receipts, too.

        Args:
            messages: The messages.
            outcome: What becomes of them.
            timeout_s: How long one try may take; default: as other calls.
            patience_s: For how long a broker without an answer is asked again.

        Raises:
            ReceiptExpired: Another member has some of them by now; the others are settled.
            CallError: Whether some of them are settled is unknown.
        """
        by_broker: dict[str, _Receipts] = {}
        at: dict[str, str] = {}
        try:
            # Messages of one receipt tend to be neighbours: one step for each run of them.
            for receipt, run in groupby(messages, _receipt_of):
                name = receipt.message_queue.broker_name
                by_broker.setdefault(name, {}).setdefault(receipt, []).extend(run)
                at[name] = receipt.address
        except AttributeError:
            raise IllegalArgument("only messages of a ReceiveConsumer can be settled") from None
        if len(by_broker) == 1 and len(receipts := by_broker[name]) <= SETTLEMENTS_MAX:
            # A task would take two turns of the loop more.
            settle = partial(self._settle, receipts, outcome, timeout_s)
            await self._at_primary(name, at[name], settle, patience_s)
            return
        calls = [
            self._at_primary(
                name, at[name], partial(self._settle, some, outcome, timeout_s), patience_s
            )
            for name, receipts in by_broker.items()
            for some in _pieces(receipts, SETTLEMENTS_MAX)
        ]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        errors = [error for error in ended if error is not None]
        # Other errors first: of expired receipts the outcome is known.
        for error in sorted(errors, key=lambda error: isinstance(error, ReceiptExpired)):
            raise error

    async def keep(
        self, broker_name: str, address: str, client_id: str, receipts: Sequence[bytes]
    ) -> None:
        """Let a broker renew the invisible time of messages while a client is attached.

        Args:
            broker_name: The broker.
            address: The address of its primary then.
            client_id: The client.
            receipts: At most 4096. Used-up receipts have no effect.

        Raises:
            CallError: The broker may not have received the request.
        """
        request = KeepInvisibleRequest(
            consumer_group=self._group, client_id=client_id, receipts=receipts
        )
        await self._at_primary(broker_name, address, partial(self._keep, request))

    async def _keep(self, request: KeepInvisibleRequest, address: str) -> None:
        await answer_of(
            self._connections.receiving(address).KeepInvisible(request, timeout=self._timeout_s),
            f"the broker at {address}",
        )

    def _at_primary(
        self,
        name: str,
        known: str,
        call: Callable[[str], Awaitable[None]],
        patience_s: float = 0.0,
    ) -> Awaitable[None]:
        """Call the present primary of a broker; to settle or keep again is harmless."""
        primaries = self._primaries
        return primaries.failover.ask(
            lambda: call(primaries.find(name) or known), primaries.topics, patience_s=patience_s
        )

    async def _settle(
        self,
        receipts: Mapping[Receipt, Sequence[ReceivedMessage]],
        outcome: Settlement,
        timeout_s: float | None,
        address: str,
    ) -> None:
        request = SettleRecordsRequest(consumer_group=self._group)
        for receipt, messages in receipts.items():
            wanted = RecordSettlement(receipt=receipt.token, ranges=_ranges_of(messages))
            if outcome.nack is not None:
                wanted.nack.CopyFrom(outcome.nack)
            elif outcome.invisible_s is not None:
                wanted.invisible_duration.CopyFrom(duration_of(outcome.invisible_s))
            request.settlements.append(wanted)
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            response = await self._connections.settle_records(address, request, timeout_s)
        except AioRpcError as error:
            raise error_from_rpc(error, peer=f"the broker at {address}") from error
        for result in response.results:
            if result.HasField("error"):
                raise error_from_status(result.error, peer=f"the broker at {address}")


def receive_request(order: ReceiveOrder, hold_s: float, count_max: int) -> bytes:
    """The encoded request of an order, of so many messages at most."""
    request = ReceiveRecordsRequest(order=order)
    request.order.hold_duration.CopyFrom(duration_of(hold_s))
    request.order.message_count_max = count_max
    return request.SerializeToString()


def _pieces(receipts: _Receipts, size: int) -> Iterator[_Receipts]:
    left = iter(receipts.items())
    while some := dict(islice(left, size)):
        yield some


def messages_of(answer: Answer) -> list[ReceivedMessage]:
    """The messages of an answer, with their receipts.

    Raises:
        RecordDamaged: A record cannot be decoded.
    """
    messages: list[ReceivedMessage] = []
    for queue in answer.queues:
        messages += _of_queue(queue, answer)
    return messages


def _of_queue(queue: QueueAnswer, answer: Answer) -> list[ReceivedMessage]:
    """The messages of one queue, without a Python statement per message."""
    head = queue.head
    message_queue = MessageQueue(head.topic, answer.broker_name, head.queue_id)
    attempts: list[int] = np.frombuffer(head.attempts, "<i4").tolist()
    # By position: that takes half as long.
    receipt = partial(Receipt, message_queue, answer.address, head.receipt)
    until = head.invisible_until_ms, answer.held_until_s
    sizes = np.frombuffer(head.record_sizes, "<i4")
    try:
        messages = received_messages(queue.records, sizes, message_queue)
    except RecordCorrupted as error:
        raise RecordDamaged(f"{message_queue}: {error}") from error
    own: Iterable[Receipt]
    if len(attempts) == 1:
        own = repeat(receipt(attempts[0], *until))
    else:
        own = map({each: receipt(each, *until) for each in set(attempts)}.__getitem__, attempts)
    for _ in map(setattr, messages, repeat("receipt"), own):
        pass
    return messages


def _ranges_of(messages: Sequence[ReceivedMessage]) -> bytes:
    """First offset and count of each range: n x 2 x int64."""
    if len(messages) == 1:
        return _pack_range(messages[0].queue_offset, 1)
    offsets = queue_offsets_of(messages)
    if bool((np.diff(offsets) < 1).any()):
        offsets = np.unique(offsets)
    begins = np.flatnonzero(np.diff(offsets, prepend=offsets[:1] - 2) != 1)
    counts = np.diff(begins, append=len(offsets))
    return np.stack((offsets[begins], counts), axis=1).astype("<i8").tobytes()
