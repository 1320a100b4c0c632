"""The contract of a broker's transactions, on the twin and on a real broker."""

from __future__ import annotations

import asyncio
import itertools
from random import Random

import pytest
from grpc import aio

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1.client_service_pb2_grpc import ClientServiceStub
from ariane.broker.v1.send_service_pb2 import SendMessagesRequest
from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane.common.v1.message_pb2 import MESSAGE_TYPE_TRANSACTION, Message
from ariane_servicekit import SystemClock
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE
from ariane_txn_checker.errors import (
    BrokerUnreachable,
    NobodyAnswered,
    OutcomeStands,
    TransactionForgotten,
)
from ariane_txn_checker.rpc import remote_brokers
from ariane_txn_checker.rpc.remote_brokers import RemoteBroker
from ariane_txn_checker.testing import TwinBroker
from ariane_txn_checker.transaction import (
    Answer,
    BrokerKey,
    CheckedTransaction,
    Outcome,
    State,
    TransactionKey,
)

_numbers = itertools.count()


class HastyClock(SystemClock):
    """The machine's time, but nobody waits."""

    async def sleep(self, seconds):
        await asyncio.sleep(0)


class TwinSide:
    """The twin with its producers."""

    def __init__(self):
        self.group = "payments"
        self.broker = TwinBroker(HastyClock())

    async def store(self, transaction_id, *, immunity_s=None):
        immunity_ms = None if immunity_s is None else immunity_s * 1000
        self.broker.store(transaction_id, group=self.group, immunity_ms=immunity_ms)

    async def produce(self, answer):
        self.broker.producers[self.group] = lambda _transaction_id: answer

    async def close(self):
        pass


class RealSide:
    """A broker in a process of its own, with a producer that speaks the contract.

    Tests share the broker: each has a group and ids of its own, and leaves nothing without outcome.
    """

    def __init__(self, address):
        self.group = f"payments-{next(_numbers)}"
        self.broker = RemoteBroker(address, answer_ms_max=1000, chance=Random(1))
        self._channel = aio.insecure_channel(address)
        self._sends = SendServiceStub(self._channel)
        self._clients = ClientServiceStub(self._channel)
        self._answering = None

    async def store(self, transaction_id, *, immunity_s=None):
        name = "CHECK_IMMUNITY_TIME_IN_SECONDS"
        message = Message(
            body=b"paid",
            unique_id=transaction_id,
            keys=[f"key-{transaction_id}"],
            message_type=MESSAGE_TYPE_TRANSACTION,
            properties={} if immunity_s is None else {name: str(immunity_s)},
        )
        request = SendMessagesRequest(topic="orders", messages=[message], half_group=self.group)
        await self._sends.SendMessages(request)

    async def produce(self, answer):
        call = self._clients.Attach()
        hello = client_pb.ClientHello(
            client_id=f"producer-of-{self.group}", producer_groups=[self.group]
        )
        await call.write(client_pb.AttachRequest(hello=hello))
        await call.read()

        async def answer_all():
            while (notice := await call.read()) is not aio.EOF:
                check = notice.transaction_check
                if check.transaction_id and answer is not None:
                    said = client_pb.TransactionAnswer(
                        transaction_id=check.transaction_id,
                        outcome=int(answer),
                    )
                    await call.write(client_pb.AttachRequest(transaction_answer=said))

        self._answering = asyncio.create_task(answer_all())

    async def close(self):
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.wait([self._answering])
        for left in (await self.broker.list_half_messages(page_size=100)).half_messages:
            await self.broker.end(row(left.transaction_id, left.producer_group), Outcome.ROLLBACK)
        await self.broker.close()
        await self._channel.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    with LocalCluster(folder, extra_broker_args=SMALL_STORE) as running:
        yield running


@pytest.fixture(params=["twin", "real"])
async def side(request):
    if request.param == "twin":
        yield TwinSide()
        return
    real = RealSide(request.getfixturevalue("cluster").brokers[0].address)
    yield real
    await real.close()


def row(transaction_id, group="payments"):
    """A transaction, as far as a broker wants to know it."""
    return CheckedTransaction(
        key=TransactionKey(BrokerKey("c1", "broker-a"), transaction_id),
        unique_id=transaction_id,
        topic="orders",
        producer_group=group,
        keys=(),
        half_queue_offset=0,
        store_ms=0,
        first_seen_ms=0,
        next_check_ms=None,
        check_count=0,
        check_number_last=0,
        state=State.ASKING,
        unlisted=False,
        outcome=Outcome.UNSPECIFIED,
        decider="",
        cause="",
        end_ms=None,
    )


