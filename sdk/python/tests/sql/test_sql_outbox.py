"""The outbox: what is written, and what relays do with it, against brokers that follow a script."""

import asyncio
import copy
from datetime import UTC, datetime, timedelta

import grpc
import numpy as np
import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from ariane_record.decoding.columns import decode_columns
from ariane_sdk import Message
from ariane_sdk.errors import IllegalArgument, MessageIllegal, MessageTooLarge, NameIllegal
from ariane_sdk.sql import METADATA, Outbox, OutboxRelay, create_tables
from ariane_sdk.sql._outbox.rows import LeaseLost, OutboxRows
from ariane_testkit.append_rows import RowResult

ROWS = METADATA.tables["ariane_outbox"]
DAY = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request, tmp_path):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/shop.db"
    else:
        url = request.getfixturevalue("postgresql_url")
    engine = create_engine(url)
    with engine.begin() as connection:
        create_tables(connection)
    yield engine
    with engine.begin() as connection:
        METADATA.drop_all(connection)
    engine.dispose()


@pytest.fixture
def sessions(engine):
    return sessionmaker(engine)


def write(sessions, outbox, *bodies, group=""):
    with sessions.begin() as session:
        return outbox.add(session, *(Message("orders", b, message_group=group) for b in bodies))


def lag(sessions, outbox):
    with sessions() as session:
        return outbox.lag(session)


def relay_of(world, outbox, sessions, **settings):
    quick = {"poll_s": 0.02, "call_timeout_s": 10.0, "lease_s": 20.0, "repeat_delay_s_max": 0.02}
    return OutboxRelay(outbox, sessions, world.name_servers, **{**quick, **settings})


async def until_empty(sessions, outbox, count=0):
    async with asyncio.timeout(60):
        while lag(sessions, outbox).waiting_count != count:  # noqa: ASYNC110 - of a database.
            await asyncio.sleep(0.02)


def numbers(broker):
    return [
        (batch.queue_id, batch.sequence.producer_epoch, batch.sequence.first_sequence)
        for call in broker.calls
        for batch in call.rows
    ]


def test_a_message_is_written_with_the_changes_or_not_at_all(sessions):
    outbox = Outbox("shop")
    with sessions() as session:
        outbox.add(session, Message("orders", b"rolled back"))
        session.rollback()
    assert lag(sessions, outbox) == (0, 0.0)
    (unique_id,) = write(sessions, outbox, b"paid")
    assert write(sessions, outbox) == []
    assert len(unique_id) == 32
    assert lag(sessions, outbox).waiting_count == 1
    assert lag(sessions, Outbox("other")).waiting_count == 0


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message("no topic", b"x"), NameIllegal),
        (Message("orders", b"12345"), MessageTooLarge),
        (Message("orders", b"x", tag="a || b"), MessageIllegal),
        (Message("orders", b"x", properties={"DELAY": "1"}), MessageIllegal),
        (Message("orders", b"x", properties={"a": "\x01"}), MessageIllegal),
        (Message("orders", b"x", delay_level=1), MessageIllegal),
        (Message("orders", "text"), MessageIllegal),
    ],
)
def test_a_message_that_could_never_be_sent_is_refused_at_once(sessions, message, error):
    outbox = Outbox("shop", body_bytes_max=4)
    with sessions.begin() as session, pytest.raises(error):
        outbox.add(session, Message("orders", b"x"), message)
    assert lag(sessions, outbox).waiting_count == 0


def test_a_process_and_its_fork_give_different_ids(sessions):
    outbox = Outbox("shop")
    copied = copy.copy(outbox)
    with pytest.raises(NotImplementedError):
        outbox._random.getstate()  # No state, so nothing that a fork could repeat.
    assert write(sessions, outbox, b"x") != write(sessions, copied, b"x")


def test_names_and_numbers_are_checked(sessions):
    with pytest.raises(IllegalArgument, match="1 to 120"):
        Outbox("")
    with pytest.raises(IllegalArgument, match="partitions"):
        Outbox("shop", partitions=0)
    with pytest.raises(IllegalArgument, match="lease"):
        OutboxRelay(Outbox("shop"), sessions, "127.0.0.1:9876", lease_s=5)


