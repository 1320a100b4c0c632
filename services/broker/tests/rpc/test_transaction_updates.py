"""UpdateTransactions over the wire: many in one call, each by itself."""

from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.common.v1 import message_pb2 as message_pb
from ariane_broker.app import compose
from ariane_broker.errors.replication import broker_not_primary
from ariane_broker.log.broker_log import BrokerLog
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import serving
from ariane_storage.errors import StoreFull
from ariane_storage.writing.appender import Appender
from ariane_testkit.append_rows import AppendRow, row_of

COMMIT = client_pb.TRANSACTION_OUTCOME_COMMIT
ROLLBACK = client_pb.TRANSACTION_OUTCOME_ROLLBACK


def half(name, queue_id=0, *, topic="orders", group="pay", properties=None, body=None, **more):
    encoder = BlockEncoder(topic, size_bytes_max=1 << 20)
    encoder.add(
        name.encode() if body is None else body,
        unique_id=name,
        keys=[f"k-{name}"],
        properties=properties,
        born_timestamp_ms=1,
    )
    return row_of(encoder.finish(), queue_id, half_group=group, **more)


def end(name, outcome=COMMIT, *, topic="orders", group="pay", unique_id=None):
    return transaction_pb.TransactionToEnd(
        topic=topic,
        transaction_id=name,
        unique_id=name if unique_id is None else unique_id,
        outcome=outcome,
        producer_group=group,
    )


async def ask(broker, *parts):
    """Store half messages, and end transactions: results of the first, and answer to the others."""
    halves = [part for part in parts if isinstance(part, AppendRow)]
    request = transaction_pb.UpdateTransactionsRequest(
        ends=[part for part in parts if not isinstance(part, AppendRow)]
    )
    stored = await broker.append(*halves) if halves else []
    answer = await broker.transactions.UpdateTransactions(request, timeout=60)
    return SimpleNamespace(halves=stored, ends=answer.ends)


async def waiting(broker):
    answer = await broker.transactions.ListHalfMessages(transaction_pb.ListHalfMessagesRequest())
    return answer.half_messages


@pytest.fixture
def reasons(reason_of):
    def tell(results):
        return [reason_of(each.error) if each.error and each.error.code else "" for each in results]

    return tell


async def test_only_committed_messages_are_visible_in_their_order(broker):
    await broker.create_topic("orders", 2)
    names = [f"t-{number}" for number in range(40)]
    sent = await ask(broker, *(half(name, number % 2) for number, name in enumerate(names)))
    assert not any(each.duplicate for each in sent.halves)
    assert await broker.bodies("orders") == []
    outcomes = [ROLLBACK if number % 5 == 0 else COMMIT for number in range(39)]
    ended = await ask(broker, *map(end, names, outcomes))
    assert [each.outcome for each in ended.ends] == outcomes
    for queue_id in (0, 1):
        kept = [n for n in range(queue_id, 39, 2) if n % 5]
        bodies = [names[number].encode() for number in kept]
        assert await broker.bodies("orders", queue_id) == bodies
        places = [ended.ends[number].position for number in kept]
        assert [place.queue_offset for place in places] == list(range(len(kept)))
        assert {place.queue_id for place in places} == {queue_id}
    assert [each.transaction_id for each in await waiting(broker)] == ["t-39"]


async def test_a_full_disk_is_told_for_each_half_message(broker, monkeypatch, reasons):
    def full(*_):
        raise StoreFull(Path("/store"), "full")

    await broker.create_topic("orders")
    with monkeypatch.context() as patch:
        patch.setattr(Appender, "append", full)
        sent = await ask(broker, half("t-1"), half("t-2"))
    assert reasons(sent.halves) == ["STORE_FULL", "STORE_FULL"]
    assert await waiting(broker) == []
    sent = await ask(broker, half("t-2"))
    assert [each.transaction_id for each in await waiting(broker)] == ["t-2"]
    assert not sent.halves[0].duplicate


async def test_a_repeated_end_gets_the_first_answer(broker):
    await broker.create_topic("orders")
    properties = {"a": "b", "CHECK_IMMUNITY_TIME_IN_SECONDS": "9"}
    await ask(broker, half("t-1", properties=properties))
    (one,) = await waiting(broker)
    assert (one.topic, one.producer_group, list(one.keys)) == ("orders", "pay", ["k-t-1"])
    assert one.immunity_duration.seconds == 9
    (ended,) = (await ask(broker, end("t-1"))).ends
    # What stands is read back from the log: it is what the first answer said.
    (again,) = (await ask(broker, end("t-1"))).ends
    assert (ended.duplicate, again.duplicate) == (False, True)
    assert ended.position == again.position


