"""Transactions through admin: a producer that never answers leaves them to an operator."""

import asyncio

import pytest
from grpc import StatusCode, aio

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import transaction_service_pb2 as transaction_pb
from ariane.admin.v1.audit_service_pb2_grpc import AuditServiceStub
from ariane.admin.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane.broker.v1.client_service_pb2 import (
    TRANSACTION_OUTCOME_COMMIT,
    TRANSACTION_OUTCOME_ROLLBACK,
)
from ariane_sdk import ClusterClient, Message, Producer, TransactionOutcome
from ariane_servicekit.running.processes import LocalCluster

pytestmark = pytest.mark.slow


@pytest.fixture
async def own_cluster(tmp_path):
    """A broker, a checker and admin."""
    flags = ("--segment-bytes", str(64 << 20), "--disk-clean-ratio", "0.97")
    flags += ("--disk-force-ratio", "0.98", "--disk-refuse-ratio", "0.99")
    async with LocalCluster(
        tmp_path,
        checkers=1,
        admin=True,
        extra_broker_args=flags,
    ) as running:
        yield running


async def unsure(_message):
    return TransactionOutcome.UNKNOWN


async def test_transactions_are_listed_decided_and_audited(own_cluster):
    servers = own_cluster.name_servers
    async with ClusterClient(servers) as client:
        await client.create_topic("moves", queue_count=1)
    async with (
        aio.insecure_channel(own_cluster.admins[0].address) as channel,
        Producer(servers, group="movers", transaction_checker=unsure) as producer,
    ):
        await producer.send_half(Message("moves", b"half", keys=["h1"]))
        stub = TransactionServiceStub(channel)
        found = []
        async with asyncio.timeout(120):
            while not found:
                listed = await stub.ListTransactions(
                    transaction_pb.ListTransactionsRequest(producer_group="movers")
                )
                found = listed.transactions
                await asyncio.sleep(0.2)
        checks = []
        async with asyncio.timeout(120):
            while not checks:
                told = await stub.ListTransactionChecks(
                    transaction_pb.ListTransactionChecksRequest(
                        transaction_id=found[0].transaction_id, page_size=1
                    )
                )
                checks = told.checks
                await asyncio.sleep(0.2)
        assert [each.check_number for each in checks] == [1]
        elsewhere = transaction_pb.ListTransactionsRequest(broker_name="broker-z")
        assert not (await stub.ListTransactions(elsewhere)).transactions
        decide = transaction_pb.DecideTransactionRequest(
            transaction_id=found[0].transaction_id,
            outcome=TRANSACTION_OUTCOME_ROLLBACK,
            cause="by hand",
        )
        decided = await stub.DecideTransaction(decide)
        assert decided.transaction.outcome == TRANSACTION_OUTCOME_ROLLBACK
        decide.outcome = TRANSACTION_OUTCOME_COMMIT
        with pytest.raises(aio.AioRpcError) as refused:
            await stub.DecideTransaction(decide)
        assert refused.value.code() is StatusCode.FAILED_PRECONDITION
        trail = await AuditServiceStub(channel).ListAuditEntries(
            audit_pb.ListAuditEntriesRequest(method="DecideTransaction")
        )
        assert [each.outcome for each in trail.entries] == [
            audit_pb.AUDIT_OUTCOME_FAILED,
            audit_pb.AUDIT_OUTCOME_DONE,
        ]
        assert "movers" in trail.entries[0].before_json
