"""Settling: where a broker's primary is now, whoever has given the messages."""

import pytest

from ariane.broker.v1.receive_service_pb2 import SettledRecords, SettleRecordsResponse
from ariane_sdk.consumer.receiving.receive_calls import DONE, Answer, ReceiveCalls, messages_of
from ariane_sdk.consumer.receiving.receive_wire import receive_answer
from ariane_sdk.errors import ServiceUnavailable
from ariane_sdk.routing.failover import Failover
from ariane_sdk.runtime.clock import SystemClock
from sdk.python.tests.consumer.receiving.test_asking import encoded


class Primaries:
    """Where the primary is: each look is the next place."""

    topics = ("orders",)

    def __init__(self, *places):
        self.places = list(places)
        self.failover = Failover(self, SystemClock())

    def find(self, broker_name):
        assert broker_name == "a"
        return self.places[0]

    def doubt(self, topic):
        assert topic == "orders"

    async def reconsider(self, topic):
        assert topic == "orders"
        if len(self.places) > 1:
            del self.places[0]


class Brokers:
    """Processes; one is the primary."""

    def __init__(self, primary):
        self.primary = primary
        self.settled = []

    async def settle_records(self, address, request, _timeout_s):
        if address != self.primary:
            raise ServiceUnavailable("not the primary", reason="BROKER_NOT_PRIMARY", retriable=True)
        self.settled += [each.receipt for each in request.settlements]
        return SettleRecordsResponse(results=[SettledRecords()])


def received():
    return messages_of(Answer("a", "old:1", receive_answer(encoded(0, 3))))


def calls_of(brokers, primaries):
    return ReceiveCalls(
        brokers,
        "billing",
        primaries,
        timeout_s=3.0,
    )


@pytest.mark.parametrize(
    "places",
    [
        pytest.param(["new:1"], id="the route tells it"),
        pytest.param(["old:1", "new:1"], id="the route is old"),
        pytest.param(["", "new:1"], id="the route has none yet"),
    ],
)
async def test_messages_are_settled_at_who_has_taken_over(places):
    brokers = Brokers("new:1")
    await calls_of(brokers, Primaries(*places)).settle(received(), DONE, patience_s=60)
    assert brokers.settled == [b"token"]


@pytest.mark.parametrize("place", ["", "old:1"])
async def test_that_nobody_has_taken_over_yet_is_told(place):
    brokers = Brokers("new:1")
    with pytest.raises(ServiceUnavailable):
        await calls_of(brokers, Primaries(place)).settle(received(), DONE, patience_s=0.1)
    assert not brokers.settled


async def test_who_gave_them_settles_them_where_no_route_tells_a_primary():
    brokers = Brokers("old:1")
    await calls_of(brokers, Primaries("")).settle(received(), DONE)
    assert brokers.settled == [b"token"]