async def test_each_fails_by_itself(broker, reasons):
    await broker.create_topic("orders")
    sent = await ask(
        broker,
        half("t-1"),
        half("t-2", 7),
        half("t-3", group="no group"),
        half("t-1"),
        half("t-5", properties={"PGROUP": "x"}),
        half("t-6", topic="RMQ_SYS_TRANS_HALF_TOPIC"),
        half("t-7"),
        half("t-8", properties={"TRAN_PARKED": "true"}),
        half("t-9", delay_level=3),
    )
    assert reasons(sent.halves) == [
        "",
        "QUEUE_NOT_FOUND",
        "GROUP_NAME_ILLEGAL",
        "",
        "MESSAGE_ILLEGAL",
        "TOPIC_RESERVED",
        "",
        "MESSAGE_ILLEGAL",
        "MESSAGE_ILLEGAL",
    ]
    assert [each.duplicate for each in sent.halves] == [number == 3 for number in range(9)]
    ended = await ask(
        broker,
        end("never"),
        end("t-7", group="strangers"),
        end("t-7", group=""),
        end("t-7", ROLLBACK, group=""),
        end("t-7", unique_id="t-1"),
        end("t-7", unique_id=""),
        end("t-7", client_pb.TRANSACTION_OUTCOME_UNKNOWN),
        end("t-1", topic="elsewhere"),
    )
    assert reasons(ended.ends) == [
        "TRANSACTION_NOT_FOUND",
        *["TRANSACTION_FOREIGN"] * 5,
        "FIELD_INVALID",
        "TRANSACTION_NOT_FOUND",
    ]
    ended = await ask(broker, end("t-7", ROLLBACK), end("t-1"), end("t-7"), end("t-1"))
    assert reasons(ended.ends) == ["", "", "TRANSACTION_DECIDED", ""]
    assert [each.duplicate for each in ended.ends] == [False, False, False, True]
    late = await ask(broker, half("t-1"), end("t-7", ROLLBACK))
    assert reasons(late.halves) == ["TRANSACTION_DECIDED"]
    assert late.ends[0].duplicate
    assert await broker.bodies("orders") == [b"t-1"]
    assert not await waiting(broker)


async def test_a_half_message_makes_its_topic_and_may_leave_the_queue_open(broker):
    await broker.store_half("t-1", b"t-1", topic="fresh", queue_id=None)
    (ended,) = (await ask(broker, end("t-1", topic="fresh"))).ends
    position = ended.position
    assert await broker.bodies("fresh", position.queue_id) == [b"t-1"]


async def test_too_many_are_refused(running, reasons, refused):
    async with running(half_messages_max=3) as broker:
        await broker.create_topic("orders")
        sent = await ask(broker, *(half(f"t-{number}") for number in range(5)))
        assert reasons(sent.halves) == ["", "", "", "SERVICE_BUSY", "SERVICE_BUSY"]
        failure = await refused(ask(broker, *(end("t-1") for _ in range(257))))
        assert failure.reason == "FIELD_INVALID"
        assert len(await waiting(broker)) == 3


async def test_halves_and_ends_are_acknowledged_as_flushed_where_that_is_promised(running):
    async with running(flush_mode="sync") as broker:
        await broker.create_topic("orders")
        names = [f"t-{number}" for number in range(20)]
        sent = await ask(broker, *map(half, names))
        ended = await ask(broker, *map(end, names))
        levels = {each.acknowledged_level for each in sent.halves}
        levels |= {each.acknowledged_level for each in ended.ends}
        assert levels == {message_pb.ACKNOWLEDGED_LEVEL_FLUSHED}
        assert len(await broker.bodies("orders")) == 20


async def test_a_broker_that_drains_ends_transactions_and_takes_none(broker, reasons, refused):
    await broker.create_topic("orders")
    await ask(broker, half("t-1"))
    await broker.broker.DrainBroker(broker_pb.DrainBrokerRequest(draining=True))
    assert (await refused(ask(broker, half("t-2")))).reason == "SERVICE_DRAINING"
    assert reasons((await ask(broker, end("t-1"))).ends) == [""]
    await broker.broker.DrainBroker(broker_pb.DrainBrokerRequest(draining=False))
    assert await broker.bodies("orders") == [b"t-1"]


