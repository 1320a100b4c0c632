"""The real process over gRPC: what operators see, with a real name server and broker."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1.send_service_pb2 import SendMessagesRequest
from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane.broker.v1.transaction_service_pb2 import (
    TransactionToEnd,
    UpdateTransactionsRequest,
)
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane.common.v1.message_pb2 import MESSAGE_TYPE_TRANSACTION, Message
from ariane.transaction.v1 import checked_transaction_pb2 as checked_pb
from ariane.transaction.v1 import checked_transaction_service_pb2 as transaction_pb
from ariane.transaction.v1 import checker_service_pb2 as checker_pb
from ariane.transaction.v1.checked_transaction_service_pb2_grpc import (
    CheckedTransactionServiceStub,
)
from ariane.transaction.v1.checker_service_pb2_grpc import CheckerServiceStub
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from ariane_testkit.contract import unimplemented_methods
from ariane_testkit.small_store import SMALL_STORE

PACKAGE = "ariane.transaction.v1"
COMMIT = client_pb.TRANSACTION_OUTCOME_COMMIT
ROLLBACK = client_pb.TRANSACTION_OUTCOME_ROLLBACK
WAITING = checked_pb.CHECKED_TRANSACTION_STATE_WAITING
DECIDED = checked_pb.CHECKED_TRANSACTION_STATE_DECIDED
PARKED = checked_pb.CHECKED_TRANSACTION_STATE_PARKED
QUICK = (
    *("--first-check-s", "0.2", "--check-interval-s", "0.2", "--survey-interval-s", "0.1"),
    *("--note-age-s", "0", "--retry-s", "0.2", "--lease-s", "1"),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    with LocalCluster(folder, extra_broker_args=SMALL_STORE) as running:
        yield running


class Checker:
    """A running checker and its operators."""

    def __init__(self, process, cluster):
        self.process = process
        self.channel = grpc.aio.insecure_channel(process.address)
        self.transactions = CheckedTransactionServiceStub(self.channel)
        self.state = CheckerServiceStub(self.channel)
        self._broker = grpc.aio.insecure_channel(cluster.brokers[0].address)
        self._sends = SendServiceStub(self._broker)
        self._ends = TransactionServiceStub(self._broker)

    async def store(self, transaction_id, topic="orders"):
        message = Message(
            body=b"paid",
            unique_id=transaction_id,
            keys=["o-1"],
            message_type=MESSAGE_TYPE_TRANSACTION,
        )
        request = SendMessagesRequest(topic=topic, messages=[message], half_group="payments")
        await self._sends.SendMessages(request)

    async def settle(self, transaction_id, outcome, topic="orders"):
        end = TransactionToEnd(
            topic=topic,
            transaction_id=transaction_id,
            unique_id=transaction_id,
            outcome=outcome,
            producer_group="payments",
        )
        request = UpdateTransactionsRequest(ends=[end])
        (ended,) = (await self._ends.UpdateTransactions(request)).ends
        assert not ended.HasField("error"), ended
        return ended.outcome

    async def get(self, transaction_id):
        request = transaction_pb.GetCheckedTransactionRequest(transaction_id=transaction_id)
        return (await self.transactions.GetCheckedTransaction(request)).transaction

    async def wait_state(self, transaction_id, state):
        async with asyncio.timeout(60):
            while True:
                try:
                    found = await self.get(transaction_id)
                except grpc.aio.AioRpcError:
                    found = checked_pb.CheckedTransaction()
                if found.state == state:
                    return found
                await asyncio.sleep(0.05)

    async def decide(self, transaction_id, outcome, cause="the customer called"):
        request = transaction_pb.DecideTransactionRequest(
            transaction_id=transaction_id, outcome=outcome, cause=cause
        )
        return (await self.transactions.DecideTransaction(request)).transaction

    async def resume(self, transaction_id):
        request = transaction_pb.ResumeTransactionChecksRequest(transaction_id=transaction_id)
        return (await self.transactions.ResumeTransactionChecks(request)).transaction

    async def close(self):
        await self.channel.close()
        await self._broker.close()
        assert await self.process.stop() == 0


@pytest.fixture
async def start(cluster, tmp_path):
    started = []

    async def start(*flags):
        process = ServiceProcess(
            "txn-checker",
            "ariane_txn_checker",
            (
                *("--name-servers", cluster.name_servers, "--data-path", str(tmp_path / "data")),
                *(*QUICK, *flags),
            ),
            tmp_path / "checker.log",
        )
        await process.start()
        checker = Checker(process, cluster)
        started.append(checker)
        return checker

    yield start
    for checker in started:
        await checker.close()


async def refused(call):
    """Return reason and metadata of a refused call."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    status = rpc_status.from_call(caught.value)
    [error_info] = [unpacked for detail in status.details if detail.Unpack(unpacked := ErrorInfo())]
    return error_info.reason, dict(error_info.metadata)