def test_who_did_not_write_an_outbox_learns_how_many_partitions_it_has(sessions):
    write(sessions, Outbox("shop", partitions=64), *(b"%d" % number for number in range(200)))
    with sessions() as session:
        assert 50 < Outbox.as_kept(session, "shop").partitions <= 64
        assert Outbox.as_kept(session, "other").partitions == 8


async def test_lag_and_purge(world, sessions):
    now = DAY
    outbox = Outbox("shop", now=lambda: now)
    write(sessions, outbox, b"1", b"2", b"3")
    now += timedelta(seconds=90)
    assert lag(sessions, outbox) == (3, 90.0)
    async with relay_of(world, outbox, sessions, now=lambda: now + timedelta(days=1)):
        await until_empty(sessions, outbox)
    write(sessions, outbox, b"waits")
    with sessions.begin() as session:
        assert outbox.purge(session, before=now) == 0
        assert outbox.purge(session, before=now + timedelta(days=2), count_max=2) == 2
        assert outbox.purge(session, before=now + timedelta(days=2), count_max=2) == 1
    assert lag(sessions, outbox).waiting_count == 1


async def test_everything_of_a_message_arrives(world, engine, tmp_path, postgresql_url):
    plain = sessionmaker(engine)
    outbox = Outbox("shop")
    url = postgresql_url
    if engine.dialect.name == "sqlite":
        url = f"sqlite+aiosqlite:///{tmp_path}/shop.db"
    asynchronous = create_async_engine(url)
    sessions = async_sessionmaker(asynchronous)
    message = Message(
        "orders",
        b"a teapot",
        tag="paid",
        keys=("o-1", "o-2"),
        message_group="c-1",
        properties={"z": "1", "a": "2"},
        flag=7,
    )
    async with sessions.begin() as session:
        (unique_id,) = await outbox.add_async(session, message)
    async with relay_of(world, outbox, sessions):
        await until_empty(plain, outbox)
    async with AsyncSession(asynchronous) as session, session.begin():
        assert (await outbox.lag_async(session)).waiting_count == 0
        assert await outbox.purge_async(session, before=datetime.now(UTC)) == 1
    await asynchronous.dispose()
    (stored,) = world.brokers["broker-a"].messages
    assert (stored.body, stored.tag, stored.flag) == (b"a teapot", "paid", 7)
    assert (list(stored.keys), stored.message_group) == (["o-1", "o-2"], "c-1")
    assert stored.unique_id == unique_id
    assert {"z": "1", "a": "2"}.items() <= dict(stored.properties).items()


async def test_who_comes_after_a_dead_relay_sends_the_same_bytes_under_the_same_numbers(
    world, sessions
):
    outbox = Outbox("shop", partitions=1)
    broker = world.brokers["broker-a"]
    write(sessions, outbox, b"1", b"2", group="g")
    broker.script.append("store and hang")
    dead = relay_of(world, outbox, sessions, call_timeout_s=30.0, lease_s=60.0)
    await dead.start()
    await broker.wait_called(1)
    dead._closing.set()
    await dead._claims  # Not cancelled: its thread would keep a connection for a while.
    for task in dead._shares.values():
        task.cancel()  # No goodbye: the batch is written down, and so is its lease.
    write(sessions, outbox, b"3", group="g")
    later = datetime.now(UTC) + timedelta(seconds=61)
    async with relay_of(world, outbox, sessions, now=lambda: later):
        await until_empty(sessions, outbox)
    await dead.close()
    first, second, third = broker.calls
    assert first == second
    assert [message.body for message in broker.queues["orders", third.rows[0].queue_id]][2:] == [
        b"1",
        b"2",
        b"3",
    ]
    queue_id = first.rows[0].queue_id
    assert numbers(broker) == [(queue_id, 0, 0), (queue_id, 0, 0), (queue_id, 0, 2)]


