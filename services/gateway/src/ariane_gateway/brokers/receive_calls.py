"""Receiving from brokers and settling, by packed records."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Final, NamedTuple

import numpy as np
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError

from ariane.broker.v1 import receive_service_pb2 as receive_pb
from ariane_gateway.brokers.acting import USER
from ariane_gateway.brokers.cluster import Cluster
from ariane_gateway.brokers.filters import subscription_of
from ariane_gateway.brokers.portrait import Wanted
from ariane_gateway.brokers.settle_batches import SettleBatches
from ariane_gateway.refusals import Refused, refused_by
from ariane_record.errors import RecordCorrupted
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.consumer.pulling.received_messages import received_messages
from ariane_sdk.consumer.receiving.receive_wire import QueueAnswer, receive_answer
from ariane_sdk.errors import CallError, RecordDamaged
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.status import error_from_status

ANSWER_S: Final = 5.0
"""How much longer than its hold time a call may take, in seconds."""

_RANGE: Final = struct.Struct("<qq")


class ReceiveOrder(NamedTuple):
    """What a consumer wants of one broker."""

    group: str
    """Its group."""
    wanted: Wanted
    """The topic, and which of its messages."""
    client_id: str
    """The consumer."""
    count_max: int
    """Most messages."""
    invisible_s: float
    """How long nobody else gets them, in seconds."""
    by_priority: bool = False
    """Whether messages of a higher priority come first."""
    several_of_a_group: bool = False
    """Whether those of one message group in order may come together."""
    attempt_id: str = ""
    """Names this attempt; repeated, it gets what the answer had that was lost."""


class Delivery(NamedTuple):
    """A message that was handed out."""

    message: ReceivedMessage
    """The message."""
    topic: str
    """The topic of its queue: its own, or the retry topic of the group."""
    receipt: bytes
    """Settles it, together with its queue offset."""
    attempt: int
    """How often it was handed out, from 1."""
    invisible_until_ms: int
    """Until when nobody else gets it."""


class Settlement(NamedTuple):
    """What becomes of a message."""

    receipt: bytes
    """Its receipt."""
    queue_offset: int
    """Its place in its queue."""
    invisible_s: float | None = None
    """It stays invisible for so long from now on. None: it is done, or failed."""
    dead_letter: bool = False
    """Whether it becomes a dead letter at once."""


class _BatchKey(NamedTuple):
    """Settlements that can share a call."""

    broker_name: str
    topic: str
    group: str
    user: str


class ReceiveCalls:
    """Calls of the receiving kind to brokers by name."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._batches: SettleBatches[_BatchKey, Settlement, Refused | None]
        self._batches = SettleBatches(self._settle)

    async def receive(self, broker_name: str, order: ReceiveOrder, hold_s: float) -> list[Delivery]:
        """Receive messages of a broker; none if the hold time ended.

        Raises:
            Refused: The broker refused, or did not answer.
        """
        address = await self._cluster.primary(broker_name, order.wanted.topic)
        request = receive_pb.ReceiveRecordsRequest(order=_message_of(order, hold_s))
        octets = request.SerializeToString()
        call = self._cluster.acting.receive_records(address, octets, hold_s + ANSWER_S)
        try:
            answer = await answer_of(call, f"broker {broker_name}")
            queues = receive_answer(answer)
            return [one for queue in queues for one in _deliveries(queue, broker_name)]
        except CallError as error:
            self._cluster.doubt(error, order.wanted.topic)
            raise refused_by(error) from error
        except (DecodeError, RecordCorrupted) as error:
            raise refused_by(RecordDamaged(f"broker {broker_name}: {error}")) from error

    async def keep(
        self, broker_name: str, topic: str, group: str, client_id: str, receipts: Sequence[bytes]
    ) -> None:
        """Have a broker keep messages invisible for as long as a client lives.

        Raises:
            Refused: The broker refused, or did not answer.
        """
        address = await self._cluster.primary(broker_name, topic)
        request = receive_pb.KeepInvisibleRequest(
            consumer_group=group, client_id=client_id, receipts=receipts
        )
        call = self._cluster.acting.receiving(address).KeepInvisible(
            request, timeout=self._cluster.timeout_s
        )
        try:
            await answer_of(call, f"broker {broker_name}")
        except CallError as error:
            self._cluster.doubt(error, topic)
            raise refused_by(error) from error

    async def settle(
        self, broker_name: str, topic: str, group: str, settlements: Sequence[Settlement]
    ) -> Sequence[Refused | None]:
        """Settle messages of one broker, together with what others settle there now.

        Returns:
            Why nothing was done, for each; None where it was.

        Raises:
            Refused: The broker refused all, or did not answer; what is settled is unknown then.
        """
        key = _BatchKey(broker_name, topic, group, USER.get())
        return await self._batches.settle(key, settlements)

    async def _settle(
        self, key: _BatchKey, settlements: Sequence[Settlement]
    ) -> Sequence[Refused | None]:
        USER.set(key.user)  # In a task of the batch, which another call may have begun.
        results: list[Refused | None] = [None] * len(settlements)
        unclear: list[int] = []
        shares = _shares_of(settlements)
        wanted = [[settlements[place] for place in share] for share in shares]
        for share, refused in zip(shares, await self._settle_shares(key, wanted), strict=True):
            if refused is None:
                continue
            if len(share) > 1:  # For some of them: each by itself tells for which.
                unclear += share
            else:
                results[share[0]] = refused
        if unclear:
            alone = [[settlements[place]] for place in unclear]
            for place, refused in zip(unclear, await self._settle_shares(key, alone), strict=True):
                results[place] = refused
        return results

    async def _settle_shares(
        self, key: _BatchKey, shares: Sequence[Sequence[Settlement]]
    ) -> Sequence[Refused | None]:
        """Settle messages of one broker; those of a share have one receipt and one outcome."""
        broker_name, topic, group, _ = key
        address = await self._cluster.primary(broker_name, topic)
        request = receive_pb.SettleRecordsRequest(
            consumer_group=group, settlements=map(_settlement_of, shares)
        )
        call = self._cluster.acting.receiving(address).SettleRecords(
            request, timeout=self._cluster.timeout_s
        )
        peer = f"broker {broker_name}"
        try:
            answer = await answer_of(call, peer)
        except CallError as error:
            self._cluster.doubt(error, topic)
            raise refused_by(error) from error
        return [
            refused_by(error_from_status(result.error, peer=peer))
            if result.HasField("error")
            else None
            for result in answer.results
        ]


