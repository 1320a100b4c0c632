"""Two transaction checkers over one PostgreSQL, killed at any time.

Every half message is decided or parked, none is decided twice, and no producer is asked about one
more often than allowed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest
from sqlalchemy import create_engine, select

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1.client_service_pb2_grpc import ClientServiceStub
from ariane.broker.v1.query_service_pb2 import QueryMessagesRequest
from ariane.broker.v1.query_service_pb2_grpc import QueryServiceStub
from ariane.broker.v1.send_service_pb2 import SendMessagesRequest
from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane.broker.v1.transaction_service_pb2 import (
    ListHalfMessagesRequest,
)
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane.common.v1.message_pb2 import MESSAGE_TYPE_TRANSACTION, Message
from ariane_servicekit.running.processes import ServiceProcess
from ariane_servicekit.security.caller import MemberKind
from ariane_testkit.closed_clusters import open_aio_channel
from ariane_testkit.postgresql import postgresql_or_skip
from ariane_txn_checker.database.tables import CHECK, TRANSACTION
from ariane_txn_checker.transaction import Outcome, State

CHECKS_MAX = 4
KILLS = 8
SEED = 20_261_121
QUICK = (
    *("--first-check-s", "0.5", "--check-interval-s", "0.7", "--survey-interval-s", "0.2"),
    *("--note-age-s", "0", "--retry-s", "0.3", "--lease-s", "1.5"),
    *("--check-count-max", str(CHECKS_MAX)),
)
ANSWERS = {
    "committing": client_pb.TRANSACTION_OUTCOME_COMMIT,
    "reverting": client_pb.TRANSACTION_OUTCOME_ROLLBACK,
    "unsure": client_pb.TRANSACTION_OUTCOME_UNKNOWN,
}
"""What the producers of each group say; those of the group "gone" do not live."""

OUTCOMES = {"committing": Outcome.COMMIT, "reverting": Outcome.ROLLBACK}


@pytest.fixture
def database_url(request):
    with postgresql_or_skip(request.config) as url:
        yield url


class Broker:
    """One broker, and the producers of all groups there."""

    def __init__(self, address, asked):
        self._channel = open_aio_channel(address)
        self._clients = ClientServiceStub(self._channel)
        self._queries = QueryServiceStub(self._channel)
        self._sends = SendServiceStub(self._channel)
        self._transactions = TransactionServiceStub(self._channel)
        self._asked = asked
        self._answering = []

    @asynccontextmanager
    async def attached(self):
        for group, answer in ANSWERS.items():
            call = self._clients.Attach()
            hello = client_pb.ClientHello(client_id=f"producer-{group}", producer_groups=[group])
            await call.write(client_pb.AttachRequest(hello=hello))
            await call.read()
            self._answering.append(asyncio.create_task(self._answer(call, answer)))
        try:
            yield self
        finally:
            for task in self._answering:
                task.cancel()
            await asyncio.wait(self._answering)
            await self._channel.close()

    async def store(self, transaction_id, group):
        message = Message(
            body=b"paid",
            unique_id=transaction_id,
            keys=[transaction_id],
            message_type=MESSAGE_TYPE_TRANSACTION,
        )
        request = SendMessagesRequest(topic="orders", messages=[message], half_group=group)
        await self._sends.SendMessages(request)

    async def visible_count(self, transaction_id):
        request = QueryMessagesRequest(topic="orders", key=transaction_id)
        try:
            return len((await self._queries.QueryMessages(request)).messages)
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.NOT_FOUND  # noqa: PT017 - which error matters
            return 0

    async def open_halves(self):
        answer = await self._transactions.ListHalfMessages(ListHalfMessagesRequest(page_size=1000))
        return {half.transaction_id: half.parked for half in answer.half_messages}

    async def _answer(self, call, answer):
        while (notice := await call.read()) is not grpc.aio.EOF:
            check = notice.transaction_check
            if check.transaction_id:
                self._asked[check.transaction_id] += 1
                said = client_pb.TransactionAnswer(
                    transaction_id=check.transaction_id, outcome=answer
                )
                await call.write(client_pb.AttachRequest(transaction_answer=said))


def rows(database_url, table):
    engine = create_engine(database_url)
    with engine.connect() as connection:
        found = connection.execute(select(table)).all()
    engine.dispose()
    return found


def check_row(row, group):
    outcome = OUTCOMES.get(group, Outcome.UNSPECIFIED)
    assert (row.outcome, row.state == State.PARKED) == (outcome, not outcome)
    assert row.check_count <= CHECKS_MAX


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_every_half_message_is_decided_or_parked_whoever_dies(  # noqa: C901 - one story
    local_cluster, database_url, tmp_path, until
):
    chance = random.Random(SEED)
    asked = Counter()
    groups = {}
    homes = {}
    async with local_cluster(brokers=2) as cluster, AsyncExitStack() as stack:
        brokers = [
            await stack.enter_async_context(Broker(process.address, asked).attached())
            for process in cluster.brokers
        ]
        arguments = ("--name-servers", cluster.name_servers, "--database-url", database_url)
        checkers = [
            ServiceProcess(
                name,
                "ariane_txn_checker",
                (*arguments, *QUICK, *cluster.shown(MemberKind.CHECKER, name)),
                tmp_path / f"{name}.log",
            )
            for name in ("checker-1", "checker-2")
        ]
        for checker in checkers:
            stack.push_async_callback(checker.stop)
        # Both make the tables, at the same time.
        await asyncio.gather(*(checker.start() for checker in checkers))

        async def store_some(turn):
            for group in (*ANSWERS, "gone"):
                for number in range(5):
                    transaction_id = f"{group}-{turn}-{number}"
                    groups[transaction_id] = group
                    homes[transaction_id] = broker = chance.choice(brokers)
                    await broker.store(transaction_id, group)

        for turn in range(KILLS):
            await store_some(turn)
            await asyncio.sleep(chance.uniform(0, 1.5))
            dying = chance.choice(checkers)
            dying.kill()
            await dying.wait()
            if chance.random() < 0.5:
                other = checkers[1 - checkers.index(dying)]
                other.kill()
                await other.wait()
                await other.start()
            await dying.start()

        async def all_ended():
            found = rows(database_url, TRANSACTION)
            ended = {State.DECIDED, State.PARKED}
            return len(found) == len(groups) and all(row.state in ended for row in found) and found

        found = await until(all_ended, seconds=120)
        for row in found:
            check_row(row, groups[row.transaction_id])
        checks = Counter(row.transaction_id for row in rows(database_url, CHECK))
        for transaction_id, group in groups.items():
            assert checks[transaction_id] <= CHECKS_MAX
            assert (group != "gone") <= asked[transaction_id] <= CHECKS_MAX
            visible = await homes[transaction_id].visible_count(transaction_id)
            assert visible == (group == "committing")
        open_halves = {}
        for broker in brokers:
            open_halves |= await broker.open_halves()
        undecided = {name for name, group in groups.items() if group in {"unsure", "gone"}}
        assert open_halves == dict.fromkeys(undecided, True)
        for checker in checkers:
            assert await checker.stop() == 0