async def test_an_unknown_outcome_is_sent_again_as_it_was(world, sessions):
    outbox = Outbox("shop", partitions=1)
    broker = world.brokers["broker-a"]
    broker.script.extend(["store and hang", grpc.StatusCode.UNAVAILABLE])
    write(sessions, outbox, b"1", b"2")
    async with relay_of(world, outbox, sessions, call_timeout_s=1.0, lease_s=60.0):
        await broker.wait_called(2)
        write(sessions, outbox, b"3")
        await until_empty(sessions, outbox)
    same = [
        call
        for call in broker.calls
        if call.rows[0].record_sizes == broker.calls[0].rows[0].record_sizes
    ]
    assert len(same) >= 3
    assert all(call == same[0] for call in same)


async def test_a_surely_refused_row_is_sent_elsewhere(two_brokers, sessions, make_status):
    outbox = Outbox("shop", partitions=1)
    busy = make_status(grpc.StatusCode.UNAVAILABLE, "SERVICE_BUSY")
    first, second = two_brokers.brokers.values()
    first.script.extend([[busy]] * 3)
    write(sessions, outbox, *(b"%d" % number for number in range(4)))
    async with relay_of(two_brokers, outbox, sessions, batch_rows_max=1):
        await until_empty(sessions, outbox)
    assert sorted(first.bodies + second.bodies) == [b"0", b"1", b"2", b"3"]
    for broker in (first, second):
        used = {}
        for queue_id, epoch, sequence in numbers(broker):
            # A refused batch gives its number to the next one.
            assert (epoch, sequence) in {(0, used.get(queue_id, 0)), (0, used.get(queue_id, 0) - 1)}
            used[queue_id] = sequence + 1


async def test_groups_wait_for_their_broker_and_keep_their_order(
    two_brokers, sessions, make_status
):
    outbox = Outbox("shop", partitions=1)
    refused = make_status(grpc.StatusCode.FAILED_PRECONDITION, "NO_PERMISSION")
    for broker in two_brokers.brokers.values():
        broker.script.extend([[refused], "store", [refused]])
    expected = {f"g{number % 5}": [] for number in range(5)}
    for number in range(40):
        expected[f"g{number % 5}"].append(b"%d" % number)
        write(sessions, outbox, b"%d" % number, group=f"g{number % 5}")
    async with relay_of(two_brokers, outbox, sessions, batch_rows_max=3):
        await until_empty(sessions, outbox)
    found = {}
    for broker in two_brokers.brokers.values():
        for messages in broker.queues.values():
            for message in messages:
                found.setdefault(message.message_group, []).append(message.body)
    assert found == expected


async def test_a_broker_that_forgot_the_stream_gets_a_larger_epoch(world, sessions, make_status):
    outbox = Outbox("shop", partitions=1)
    broker = world.brokers["broker-a"]
    async with relay_of(world, outbox, sessions):
        write(sessions, outbox, b"1", group="g")
        await until_empty(sessions, outbox)
        broker.script.append(
            [make_status(grpc.StatusCode.FAILED_PRECONDITION, "SEQUENCE_GAP", expected="0")]
        )
        write(sessions, outbox, b"2", group="g")
        await until_empty(sessions, outbox)
    assert [place[1:] for place in numbers(broker)] == [(0, 0), (0, 1), (1, 0)]
    assert broker.bodies == [b"1", b"2"]


async def test_numbers_that_are_passed_are_stored(world, sessions, make_status):
    outbox = Outbox("shop", partitions=1)
    broker = world.brokers["broker-a"]
    broker.script.extend(
        [
            grpc.StatusCode.UNAVAILABLE,
            [make_status(grpc.StatusCode.ALREADY_EXISTS, "SEQUENCE_PASSED", expected="2")],
        ]
    )
    write(sessions, outbox, b"1", b"2", group="g")
    async with relay_of(world, outbox, sessions):
        await until_empty(sessions, outbox)
        write(sessions, outbox, b"3", group="g")
        await until_empty(sessions, outbox)
    assert [place[1:] for place in numbers(broker)] == [(0, 0), (0, 0), (0, 2)]


