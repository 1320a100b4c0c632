"""A call that finds its answer at once is answered in the turn of the loop that has read it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

import ariane_wire
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.broker.v1.client_service_pb2 import TRANSACTION_OUTCOME_COMMIT
from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane_testkit.append_rows import rows_request

CALL_TASK = "ariane-wire-call"
"""A task by this name goes on with a call that has had to wait."""


@pytest.fixture
async def tasks():
    """All tasks of this loop, as a list that grows."""
    loop, made = asyncio.get_running_loop(), []

    def make(loop, coroutine, **named):
        made.append(asyncio.Task(coroutine, loop=loop, **named))
        return made[-1]

    loop.set_task_factory(make)
    yield made
    loop.set_task_factory(None)


@pytest.mark.parametrize(("flush_mode", "waiting"), [("async", 0), ("sync", 3)])
async def test_sends_and_transactions_wait_for_nothing_but_the_disk(
    running, tasks, flush_mode, waiting
):
    async with running(flush_mode=flush_mode) as broker:
        await broker.create_topic("orders")
        end = transaction_pb.TransactionToEnd(
            topic="orders",
            transaction_id="id-0",
            unique_id="id-0",
            outcome=TRANSACTION_OUTCOME_COMMIT,
            producer_group="pay",
        )
        row = broker.batch("orders", [b"a"])
        half = replace(row, half_group="pay")
        async with ariane_wire.insecure_channel(str(broker.address)) as channel:
            await channel.channel_ready()
            sends, transactions = SendServiceStub(channel), TransactionServiceStub(channel)
            tasks.clear()
            sent = await sends.AppendRecords(rows_request([row]))
            stored = await sends.AppendRecords(rows_request([half]))
            ended = await transactions.UpdateTransactions(
                transaction_pb.UpdateTransactionsRequest(ends=[end])
            )
        assert [task.get_name() for task in tasks].count(CALL_TASK) == waiting
        assert not [*sent.table_result.rows, *stored.table_result.rows]
        assert not ended.ends[0].HasField("error"), ended
