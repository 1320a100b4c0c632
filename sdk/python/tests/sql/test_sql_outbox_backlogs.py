"""Backlogs of an outbox: whatever waits is cut into batches that can be encoded and sent."""

import asyncio

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, update
from sqlalchemy.orm import sessionmaker

from ariane.broker.v1.send_service_pb2 import AppendRecordsRequest
from ariane_record import ProducerSequence
from ariane_sdk import Message, MessageQueue
from ariane_sdk.errors import ServiceUnavailable
from ariane_sdk.runtime.clock import SystemClock
from ariane_sdk.sql import METADATA, Outbox, OutboxRelay, create_tables
from ariane_sdk.sql._outbox.pulse import RelayPulse
from ariane_sdk.sql._outbox.rows import Lease, OutboxRow, WaitingRow
from ariane_sdk.sql._outbox.sends import _request
from ariane_sdk.sql._outbox.share import Pace, PartitionShare

QUEUES = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2)]
BATCH_BYTES_MAX = 200_000
PACE = Pace(
    poll_s=0.1,
    batch_rows_max=50,
    batch_bytes_max=BATCH_BYTES_MAX,
    repeat_delay_s_min=0.1,
    repeat_delay_s_max=1.0,
    hold_s=10.0,
)
MESSAGES = st.builds(
    Message,
    st.just("orders"),
    st.sampled_from([0, 1, 200, 9000, 90_000, 199_000, 300_000]).map(bytes),
    message_group=st.sampled_from(["", "a", "b"]),
    properties=st.sampled_from([0, 10, 1000, 20_000]).map(
        lambda size: {"p": "x" * size} if size else {}
    ),
)


class Queues:
    """Chooses one of two queues."""

    turn = 0

    def group_queue(self, _topic, message_group):
        return QUEUES[message_group == "a"]

    def next_queue(self, _topic, is_free):
        for _ in QUEUES:
            self.turn += 1
            if is_free(QUEUES[self.turn % 2]):
                return QUEUES[self.turn % 2]
        return None


@given(
    st.lists(MESSAGES, min_size=1, max_size=60)
    | st.builds(lambda message, count: [message] * count, MESSAGES, st.integers(1, 100))
)
def test_every_backlog_is_cut_into_batches_that_can_be_encoded(messages):
    outbox = Outbox("shop")
    waiting, rows = [], {}
    for row_id, message in enumerate(messages):
        kept = outbox._row(message)
        waiting.append(WaitingRow(row_id, "orders", message.message_group, kept["record_bytes"]))
        rows[row_id] = OutboxRow(message, kept["unique_id"], 1)
    share = PartitionShare(
        Lease(0, "me", 1, 7),
        None,
        Queues(),
        None,
        pace=PACE,
        clock=SystemClock(),
        pulse=RelayPulse(SystemClock()),
    )
    sent = []
    while waiting:
        chosen = share._choose(waiting, set())
        assert chosen, "nothing goes although everything may"
        for queue, row_ids in chosen.items():
            request = AppendRecordsRequest.FromString(
                _request(queue, ProducerSequence(7, 1, 0), [rows[each] for each in row_ids])
            )
            assert len(request.table.record_sizes) // 4 == len(row_ids) <= PACE.batch_rows_max
            # The sequence takes its room once, and each row has counted it.
            assert len(row_ids) == 1 or len(request.table_records) <= BATCH_BYTES_MAX
            sent += row_ids
        waiting = [row for row in waiting if row.row_id not in set(sent)]
    assert sorted(sent) == list(range(len(messages)))
    for group in ("a", "b"):
        of_group = [each for each in sent if messages[each].message_group == group]
        assert of_group == sorted(of_group)


@pytest.fixture
def sessions(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    with engine.begin() as connection:
        create_tables(connection)
    yield sessionmaker(engine)
    engine.dispose()


def relay_of(world, outbox, sessions):
    return OutboxRelay(outbox, sessions, world.name_servers, poll_s=0.02, repeat_delay_s_max=0.1)


async def wait_for_lag(outbox, sessions, waiting_count):
    async with asyncio.timeout(60):
        while True:
            with sessions() as session:
                if outbox.lag(session).waiting_count == waiting_count:
                    return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("count", "body_bytes"), [(3, 100_000), (189, 200), (600, 0), (5, 1 << 20)]
)
async def test_a_backlog_of_one_message_group_arrives_in_order(world, sessions, count, body_bytes):
    outbox = Outbox("shop", partitions=1)
    bodies = [b"%03d" % number + bytes(body_bytes) for number in range(count)]
    with sessions.begin() as session:
        outbox.add(session, *(Message("orders", body, message_group="g") for body in bodies))
    async with relay_of(world, outbox, sessions) as relay:
        await wait_for_lag(outbox, sessions, 0)
        assert relay.standstill().error is None
    broker = world.brokers["broker-a"]
    assert broker.bodies == bodies
    # In full batches, and none of them anew in smaller ones.
    assert len(broker.calls) <= 1 + count * (body_bytes + 300) // (1 << 20) + count // 500 + 1


@pytest.mark.parametrize("wrong", [{"tag": "a\x01b"}, {"unique_id": ""}])
async def test_a_row_that_no_record_can_carry_is_parked_and_the_rest_is_sent(
    world, sessions, wrong
):
    outbox = Outbox("shop", partitions=1)
    rows = METADATA.tables["ariane_outbox"]
    with sessions.begin() as session:
        outbox.add(session, *(Message("orders", b"%d" % number) for number in range(5)))
        # Somebody writes into the table without asking.
        session.execute(update(rows).where(rows.c.body == b"3").values(**wrong))
    async with relay_of(world, outbox, sessions):
        await wait_for_lag(outbox, sessions, 0)
    assert sorted(world.brokers["broker-a"].bodies) == [b"0", b"1", b"2", b"4"]
    with sessions() as session:
        (parked,) = outbox.parked(session)
    assert parked.reason == "MESSAGE_ILLEGAL"


async def test_a_relay_that_gets_nowhere_says_why(world, sessions):
    outbox = Outbox("shop", partitions=1)
    world.brokers["broker-a"].script.extend([grpc.StatusCode.UNAVAILABLE] * 1000)
    with sessions.begin() as session:
        outbox.add(session, Message("orders", b"waits"))
    async with relay_of(world, outbox, sessions) as relay:
        async with asyncio.timeout(60):
            while relay.standstill().error is None:  # noqa: ASYNC110 - nobody tells.
                await asyncio.sleep(0.01)
        assert isinstance(relay.standstill().error, ServiceUnavailable)
        before_s = relay.standstill().idle_s
        assert before_s < relay.standstill().idle_s
        world.brokers["broker-a"].script.clear()
        await wait_for_lag(outbox, sessions, 0)
        # The database knows of the commit sooner than the relay that waits for it.
        async with asyncio.timeout(60):
            while relay.standstill().error is not None:  # noqa: ASYNC110 - nobody tells.
                await asyncio.sleep(0.01)
        assert relay.standstill().idle_s < before_s + 15