async def test_a_broker_that_stopped_knows_all_when_it_is_back(settings_for, probe_class):
    async with serving(settings_for(), compose) as address:
        channel = grpc.aio.insecure_channel(str(address))
        broker = probe_class(channel, address)
        await broker.create_topic("orders")
        await ask(broker, half("t-1"), half("t-2"), half("t-3"))
        await ask(broker, end("t-1"), end("t-2", ROLLBACK))
    await channel.close()
    async with serving(settings_for(), compose) as address:
        channel = grpc.aio.insecure_channel(str(address))
        broker = probe_class(channel, address)
        answer = await ask(broker, end("t-1"), end("t-2", ROLLBACK), end("t-3"))
        assert [each.duplicate for each in answer.ends] == [True, True, False]
        assert await broker.bodies("orders") == [b"t-1", b"t-3"]
        await channel.close()


async def test_more_than_one_block_holds_is_stored_and_ended_in_several(running, reasons):
    async with running(segment_bytes=342 << 12, message_bytes_max=1 << 20) as broker:
        await broker.create_topic("orders")
        large = [bytes([number]) * 450_000 for number in range(4)]
        sent = await ask(broker, *(half(f"t-{n}", body=body) for n, body in enumerate(large)))
        assert reasons(sent.halves) == [""] * 4
        ended = await ask(broker, *(end(f"t-{number}") for number in range(4)))
        assert reasons(ended.ends) == [""] * 4
        assert not any(each.duplicate for each in ended.ends)
        found = [await broker.bodies("orders", queue_offset=place) for place in range(4)]
        assert [bodies[0] for bodies in found] == large


async def test_only_who_demands_more_waits_for_the_disk(broker, reasons):
    await broker.create_topic("orders")
    safe, plain = half("t-1"), half("t-2")
    safe.required_level = message_pb.ACKNOWLEDGED_LEVEL_FLUSHED
    sent = await ask(broker, safe, plain)
    assert reasons(sent.halves) == ["", ""]
    assert [each.acknowledged_level for each in sent.halves] == [2, 1]
    safe, plain = end("t-1"), end("t-2", ROLLBACK)
    safe.required_level = message_pb.ACKNOWLEDGED_LEVEL_FLUSHED
    ended = await ask(broker, plain, safe)
    assert [each.acknowledged_level for each in ended.ends] == [1, 2]
    # What stands is asked for as safe as what is new.
    (again,) = (await ask(broker, safe)).ends
    assert (again.duplicate, again.acknowledged_level) == (True, 2)


async def test_what_too_few_could_have_is_refused_and_nothing_is_done(broker, reasons):
    await broker.create_topic("orders")
    copied = half("t-1")
    copied.in_sync_min = 2
    sent = await ask(broker, copied, half("t-2"))
    assert reasons(sent.halves) == ["TOO_FEW_IN_SYNC", ""]
    ends = [end("t-2", outcome) for outcome in (COMMIT, ROLLBACK)]
    for each in ends:
        each.required_level = message_pb.ACKNOWLEDGED_LEVEL_REPLICATED
        assert reasons((await ask(broker, each)).ends) == ["TOO_FEW_IN_SYNC"]
    assert [each.transaction_id for each in await waiting(broker)] == ["t-2"]
    assert await broker.bodies("orders") == []


async def test_a_former_primary_refuses_each_half_message(broker, reasons, monkeypatch):
    def refuse(*_, **__):
        raise broker_not_primary("")

    await broker.create_topic("orders")
    with monkeypatch.context() as patch:
        patch.setattr(BrokerLog, "append", refuse)
        refused = await broker.append(half("t-1"), half("t-2"))
    assert reasons(refused) == ["BROKER_NOT_PRIMARY"] * 2
    assert reasons(await broker.append(half("t-1"), half("t-2"))) == ["", ""]


async def test_a_demand_that_makes_no_sense_fails_its_call_before_anything_is_done(broker, refused):
    await broker.create_topic("orders")
    wrong = end("t-1")
    wrong.in_sync_min = -1
    await ask(broker, half("t-1"))
    failure = await refused(ask(broker, end("t-1"), wrong))
    assert failure.reason == "FIELD_INVALID"
    assert failure.metadata["field"].endswith("in_sync_min")
    assert [each.transaction_id for each in await waiting(broker)] == ["t-1"]
