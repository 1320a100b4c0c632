"""The calls of a receiving consumer: packed records in, receipts with ranges out."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
from google.protobuf.duration_pb2 import Duration

from ariane.broker.v1.receive_service_pb2 import (
    Nack,
    ReceivedRecords,
    ReceiveOrder,
    ReceiveRecordsRequest,
    RecordSettlement,
    SettleRecordsRequest,
)
from ariane_sdk.client.broker_calls import answer_of, peer_name, read_address
from ariane_sdk.consumer.pulling.received_messages import received_messages
from ariane_sdk.message import MessageQueue, Receipt, ReceivedMessage
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.status import error_from_status
from ariane_sdk.routing.route import BrokerRoute

ANSWER_SECONDS: Final = 5.0
"""So much longer than its hold may a call take."""


class Settlement(NamedTuple):
    """What becomes of messages; with neither a duration nor a failure, they are done.

    Attributes:
        invisible_s: They stay invisible for so long from now on.
        nack: They failed.
    """

    invisible_s: float | None = None
    nack: Nack | None = None


DONE: Final = Settlement()


def duration_of(seconds: float) -> Duration:
    """A duration, to the millisecond."""
    duration = Duration()
    duration.FromMilliseconds(round(seconds * 1000))
    return duration


class ReceiveCalls:
    """Asks brokers for messages, and settles them."""

    def __init__(self, connections: Connections, group: str, *, timeout_s: float) -> None:
        self._connections = connections
        self._group = group
        self._timeout_s = timeout_s

    async def receive(
        self, broker: BrokerRoute, order: ReceiveOrder, hold_s: float
    ) -> list[ReceivedMessage]:
        """Messages of one broker, with receipts; none when the hold time ended.

        Raises:
            CallError: The broker gives none.
        """
        address = read_address(broker)
        wanted = ReceiveOrder()
        wanted.CopyFrom(order)
        wanted.hold_duration.CopyFrom(duration_of(hold_s))
        response = await answer_of(
            self._connections.receiving(address).ReceiveRecords(
                ReceiveRecordsRequest(order=wanted), timeout=hold_s + ANSWER_SECONDS
            ),
            peer_name(broker),
        )
        messages: list[ReceivedMessage] = []
        for queue in response.queues:
            messages += _messages_of(queue, broker.broker_name, address)
        return messages

    async def settle(self, messages: Iterable[ReceivedMessage], outcome: Settlement) -> None:
        """Settle messages of any brokers, those of one broker in one call.

        Raises:
            ReceiptExpired: Some are another's by now; the others are settled.
            CallError: Nobody knows of some whether they are settled.
        """
        by_broker: dict[str, dict[Receipt, list[int]]] = defaultdict(lambda: defaultdict(list))
        for message in messages:
            receipt = message.receipt
            by_broker[receipt.address][receipt].append(message.queue_offset)
        calls = [self._settle(address, each, outcome) for address, each in by_broker.items()]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error

    async def _settle(
        self, address: str, receipts: Mapping[Receipt, Sequence[int]], outcome: Settlement
    ) -> None:
        request = SettleRecordsRequest(consumer_group=self._group)
        for receipt, offsets in receipts.items():
            wanted = RecordSettlement(receipt=receipt.token, ranges=_ranges_of(offsets))
            if outcome.nack is not None:
                wanted.nack.CopyFrom(outcome.nack)
            elif outcome.invisible_s is not None:
                wanted.invisible_duration.CopyFrom(duration_of(outcome.invisible_s))
            request.settlements.append(wanted)
        response = await answer_of(
            self._connections.receiving(address).SettleRecords(request, timeout=self._timeout_s),
            f"the broker at {address}",
        )
        for result in response.results:
            if result.HasField("error"):
                raise error_from_status(result.error, peer=f"the broker at {address}")


def _messages_of(queue: ReceivedRecords, broker_name: str, address: str) -> list[ReceivedMessage]:
    """The messages of one queue; no Python statement for each."""
    message_queue = MessageQueue(queue.topic, broker_name, queue.queue_id)
    receipt = Receipt(
        message_queue,
        address,
        queue.receipt,
        tuple(np.frombuffer(queue.attempts, "<i4").tolist()),
        queue.invisible_until_ms,
    )
    sizes = np.frombuffer(queue.record_sizes, "<i4")
    messages = received_messages(queue.records, sizes, message_queue)
    for _ in map(setattr, messages, repeat("receipt"), repeat(receipt)):
        pass
    return messages


def _ranges_of(offsets: Sequence[int]) -> bytes:
    """First offset and count of each range: n x 2 x int64."""
    unique = np.unique(np.array(offsets, np.int64))
    begins = np.flatnonzero(np.diff(unique, prepend=unique[:1] - 2) != 1)
    counts = np.diff(begins, append=len(unique))
    return np.stack((unique[begins], counts), axis=1).astype("<i8").tobytes()
