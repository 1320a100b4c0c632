"""Ends of transactions share calls, and each is answered for itself."""

import asyncio
from random import Random

import grpc
import pytest
from grpc_status import rpc_status

import ariane_wire
from ariane.broker.v1.transaction_service_pb2 import (
    TransactionEndResult,
    TransactionToEnd,
    UpdateTransactionsResponse,
)
from ariane.broker.v1.transaction_service_pb2_grpc import (
    TransactionServiceServicer,
    add_TransactionServiceServicer_to_server,
)
from ariane_sdk.errors import CallError, ClientNotRunning, TransactionNotFound
from ariane_sdk.net.connections import Connections
from ariane_sdk.producer.transactions.transaction_calls import TOGETHER_MAX, EndCalls


class Broker(TransactionServiceServicer):
    """Answers all, refuses ends of ``refused``, and breaks or leaves calls hanging as told."""

    def __init__(self):
        self.answering = asyncio.Event()
        self.answering.set()
        self.status = None
        self.refused = {}
        self.surplus = 0
        self.requests = []
        self.came = asyncio.Event()

    async def UpdateTransactions(self, request, context):  # noqa: N802 - the contract's.
        self.requests.append([each.transaction_id for each in request.ends])
        self.came.set()
        if isinstance(self.status, grpc.StatusCode):
            await context.abort(self.status, "scripted")
        if self.status is not None:
            await context.abort_with_status(rpc_status.to_status(self.status))
        await self.answering.wait()
        answer = UpdateTransactionsResponse()
        for end in request.ends:
            error = self.refused.get(end.transaction_id)
            position = {"queue_offset": int(end.transaction_id)} if error is None else None
            answer.ends.append(TransactionEndResult(error=error, position=position))
        for _ in range(self.surplus):
            answer.ends.add()
        return answer


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
async def connections():
    connections = Connections(Random(1))
    yield connections
    await connections.close()


@pytest.fixture
async def calls(connections):
    calls = EndCalls(connections, timeout_s=20)
    yield calls
    calls.close()


@pytest.fixture
def end(broker, calls):
    def begin(number):
        end = TransactionToEnd(topic="orders", transaction_id=str(number))
        return calls.end(broker.address, "broker", end)

    return begin


async def test_ends_of_one_turn_share_a_call(broker, end, make_status):
    broker.refused["3"] = make_status(grpc.StatusCode.NOT_FOUND, "TRANSACTION_NOT_FOUND")
    answers = await asyncio.gather(*map(end, range(5)), return_exceptions=True)
    refused = answers.pop(3)
    assert isinstance(refused, TransactionNotFound)
    assert not refused.outcome_unknown
    assert [each.position.queue_offset for each in answers] == [0, 1, 2, 4]
    assert (await end(6)).position.queue_offset == 6
    assert broker.requests == [["0", "1", "2", "3", "4"], ["6"]]


async def test_many_ends_are_divided_among_calls(broker, end):
    await asyncio.gather(*map(end, range(2 * TOGETHER_MAX + 1)))
    assert [len(ids) for ids in broker.requests] == [TOGETHER_MAX, TOGETHER_MAX, 1]


@pytest.mark.parametrize("reason", ["", "FLUSH_UNCONFIRMED"])
async def test_a_call_that_fails_leaves_the_outcome_of_each_unknown(
    broker, end, make_status, reason
):
    code = grpc.StatusCode.UNAVAILABLE
    broker.status = make_status(code, reason) if reason else code
    errors = await asyncio.gather(end(1), end(2), return_exceptions=True)
    assert all(isinstance(error, CallError) and error.outcome_unknown for error in errors)
    # Each has an error of its own: who hears it may change it.
    assert errors[0] is not errors[1]
    broker.status = None
    assert (await end(3)).position.queue_offset == 3


async def test_results_for_others_than_the_ends_leave_all_unknown(broker, end):
    broker.surplus = 1
    errors = await asyncio.gather(end(1), end(2), return_exceptions=True)
    assert all(isinstance(error, CallError) and error.outcome_unknown for error in errors)


async def test_an_end_that_is_cancelled_before_it_leaves_is_not_sent(broker, end):
    one, two = asyncio.ensure_future(end(1)), asyncio.ensure_future(end(2))
    await asyncio.sleep(0)
    one.cancel()
    await two
    assert broker.requests == [["2"]]


async def test_a_close_fails_the_ends_without_an_answer(broker, calls, connections, end):
    broker.answering.clear()
    sent = asyncio.ensure_future(end(1))
    await broker.came.wait()
    gathered = asyncio.ensure_future(end(2))
    await asyncio.sleep(0)
    calls.close()
    with pytest.raises(CallError) as in_flight:
        await sent
    assert in_flight.value.outcome_unknown
    with pytest.raises(ClientNotRunning):
        await gathered
    await connections.close()
    with pytest.raises(ClientNotRunning):
        await end(3)
    assert broker.requests == [["1"]]