async def test_nobody_answers_and_an_operator_decides(start):
    checker = await start("--check-count-max", "2")
    await checker.store("a-1")
    parked = await checker.wait_state("a-1", PARKED)
    assert (parked.topic, parked.producer_group, list(parked.keys)) == (
        *("orders", "payments"),
        ["o-1"],
    )
    assert (parked.check_count, parked.check_count_max) == (2, 2)
    assert parked.first_seen_time.ToMilliseconds() >= parked.store_time.ToMilliseconds()
    assert parked.HasField("end_time")
    assert not parked.HasField("next_check_time")
    request = transaction_pb.ListTransactionChecksRequest(transaction_id="a-1", page_size=1)
    first = await checker.transactions.ListTransactionChecks(request)
    [record] = first.checks
    assert (record.check_number, record.failure_reason) == (1, "CLIENT_NOT_ATTACHED")
    request.page_token = first.next_page_token
    second = await checker.transactions.ListTransactionChecks(request)
    assert [each.check_number for each in second.checks] == [2]
    assert not second.next_page_token

    resumed = await checker.resume("a-1")
    assert (resumed.state, resumed.check_count) == (WAITING, 0)
    # A new one makes the checker look at once; by itself it would do so after two seconds.
    await checker.store("a-2")
    await checker.wait_state("a-1", PARKED)
    decided = await checker.decide("a-1", COMMIT)
    assert (decided.state, decided.outcome) == (DECIDED, COMMIT)
    assert (decided.decider, decided.cause) == ("operator", "the customer called")
    assert await checker.decide("a-1", COMMIT) == decided
    reason, metadata = await refused(checker.decide("a-1", ROLLBACK))
    assert (reason, metadata["outcome"]) == ("TRANSACTION_DECIDED", "COMMIT")
    assert (await refused(checker.resume("a-1")))[0] == "TRANSACTION_DECIDED"
    assert await checker.settle("a-1", COMMIT) == COMMIT


async def test_a_producer_that_came_first_is_not_overruled(start):
    checker = await start("--survey-interval-s", "3600", "--first-check-s", "3600")
    await checker.store("b-1")
    # The first survey runs when the broker is taken; only what is there by then is seen.
    checker.process.terminate()
    await checker.process.wait()
    await checker.process.start()
    await checker.wait_state("b-1", WAITING)
    await checker.settle("b-1", ROLLBACK)
    reason, metadata = await refused(checker.decide("b-1", COMMIT))
    assert (reason, metadata["outcome"]) == ("TRANSACTION_DECIDED", "ROLLBACK")
    found = await checker.get("b-1")
    assert (found.state, found.outcome, found.decider) == (DECIDED, ROLLBACK, "")


async def test_lists_have_filters_and_pages(start):
    checker = await start("--first-check-s", "3600")
    for number in range(5):
        await checker.store(f"c-{number}", topic="bills" if number else "letters")
    for number in range(5):
        await checker.wait_state(f"c-{number}", WAITING)
    listed = []
    request = transaction_pb.ListCheckedTransactionsRequest(topic="bills", page_size=3)
    while True:
        answer = await checker.transactions.ListCheckedTransactions(request)
        listed += [each.transaction_id for each in answer.transactions]
        request.page_token = answer.next_page_token
        if not request.page_token:
            break
    assert sorted(listed) == ["c-1", "c-2", "c-3", "c-4"]
    state = await checker.state.GetCheckerState(checker_pb.GetCheckerStateRequest())
    assert state.checked_transaction_count >= 5
    assert state.oldest_store_time.ToMilliseconds() > 0
    leases = await checker.state.ListCheckerLeases(checker_pb.ListCheckerLeasesRequest())
    [lease] = leases.leases
    assert (lease.broker_name, lease.checker_id) == ("broker-a", state.checker_id)
    assert lease.fencing_token >= 1
    assert lease.half_queue_offset >= 5
    request.page_token = "nonsense"  # noqa: S105 - no password
    call = checker.transactions.ListCheckedTransactions(request)
    assert (await refused(call))[0] == "PAGE_TOKEN_INVALID"
    nobody = transaction_pb.ListTransactionChecksRequest(transaction_id="nobody")
    for call in (
        checker.get("nobody"),
        checker.decide("nobody", COMMIT),
        checker.resume("nobody"),
        checker.transactions.ListTransactionChecks(nobody),
    ):
        assert (await refused(call))[0] == "TRANSACTION_NOT_FOUND"
    for call, field in (
        (checker.decide("c-1", client_pb.TRANSACTION_OUTCOME_UNKNOWN), "outcome"),
        (checker.decide("c-1", COMMIT, ""), "cause"),
        (checker.decide("c-1", COMMIT, "x" * 1025), "cause"),
    ):
        assert await refused(call) == ("FIELD_INVALID", {"field": field})


async def test_an_emptied_database_is_filled_again(start, tmp_path):
    checker = await start("--check-count-max", "1")
    await checker.store("d-1")
    await checker.wait_state("d-1", PARKED)
    checker.process.kill()
    await checker.process.wait()
    for path in (tmp_path / "data").iterdir():
        path.unlink()
    await checker.process.start()
    found = await checker.wait_state("d-1", PARKED)
    assert found.check_count == 0
    assert (await checker.decide("d-1", ROLLBACK)).outcome == ROLLBACK


async def test_every_service_is_healthy_and_answers_all_its_methods(start):
    checker = await start()
    health = health_pb2_grpc.HealthStub(checker.channel)
    for service in ("CheckedTransactionService", "CheckerService"):
        name = f"{PACKAGE}.{service}"
        answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert await unimplemented_methods(checker.channel, PACKAGE) == set()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "data_path or database_url must be set"),
        (("--database-url", "mysql://x/y"), "the database is sqlite or postgresql"),
        (
            *(("--database-url", "postgresql+psycopg://me:secret@127.0.0.1:1/x"),),
            "postgresql+psycopg://me:***@127.0.0.1:1/x",
        ),
    ],
)
def test_a_checker_without_a_database_does_not_start(flags, words):
    command = (sys.executable, "-m", "ariane_txn_checker", "--listen", "127.0.0.1:0", *flags)
    wait = ("--database-wait-s", "0")
    ended = subprocess.run((*command, *wait), capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("ariane-")]
    assert words in line
    assert "secret" not in ended.stderr
