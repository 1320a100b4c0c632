"""Half messages and ends share calls, and each is answered by itself."""

import asyncio
from random import Random

import grpc
import pytest
from grpc_status import rpc_status

import ariane_wire
from ariane.broker.v1.transaction_service_pb2 import (
    HalfMessageResult,
    HalfMessageToStore,
    TransactionEndResult,
    TransactionToEnd,
    UpdateTransactionsResponse,
)
from ariane.broker.v1.transaction_service_pb2_grpc import (
    TransactionServiceServicer,
    add_TransactionServiceServicer_to_server,
)
from ariane.common.v1.message_pb2 import (
    ACKNOWLEDGED_LEVEL_FLUSHED,
    ACKNOWLEDGED_LEVEL_MEMORY,
    Message,
)
from ariane_sdk import ProducerSettings
from ariane_sdk.errors import CallError, ClientNotRunning, RequestTooLarge, TransactionNotFound
from ariane_sdk.net.connections import Connections
from ariane_sdk.producer.transactions.transaction_requests import (
    CALLS_MAX,
    HALF_MIN,
    TOGETHER_MAX,
    TransactionRequests,
)

RECEIVE_BYTES_MAX = 100_000


class Broker(TransactionServiceServicer):
    """Answers all, refuses ends of ``refused``, and breaks or leaves calls hanging as told."""

    def __init__(self):
        self.answers = True
        self.answering = asyncio.Event()
        self.answering.set()
        self.status = None
        self.level = ACKNOWLEDGED_LEVEL_MEMORY
        self.refused = {}
        self.requests = []
        self.came = asyncio.Event()

    async def UpdateTransactions(self, request, context):  # noqa: N802 - the contract's.
        self.requests.append(request)
        self.came.set()
        if self.answers == "breaks":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "scripted")
        if self.status is not None:
            await context.abort_with_status(rpc_status.to_status(self.status))
        await self.answering.wait()
        return self._answer(request)

    def _answer(self, request):
        answer = UpdateTransactionsResponse()
        for half in request.half_messages:
            stored = HalfMessageResult(
                transaction_id=half.message.unique_id, acknowledged_level=self.level
            )
            answer.half_messages.append(stored)
        for end in request.ends:
            position = {"queue_offset": int(end.transaction_id)}
            error = self.refused.get(end.transaction_id)
            position = position if error is None else None
            answer.ends.append(TransactionEndResult(error=error, position=position))
        return answer


@pytest.fixture
async def broker():
    server = ariane_wire.server(options=[("grpc.max_receive_message_length", RECEIVE_BYTES_MAX)])
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
async def requests(connections):
    settings = ProducerSettings(call_timeout_s=20)
    requests = TransactionRequests(connections, settings=settings)
    yield requests
    requests.close()


@pytest.fixture
def store(broker, requests):
    def begin(number, body=b""):
        message = Message(unique_id=str(number), body=body)
        half = HalfMessageToStore(topic="orders", queue_id=1, message=message)
        return requests.store_half(broker.address, "broker", half)

    return begin


@pytest.fixture
def end(broker, requests):
    def begin(number):
        end = TransactionToEnd(topic="orders", transaction_id=str(number))
        return requests.end(broker.address, "broker", end)

    return begin


async def test_what_comes_in_one_turn_goes_in_one_request(broker, store, end, make_status):
    broker.refused["3"] = make_status(grpc.StatusCode.NOT_FOUND, "TRANSACTION_NOT_FOUND")
    answers = await asyncio.gather(
        *(call(number) for number in range(5) for call in (end, store)), return_exceptions=True
    )
    (request,) = broker.requests
    assert [each.message.unique_id for each in request.half_messages] == list("01234")
    assert [each.transaction_id for each in request.ends] == list("01234")
    assert answers[1::2] == [None] * 5
    refused = answers.pop(6)
    assert isinstance(refused, TransactionNotFound)
    assert not refused.outcome_unknown
    assert [each.position.queue_offset for each in answers[::2] if each] == [0, 1, 2]
    await store(5)
    assert (await end(6)).position.queue_offset == 6
    assert len(broker.requests) == 3


async def test_many_go_in_several_requests(broker, store):
    await asyncio.gather(*map(store, range(2 * TOGETHER_MAX + 1)))
    counts = [len(request.half_messages) for request in broker.requests]
    assert counts == [TOGETHER_MAX, TOGETHER_MAX, 1]