async def test_a_topic_that_is_nowhere_holds_up_no_other(world, sessions):
    outbox = Outbox("shop", partitions=1)
    with sessions.begin() as session:
        outbox.add(session, Message("nowhere", b"waits"), Message("orders", b"goes"))
    async with relay_of(world, outbox, sessions):
        await world.brokers["broker-a"].wait_called(1)
        await until_empty(sessions, outbox, 1)
    with sessions() as session:
        waiting = session.scalars(select(ROWS.c.topic).where(ROWS.c.sent_at.is_(None))).all()
    assert waiting == ["nowhere"]


def test_a_partition_has_one_relay_and_a_former_one_writes_nothing(engine):
    now = DAY
    rows = OutboxRows("shop", lease_s=10, now=lambda: now)
    with Session(engine) as session, session.begin():
        rows.make_partitions(session, [5, 6])
        rows.make_partitions(session, [7, 8, 9])
        old = [rows.claim(session, "first"), rows.claim(session, "first")]
        assert {lease.producer_id for lease in old} == {5, 6}
        assert rows.claim(session, "second").producer_id == 9
        assert rows.claim(session, "second") is None
    now += timedelta(seconds=9)
    with Session(engine) as session, session.begin():
        rows.hold(session, old[0])
    now += timedelta(seconds=9)
    with Session(engine) as session, session.begin():
        taken = {rows.claim(session, "second").partition for _ in range(2)}
        assert taken == {old[1].partition, 2}
        assert rows.claim(session, "second") is None
    for action in (rows.hold, rows.release, lambda s, lease: rows.write_streams(s, lease, [])):
        with Session(engine) as session, pytest.raises(LeaseLost):
            action(session, old[1])
    with Session(engine) as session, session.begin():
        rows.release(session, old[0])
        assert rows.claim(session, "third").partition == old[0].partition


async def test_a_database_that_fails_for_a_while_stops_nothing_for_good(world, sessions, engine):
    outbox = Outbox("shop", partitions=2)
    async with relay_of(world, outbox, sessions):
        write(sessions, outbox, b"1")
        await until_empty(sessions, outbox)
        with engine.begin() as connection:
            ROWS.drop(connection)
        await asyncio.sleep(0.3)
        with engine.begin() as connection:
            create_tables(connection)
        write(sessions, outbox, b"2")
        await until_empty(sessions, outbox)
    assert world.brokers["broker-a"].bodies == [b"1", b"2"]


# --- what brokers refuse ---


def parked(sessions, outbox):
    with sessions() as session:
        return outbox.parked(session)


async def until_parked(sessions, outbox, count):
    async with asyncio.timeout(60):
        while len(parked(sessions, outbox)) != count:  # noqa: ASYNC110 - of a database.
            await asyncio.sleep(0.02)