def _message_of(order: ReceiveOrder, hold_s: float) -> receive_pb.ReceiveOrder:
    return receive_pb.ReceiveOrder(
        consumer_group=order.group,
        client_id=order.client_id,
        subscriptions=[subscription_of(order.wanted)],
        message_count_max=order.count_max,
        invisible_duration=_duration(order.invisible_s),
        hold_duration=_duration(hold_s),
        by_priority=order.by_priority,
        several_of_a_group=order.several_of_a_group,
        attempt_id=order.attempt_id,
    )


def _shares_of(settlements: Sequence[Settlement]) -> list[list[int]]:
    """Places of those that the broker can settle as one: done, and handed out together."""
    done: dict[bytes, list[int]] = {}
    others: list[list[int]] = []
    for place, (receipt, _, invisible_s, dead_letter) in enumerate(settlements):
        if invisible_s is None and not dead_letter:
            done.setdefault(receipt, []).append(place)
        else:
            others.append([place])
    return [*done.values(), *others]


def _settlement_of(share: Sequence[Settlement]) -> receive_pb.RecordSettlement:
    settlement = share[0]
    ranges = b"".join([_RANGE.pack(each.queue_offset, 1) for each in share])
    wanted = receive_pb.RecordSettlement(receipt=settlement.receipt, ranges=ranges)
    if settlement.dead_letter:
        wanted.nack.CopyFrom(receive_pb.Nack(dead_letter=True))
    elif settlement.invisible_s is not None:
        wanted.invisible_duration.CopyFrom(_duration(settlement.invisible_s))
    return wanted


def _deliveries(queue: QueueAnswer, broker_name: str) -> Iterator[Delivery]:
    head = queue.head
    place = MessageQueue(head.topic, broker_name, head.queue_id)
    messages = received_messages(queue.records, np.frombuffer(head.record_sizes, "<i4"), place)
    attempts = cycle((np.frombuffer(head.attempts, "<i4") + 1).tolist())
    for message, attempt in zip(messages, attempts, strict=False):
        yield Delivery(message, head.topic, head.receipt, attempt, head.invisible_until_ms)


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(round(seconds * 1000))
    return duration