async def test_many_are_sent_in_two_requests_when_nothing_is_under_way(broker, store):
    await asyncio.gather(*map(store, range(40)))
    assert [len(request.half_messages) for request in broker.requests] == [20, 20]
    broker.requests.clear()
    await asyncio.gather(*map(store, range(2 * HALF_MIN - 2)))
    assert [len(request.half_messages) for request in broker.requests] == [2 * HALF_MIN - 2]


async def test_many_are_sent_together_beside_a_request_under_way(broker, store):
    await store(0)
    broker.requests.clear()
    first = asyncio.ensure_future(store(1))
    await asyncio.sleep(0)  # It asks,
    await asyncio.sleep(0)  # and leaves.
    await asyncio.gather(*map(store, range(2, 42)))
    await first
    assert [len(request.half_messages) for request in broker.requests] == [1, 40]


async def test_many_are_sent_together_to_a_broker_that_waits_for_the_disk(broker, store):
    broker.level = ACKNOWLEDGED_LEVEL_FLUSHED
    await store(0)
    broker.requests.clear()
    await asyncio.gather(*map(store, range(1, 41)))
    assert [len(request.half_messages) for request in broker.requests] == [40]
    broker.level = ACKNOWLEDGED_LEVEL_MEMORY
    await store(0)
    broker.requests.clear()
    await asyncio.gather(*map(store, range(1, 41)))
    assert [len(request.half_messages) for request in broker.requests] == [20, 20]


async def test_what_comes_while_very_many_calls_are_in_flight_is_gathered(broker, store):
    broker.answering.clear()
    calls = []
    for number in range(CALLS_MAX):
        calls.append(asyncio.ensure_future(store(number)))
        for _ in range(2):  # It asks, and leaves.
            await asyncio.sleep(0)
    calls += [asyncio.ensure_future(store(number)) for number in range(100, 140)]
    async with asyncio.timeout(60):
        while len(broker.requests) < CALLS_MAX:  # noqa: ASYNC110 - it tells of the first only.
            await asyncio.sleep(0.01)
    assert len(broker.requests) == CALLS_MAX
    broker.answering.set()
    await asyncio.gather(*calls)
    counts = [len(request.half_messages) for request in broker.requests]
    assert counts[:CALLS_MAX] == [1] * CALLS_MAX
    assert sum(counts[CALLS_MAX:]) == 40
    assert len(counts) <= CALLS_MAX + 2


async def test_what_is_too_large_together_goes_one_by_one(broker, store):
    body = bytes(RECEIVE_BYTES_MAX // 2)
    await asyncio.gather(store(1, body), store(2, body), store(3))
    assert [len(request.half_messages) for request in broker.requests] == [1, 1, 1]
    outcomes = await asyncio.gather(store(4, 3 * body), store(5), return_exceptions=True)
    assert isinstance(outcomes[0], RequestTooLarge)
    assert outcomes[1] is None or outcomes[1].retriable


async def test_a_call_that_breaks_leaves_all_unknown_and_the_next_is_answered(broker, store, end):
    broker.answers = "breaks"
    errors = await asyncio.gather(store(1), end(2), return_exceptions=True)
    assert all(isinstance(error, CallError) for error in errors)
    assert all(error.outcome_unknown and error.retriable for error in errors)
    # Each has an error of its own: who hears it may change it.
    assert errors[0] is not errors[1]
    broker.answers = True
    await store(3)


async def test_a_request_that_fails_fails_all_of_it(broker, store, end, make_status):
    broker.status = make_status(grpc.StatusCode.UNAVAILABLE, "FLUSH_UNCONFIRMED")
    errors = await asyncio.gather(store(1), end(2), return_exceptions=True)
    assert [(error.reason, error.outcome_unknown) for error in errors] == [
        ("FLUSH_UNCONFIRMED", True)
    ] * 2
    broker.status = None
    await store(3)


async def test_what_nobody_waits_for_does_not_leave(broker, store):
    one = asyncio.ensure_future(store(1))
    two = asyncio.ensure_future(store(2))
    await asyncio.sleep(0)
    one.cancel()
    await two
    (request,) = broker.requests
    assert [each.message.unique_id for each in request.half_messages] == ["2"]


async def test_who_waits_is_told_of_the_end(broker, requests, connections, store, end):
    broker.answering.clear()
    sent = asyncio.ensure_future(store(1))
    await broker.came.wait()
    gathered = asyncio.ensure_future(end(2))
    await asyncio.sleep(0)
    requests.close()
    for each in (sent, gathered):
        with pytest.raises(CallError) as told:
            await each
        assert told.value.outcome_unknown
    await connections.close()
    with pytest.raises(ClientNotRunning):
        await store(3)