def refuse_large(broker, make_status, limit=10):
    """Have a broker refuse batches that hold a large body, as brokers do: as a whole."""
    too_large = make_status(grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE_TOO_LARGE")
    store = broker._store

    def judge(batch):
        columns = decode_columns(batch.records, np.frombuffer(batch.record_sizes, "<i4"))
        sizes = [len(columns.message(row).body) for row in range(len(columns))]
        return RowResult(error=too_large) if max(sizes) > limit else store(batch)

    broker._store = judge


async def test_only_a_row_that_no_broker_would_take_is_parked_and_at_once(
    world, sessions, make_status
):
    outbox = Outbox("shop", partitions=1)
    broker = world.brokers["broker-a"]
    refuse_large(broker, make_status)
    write(sessions, outbox, b"1", b"2", b"far too large", b"3")
    write(sessions, outbox, b"4", b"far too large too", b"5", group="g")
    async with relay_of(world, outbox, sessions):
        await until_empty(sessions, outbox)
        assert sorted(broker.bodies) == [b"1", b"2", b"3", b"4", b"5"]
        one, two = parked(sessions, outbox)
        assert (one.reason, one.attempts, one.body_bytes) == ("MESSAGE_TOO_LARGE", 1, 13)
        assert (two.message_group, two.topic) == ("g", "orders")
        assert one.parked_at >= one.written_at
        with sessions.begin() as session:
            assert outbox.parked_count(session) == 2
            assert outbox.parked(session, topic="other") == []
            assert outbox.parked(session, after_row_id=one.row_id) == [two]
            assert outbox.purge(session, before=datetime(2100, 1, 1, tzinfo=UTC)) == 5
        # The broker takes larger ones from now on.
        del broker._store
        with sessions.begin() as session:
            assert outbox.requeue(session, row_ids=[one.row_id]) == 1
            assert outbox.requeue(session, topic="other") == 0
            assert outbox.requeue(session, topic="orders") == 1
            assert outbox.requeue(session) == 0
        await until_empty(sessions, outbox)
    assert sorted(broker.bodies)[-2:] == [b"far too large", b"far too large too"]
    assert parked(sessions, outbox) == []


async def test_a_refusal_is_waited_for_a_while_and_parked_then(world, sessions, make_status):
    outbox = Outbox("shop", partitions=1)
    broker = world.brokers["broker-a"]
    refused = make_status(grpc.StatusCode.FAILED_PRECONDITION, "TOPIC_NOT_WRITABLE")
    busy = make_status(grpc.StatusCode.UNAVAILABLE, "SERVICE_BUSY")
    # What speaks of the broker counts for nothing.
    broker.script.extend([[busy]] * 6 + [[refused]] * 3)
    write(sessions, outbox, b"1", group="g")
    async with relay_of(world, outbox, sessions, attempts_max=3):
        await until_parked(sessions, outbox, 1)
        assert lag(sessions, outbox) == (0, 0.0)
        assert len(broker.calls) == 9
        # Those behind it go on.
        write(sessions, outbox, b"2", group="g")
        await until_empty(sessions, outbox)
        with sessions.begin() as session:
            outbox.requeue(session)
        await until_empty(sessions, outbox)
    assert broker.bodies == [b"2", b"1"]


async def test_a_topic_that_is_nowhere_is_waited_for_and_parked(world, sessions):
    outbox = Outbox("shop", partitions=1)
    with sessions.begin() as session:
        outbox.add(session, *(Message("nowhere", b"%d" % number) for number in range(3)))
    async with relay_of(world, outbox, sessions, attempts_max=4):
        await until_parked(sessions, outbox, 3)
        found = parked(sessions, outbox)
        assert {(each.reason, each.attempts) for each in found} == {("ROUTE_NOT_FOUND", 4)}
        write(sessions, outbox, b"goes")
        await until_empty(sessions, outbox)
        world.name_server.set_route("nowhere", {"broker-a": world.brokers["broker-a"].address})
        with sessions.begin() as session:
            assert outbox.requeue(session, topic="nowhere") == 3
        await until_empty(sessions, outbox)
    assert sorted(world.brokers["broker-a"].bodies) == [b"0", b"1", b"2", b"goes"]


async def test_name_servers_that_are_away_park_nothing(world, sessions):
    outbox = Outbox("shop", partitions=1)
    write(sessions, outbox, b"1")
    world.name_server.refusal = grpc.StatusCode.UNAVAILABLE
    async with relay_of(world, outbox, sessions, attempts_max=1):
        async with asyncio.timeout(60):
            while len(world.name_server.asked) < 3:  # noqa: ASYNC110 - tries of a relay
                await asyncio.sleep(0.005)
        assert parked(sessions, outbox) == []
        world.name_server.refusal = None
        await until_empty(sessions, outbox)


async def test_a_row_that_cannot_be_sent_does_not_hide_those_behind_it(
    world, sessions, monkeypatch
):
    monkeypatch.setattr("ariane_sdk.sql._outbox.share.WINDOW_ROWS", 5)
    outbox = Outbox("shop", partitions=1)
    broker = world.brokers["broker-a"]
    with sessions.begin() as session:
        outbox.add(session, *(Message("nowhere", b"waits") for _ in range(20)))
    write(sessions, outbox, b"goes")
    async with relay_of(world, outbox, sessions):
        await until_empty(sessions, outbox, 20)
    assert broker.bodies == [b"goes"]


def test_less_than_one_attempt_is_none(sessions):
    with pytest.raises(IllegalArgument, match="attempts_max"):
        OutboxRelay(Outbox("shop"), sessions, "127.0.0.1:9876", attempts_max=0)
