"""A half message that a broker surely did not store goes to another; what is refused is refused."""

import itertools
from random import Random

import grpc
import pytest
from grpc_status import rpc_status

import ariane_wire
from ariane.broker.v1.transaction_service_pb2 import UpdateTransactionsResponse
from ariane.broker.v1.transaction_service_pb2_grpc import (
    TransactionServiceServicer,
    add_TransactionServiceServicer_to_server,
)
from ariane_sdk import Message, MessageQueue, ProducerSettings
from ariane_sdk.errors import SendError
from ariane_sdk.net.connections import Connections
from ariane_sdk.producer.accumulator.topic_lane import SendOptions
from ariane_sdk.producer.transactions.transaction_calls import TransactionCalls
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.runtime.clock import SystemClock

BROKERS = ("a", "b")


class Broker(TransactionServiceServicer):
    """Refuses as often as it was told to, and stores what comes then."""

    def __init__(self):
        self.refusals = []
        self.request_count = 0

    async def UpdateTransactions(self, request, context):  # noqa: N802 - the contract's.
        self.request_count += 1
        if self.refusals:
            await context.abort_with_status(rpc_status.to_status(self.refusals.pop()))
        answer = UpdateTransactionsResponse()
        answer.half_messages.add(transaction_id=request.half_messages[0].message.unique_id)
        return answer


class OneRoute:
    """Both names are one broker, so that a test sees every request."""

    def __init__(self, address):
        routes = (BrokerRoute("c", name, {0: address}, 1, 1) for name in BROKERS)
        self.route = Route("orders", tuple(routes))
        self.refreshed = 0

    async def get_for_send(self, topic):
        return self.route

    async def reconsider(self, topic):
        self.refreshed += 1


class OneLane:
    """A lane whose queues take turns, but for those of brokers to avoid."""

    def __init__(self):
        self.chosen = []
        self._turns = itertools.cycle(BROKERS)

    async def lane_of(self, topic, *, grouped):
        return self

    def pinned_queue(self, message, options):
        return None

    def next_queue(self, allowed):
        name = next(name for name in self._turns if allowed(name))
        self.chosen.append(name)
        return MessageQueue("orders", name, 0)


@pytest.fixture
def lane():
    return OneLane()


@pytest.fixture
async def broker():
    server = ariane_wire.server()
    broker = Broker()
    add_TransactionServiceServicer_to_server(broker, server)
    broker.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield broker
    await server.stop(None)


@pytest.fixture
async def send_half(broker, lane):
    connections = Connections(Random(1))
    calls = TransactionCalls(
        connections,
        OneRoute(broker.address),
        lane,
        group="tills",
        settings=ProducerSettings(send_timeout_s=60, repeat_delay_s_min=0.001),
        clock=SystemClock(),
        new_unique_id=lambda: "1",
    )
    yield lambda: calls.send_half(Message("orders", b"x"), SendOptions(), None)
    calls.close()
    await connections.close()


async def test_a_refusal_for_now_sends_it_to_another_broker(broker, lane, send_half, make_status):
    broker.refusals = [make_status(grpc.StatusCode.RESOURCE_EXHAUSTED, "STORE_FULL")]
    assert (await send_half()).broker_name == "b"
    assert lane.chosen == ["a", "b"]


async def test_a_refusal_for_good_is_told_at_once(broker, lane, send_half, make_status):
    broker.refusals = [make_status(grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE_ILLEGAL")]
    with pytest.raises(SendError) as refused:
        await send_half()
    assert not refused.value.outcome_unknown
    assert (lane.chosen, broker.request_count) == (["a"], 1)
