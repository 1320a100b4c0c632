"""The calls of a receiving client, as a generated one makes them."""

from __future__ import annotations

import asyncio
import struct

import numpy as np

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import receive_service_pb2 as receive_pb
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane_record.decoding.columns import decode_columns


def order(*topics, group="billing", tag="", sql="", hold_s=0.0, invisible_s=None, **fields):
    subscriptions = []
    for topic in topics or ("orders",):
        subscription = subscription_pb.Subscription(topic=topic)
        if tag or sql:
            kind = subscription_pb.FILTER_KIND_TAG if tag else subscription_pb.FILTER_KIND_SQL92
            subscription.filter.kind, subscription.filter.text = kind, tag or sql
        subscriptions.append(subscription)
    wanted = receive_pb.ReceiveOrder(consumer_group=group, subscriptions=subscriptions, **fields)
    if hold_s:
        wanted.hold_duration.FromMilliseconds(round(hold_s * 1000))
    if invisible_s is not None:
        wanted.invisible_duration.FromMilliseconds(round(invisible_s * 1000))
    return wanted


class Receiver:
    """A member of a group."""

    def __init__(self, broker, group="billing"):
        self.stub = broker.receives
        self.broker = broker
        self.group = group

    async def receive(self, *topics, **wanted):
        request = receive_pb.ReceiveMessagesRequest(
            order=order(*topics, group=self.group, **wanted)
        )
        return [
            message
            async for answer in self.stub.ReceiveMessages(request)
            for message in answer.messages
        ]

    async def receive_packed(self, *topics, **wanted):
        request = receive_pb.ReceiveRecordsRequest(order=order(*topics, group=self.group, **wanted))
        return list((await self.stub.ReceiveRecords(request)).queues)

    async def ack(self, *received):
        """Whether each was acknowledged."""
        request = receive_pb.AckMessagesRequest(
            consumer_group=self.group, receipt_handles=[each.receipt_handle for each in received]
        )
        results = (await self.stub.AckMessages(request)).results
        return [not result.HasField("error") for result in results]

    async def nack(self, *received, delay_s=None, **fields):
        request = receive_pb.NackMessagesRequest(
            consumer_group=self.group, receipt_handles=[each.receipt_handle for each in received]
        )
        request.nack.SetInParent()
        for name, value in fields.items():
            setattr(request.nack, name, value)
        if delay_s is not None:
            request.nack.delay.FromMilliseconds(round(delay_s * 1000))
        return list((await self.stub.NackMessages(request)).results)

    async def hide(self, received, seconds):
        request = receive_pb.ChangeInvisibleDurationRequest(
            consumer_group=self.group, receipt_handle=received.receipt_handle
        )
        request.invisible_duration.FromMilliseconds(round(seconds * 1000))
        return await self.stub.ChangeInvisibleDuration(request)

    async def keep(self, client_id, *received, receipts=()):
        """Whether each is kept invisible."""
        request = receive_pb.KeepInvisibleRequest(
            consumer_group=self.group,
            client_id=client_id,
            receipt_handles=[each.receipt_handle for each in received],
            receipts=receipts,
        )
        results = (await self.stub.KeepInvisible(request)).results
        return [not result.HasField("error") for result in results]

    async def settle(self, *settlements):
        request = receive_pb.SettleRecordsRequest(
            consumer_group=self.group, settlements=settlements
        )
        return list((await self.stub.SettleRecords(request)).results)

    async def standing(self, topic="orders"):
        """Offset, unsettled, in flight, delayed, ready: of each queue."""
        request = receive_pb.ListReceivingRequest(consumer_group=self.group, topic=topic)
        return [
            (
                queue.consumer_offset,
                queue.unsettled_count,
                queue.in_flight_count,
                queue.delayed_count,
                queue.ready_count,
            )
            for queue in (await self.stub.ListReceiving(request)).queues
        ]

    async def comes_to_stand(self, expected, topic="orders"):
        """Wait until the group stands so."""
        async with asyncio.timeout(60):
            while await self.standing(topic) != expected:  # noqa: ASYNC110 - it is in a broker.
                await asyncio.sleep(0.02)

    async def make_group(self, **fields):
        settings = {"consume_enabled": True, "broadcast_enabled": True, "attempts_max": 16}
        group = group_pb.ConsumerGroup(consumer_group=self.group, **(settings | fields))
        await self.broker.groups.CreateConsumerGroup(
            group_pb.CreateConsumerGroupRequest(group=group)
        )


async def held_count(broker):
    """The number of calls that are held now."""
    state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
    return state.statistics.held_pull_count


async def held(broker, count):
    """Wait until so many calls are held."""
    async with asyncio.timeout(60):
        while await held_count(broker) != count:  # noqa: ASYNC110 - it is in a broker.
            await asyncio.sleep(0.01)


def bodies(received):
    return [each.message.body.decode() for each in received]


def attempts(received):
    return [each.message.position.attempts for each in received]


def packed_bodies(queues):
    found = []
    for queue in queues:
        columns = decode_columns(queue.records, np.frombuffer(queue.record_sizes, "<i4"))
        found += [columns.message(row).body.decode() for row in range(len(columns))]
    return found


def settlement(queue, *ranges, **outcome):
    octets = b"".join(struct.pack("<qq", *each) for each in ranges)
    return receive_pb.RecordSettlement(receipt=queue.receipt, ranges=octets, **outcome)