async def listed(broker, **request):
    page = await broker.list_half_messages(page_size=100, **request)
    return [half.transaction_id for half in page.half_messages]


async def test_the_life_of_half_messages(side):
    broker = side.broker
    for number in range(4):
        await side.store(f"T{number}", immunity_s=9 if number == 3 else None)
    page = await broker.list_half_messages(page_size=3)
    assert [half.transaction_id for half in page.half_messages] == ["T0", "T1", "T2"]
    first = page.half_messages[0]
    assert (first.topic, first.producer_group) == ("orders", side.group)
    assert first.keys == ("key-T0",)
    assert (first.immunity_ms, first.parked) == (None, False)
    assert 0 <= page.answer_ms - first.store_ms < 60_000
    assert page.half_queue_offset_end == first.half_queue_offset + 4
    rest = await broker.list_half_messages(page_size=3, page_token=page.next_page_token)
    [last] = rest.half_messages
    assert (last.transaction_id, last.immunity_ms) == ("T3", 9_000)
    assert not rest.next_page_token
    assert await listed(broker, begin_queue_offset=last.half_queue_offset) == ["T3"]

    assert await broker.end(row("T1", side.group), Outcome.COMMIT) is Outcome.COMMIT
    assert await broker.end(row("T1", side.group), Outcome.COMMIT) is Outcome.COMMIT
    assert await broker.end(row("T1", side.group), Outcome.ROLLBACK) is Outcome.COMMIT
    assert await broker.end(row("T2", side.group), Outcome.ROLLBACK) is Outcome.ROLLBACK
    assert await listed(broker) == ["T0", "T3"]
    after = await broker.list_half_messages(page_size=1)
    assert after.half_queue_offset_end == page.half_queue_offset_end
    assert after.op_queue_offset_end > page.op_queue_offset_end

    await broker.park("T0", check_count=15)
    await broker.park("T0", check_count=15)
    parked = (await broker.list_half_messages(page_size=1)).half_messages[0]
    assert (parked.transaction_id, parked.parked) == ("T0", True)
    assert await broker.end(row("T0", side.group), Outcome.COMMIT) is Outcome.COMMIT
    assert await listed(broker) == ["T3"]

    for refused in (broker.ask("T1", check_count=0), broker.park("T1", check_count=0)):
        with pytest.raises(OutcomeStands) as stands:
            await refused
        assert stands.value.outcome is Outcome.COMMIT
    for refused in (
        broker.ask("T9", check_count=0),
        broker.park("T9", check_count=0),
        broker.end(row("T9", side.group), Outcome.COMMIT),
    ):
        with pytest.raises(TransactionForgotten):
            await refused


async def test_questions_and_answers(side):
    await side.store("Q1")
    with pytest.raises(NobodyAnswered) as silence:
        await side.broker.ask("Q1", check_count=0)
    assert silence.value.reason == "CLIENT_NOT_ATTACHED"
    await side.produce(Outcome.UNKNOWN)
    answer = await side.broker.ask("Q1", check_count=1)
    assert answer == Answer(Outcome.UNKNOWN, f"producer-of-{side.group}")
    # An answer alone decides nothing.
    assert await listed(side.broker) == ["Q1"]


async def test_a_producer_that_is_silent(side):
    await side.store("S1")
    await side.produce(None)
    with pytest.raises(NobodyAnswered) as silence:
        await side.broker.ask("S1", check_count=0)
    assert silence.value.reason == "DEADLINE_PASSED"


async def test_a_broker_that_is_away_was_surely_not_asked(monkeypatch):
    monkeypatch.setattr(remote_brokers, "CONNECT_S_MAX", 0.2)
    broker = RemoteBroker("127.0.0.1:1", answer_ms_max=1000, chance=Random(1))
    refusals = await asyncio.gather(
        broker.list_half_messages(page_size=1),
        broker.ask("T1", check_count=0),
        broker.end(row("T1"), Outcome.COMMIT),
        broker.park("T1", check_count=0),
        return_exceptions=True,
    )
    assert [type(refusal) for refusal in refusals] == [BrokerUnreachable] * 4
    await broker.close()
