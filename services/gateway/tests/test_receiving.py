"""Receiving for clients: what is done for them after they were answered."""

import asyncio

import pytest

from ariane_gateway.brokers.portrait import Wanted
from ariane_gateway.brokers.receive_calls import Delivery, ReceiveOrder
from ariane_gateway.receiving.open_holds import OpenHolds
from ariane_gateway.receiving.receiving import Receiving
from ariane_gateway.receiving.shared_holds import SharedHolds
from ariane_gateway.refusal_kinds import Refusal
from ariane_gateway.refusals import Refused

ORDER = ReceiveOrder("billing", Wanted("orders"), "one", 32, 60.0)


class Broker:
    """Refuses to keep messages for these reasons, one after the other, and then does."""

    def __init__(self, *reasons):
        self.reasons = list(reasons)
        self.kept = asyncio.get_running_loop().create_future()

    async def keep(self, broker_name, topic, group, client_id, receipts):
        if self.reasons:
            raise Refused(self.reasons.pop(0), "not now")
        self.kept.set_result((broker_name, topic, group, client_id, receipts))


@pytest.fixture
async def receiving_from():
    made = []

    def receiving_from(broker):
        shared = SharedHolds(broker, asyncio.get_running_loop().time)
        made.append(Receiving(broker, shared, OpenHolds()))
        return made[-1]

    yield receiving_from
    for each in made:
        await each.close()


async def test_messages_are_kept_although_their_broker_was_busy(receiving_from):
    broker = Broker(Refusal.BUSY, Refusal.NO_ANSWER)
    deliveries = [Delivery(None, "orders", b"receipt", 1, 0)] * 2
    receiving_from(broker).keep("broker-a", ORDER, deliveries)
    async with asyncio.timeout(30):
        assert await broker.kept == ("broker-a", "orders", "billing", "one", [b"receipt"])
