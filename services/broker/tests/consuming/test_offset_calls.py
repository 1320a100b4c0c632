"""OffsetService: unknown is absent, nothing beyond the end, durable on demand."""

import asyncio
import json
import threading

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane_storage.state_file import StateFile


def reset(broker, **fields):
    request = offset_pb.ResetConsumerOffsetsRequest(
        consumer_group="group", topic="orders", **fields
    )
    return broker.offsets.ResetConsumerOffsets(request)


async def test_unknown_is_absent_and_zero_is_known(broker):
    await broker.create_topic("orders", 2)
    assert await broker.known_offset("group", "orders") is None
    assert await broker.store_offset("group", "orders", 0, 0) == []
    assert await broker.known_offset("group", "orders") == 0
    assert await broker.known_offset("group", "orders", 1) is None
    assert await broker.known_offset("other", "orders") is None


async def test_all_offsets_of_a_group(broker):
    await broker.create_topic("orders", 2)
    await broker.create_topic("bills", 1)
    for topic, queue_id in (("orders", 1), ("bills", 0), ("orders", 0)):
        await broker.store_offset("group", topic, queue_id, 0)
    request = offset_pb.GetConsumerOffsetsRequest(consumer_group="group")
    offsets = (await broker.offsets.GetConsumerOffsets(request)).offsets
    assert [(offset.topic, offset.queue_id) for offset in offsets] == [
        ("bills", 0),
        ("orders", 0),
        ("orders", 1),
    ]


async def test_a_stream_query_does_not_move_offsets_under_members(broker, refused):
    """They would skip what only the query has read."""
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b"])
    await broker.store_offset("group", "orders", 0, 1)
    call = broker.clients.Attach()
    memberships = [client_pb.Membership(consumer_group="group")]
    hello = client_pb.ClientHello(client_id="a", memberships=memberships)
    await call.write(client_pb.AttachRequest(hello=hello))
    assert (await call.read()).HasField("accepted")

    def stored(group):
        offset = offset_pb.QueueConsumerOffset(topic="orders", queue_offset=2)
        return broker.offsets.StoreConsumerOffsets(
            offset_pb.StoreConsumerOffsetsRequest(
                consumer_group=group, offsets=[offset], stream_engine="Spark 4.3.0"
            )
        )

    failure = await refused(stored("group"))

    assert (failure.reason, failure.metadata["member_count"]) == ("GROUP_IN_USE", "1")
    assert await broker.known_offset("group", "orders") == 1
    assert not (await stored("other")).refused
    call.cancel()


async def test_offsets_are_refused_one_by_one(broker, reason_of):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b"])
    wanted = [("orders", 0, 2), ("orders", 0, 3), ("orders", 1, 0), ("nowhere", 0, 0)]
    request = offset_pb.StoreConsumerOffsetsRequest(
        consumer_group="group",
        offsets=[
            offset_pb.QueueConsumerOffset(topic=topic, queue_id=queue_id, queue_offset=offset)
            for topic, queue_id, offset in wanted
        ],
    )
    refused = (await broker.offsets.StoreConsumerOffsets(request)).refused
    assert [(entry.topic, entry.queue_id, reason_of(entry.error)) for entry in refused] == [
        ("orders", 0, "QUEUE_OFFSET_OUT_OF_RANGE"),
        ("orders", 1, "QUEUE_NOT_FOUND"),
        ("nowhere", 0, "TOPIC_NOT_FOUND"),
    ]
    assert await broker.known_offset("group", "orders") == 2


@pytest.mark.parametrize(
    ("offset", "reason"),
    [
        ({"queue_id": -1, "queue_offset": 0}, "FIELD_INVALID"),
        ({"queue_id": 0, "queue_offset": -1}, "FIELD_INVALID"),
        ({"queue_id": 0}, "FIELD_INVALID"),
    ],
)
async def test_senseless_offsets_store_nothing(broker, refused, offset, reason):
    await broker.create_topic("orders")
    request = offset_pb.StoreConsumerOffsetsRequest(
        consumer_group="group",
        offsets=[{"topic": "orders", "queue_offset": 0}, {"topic": "orders"} | offset],
    )
    assert (await refused(broker.offsets.StoreConsumerOffsets(request))).reason == reason
    assert await broker.known_offset("group", "orders") is None


async def test_durable_offsets_are_on_the_disk_with_the_answer(broker, tmp_path):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b"])
    await broker.store_offset("group", "orders", 0, 2, durable=True)
    content = (tmp_path / "store" / "config" / "consumerOffset.json").read_text()
    assert json.loads(content)["offsetTable"] == {"orders@group": {"0": 2}}


async def test_offsets_are_saved_every_few_seconds(running, tmp_path):
    async with running(offset_save_s=0.02) as broker:
        await broker.create_topic("orders")
        await broker.store_offset("group", "orders", 0, 0)
        path = tmp_path / "store" / "config" / "consumerOffset.json"
        async with asyncio.timeout(60):
            while "orders@group" not in path.read_text():  # noqa: ASYNC110 - the disk tells nobody.
                await asyncio.sleep(0.005)


async def test_groups_are_made_by_their_first_offset_only_where_allowed(running, refused):
    async with running(auto_create_groups=False) as broker:
        await broker.create_topic("orders")
        failure = await refused(broker.store_offset("group", "orders", 0, 0))
        assert failure.reason == "GROUP_NOT_FOUND"


async def test_resets(broker, refused):
    await broker.create_topic("orders", 2)
    first = await broker.store("orders", [b"a", b"b"])
    await broker.store("orders", [b"c"], 1)
    assert (await refused(reset(broker, earliest=True))).reason == "GROUP_NOT_FOUND"
    await broker.store_offset("group", "orders", 0, 1)

    async def numbers(**fields):
        response = await reset(broker, **fields)
        return {offset.queue_id: offset.queue_offset for offset in response.offsets}

    assert await numbers(earliest=False, validate_only=True) == {0: 2, 1: 1}
    assert await broker.known_offset("group", "orders") == 1
    assert await numbers(earliest=False) == {0: 2, 1: 1}
    assert await broker.known_offset("group", "orders") == 2
    assert await numbers(time=first.store_time) == {0: 0, 1: 0}
    later = Timestamp(seconds=first.store_time.seconds + 1)
    # Back only: what is not consumed yet would be skipped, and what nobody began is set.
    assert await numbers(time=later, only_back=True) == {}
    assert await numbers(time=later) == {0: 2, 1: 1}
    assert await numbers(time=first.store_time, only_back=True) == {0: 0, 1: 0}
    assert await numbers(table={"queue_offsets": {1: 1}}) == {1: 1}
    assert await broker.known_offset("group", "orders") == 0
    assert await numbers(earliest=True) == {0: 0, 1: 0}
    call = reset(broker, table={"queue_offsets": {0: 9}})
    assert (await refused(call)).reason == "QUEUE_OFFSET_OUT_OF_RANGE"
    call = reset(broker, table={"queue_offsets": {7: 0}})
    assert (await refused(call)).reason == "QUEUE_NOT_FOUND"
    assert (await refused(reset(broker))).reason == "FIELD_INVALID"


async def test_a_clone_has_the_same_offsets(broker, refused):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b"])
    missing = offset_pb.CloneConsumerOffsetsRequest(
        consumer_group="group", target_consumer_group="copy", topic="orders"
    )
    call = broker.offsets.CloneConsumerOffsets(missing)
    assert (await refused(call)).reason == "GROUP_NOT_FOUND"
    await broker.store_offset("group", "orders", 0, 2)
    request = offset_pb.CloneConsumerOffsetsRequest(
        consumer_group="group", target_consumer_group="copy", topic="orders"
    )
    await broker.offsets.CloneConsumerOffsets(request)
    assert await broker.known_offset("copy", "orders") == 2


async def test_lags(broker):
    await broker.create_topic("orders", 2)
    first = await broker.store("orders", [b"a"])
    second = await broker.store("orders", [b"b", b"c"])
    await broker.store_offset("a-group", "orders", 0, 1)
    await broker.store_offset("a-group", "orders", 1, 0)
    await broker.store_offset("b-group", "orders", 0, 0)

    async def lags(**fields):
        request = offset_pb.ListConsumerLagsRequest(**fields)
        return await broker.offsets.ListConsumerLags(request)

    page = await lags(page_size=2)
    rest = await lags(page_size=2, page_token=page.next_page_token)
    found = [*page.lags, *rest.lags]
    assert [(lag.consumer_group, lag.queue_id, lag.message_count) for lag in found] == [
        ("a-group", 0, 2),
        ("a-group", 1, 0),
        ("b-group", 0, 3),
    ]
    assert found[0].oldest_store_time == second.store_time
    assert found[2].oldest_store_time == first.store_time
    assert not found[1].HasField("oldest_store_time")
    assert found[0].max_queue_offset == 3
    assert len((await lags(consumer_group="b-group")).lags) == 1
    assert len((await lags(topic="bills")).lags) == 0


async def test_a_reset_is_not_undone_by_who_began_before_it(broker, reason_of):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b", b"c"])
    await broker.store_offset("group", "orders", 0, 1)

    async def store(offset, **epochs):
        wanted = offset_pb.QueueConsumerOffset(topic="orders", queue_offset=offset, **epochs)
        request = offset_pb.StoreConsumerOffsetsRequest(consumer_group="group", offsets=[wanted])
        refused = (await broker.offsets.StoreConsumerOffsets(request)).refused
        return [reason_of(entry.error) for entry in refused]

    async def reset_epoch():
        request = offset_pb.GetConsumerOffsetsRequest(
            consumer_group="group", queues=[{"topic": "orders"}]
        )
        return (await broker.offsets.GetConsumerOffsets(request)).offsets[0].reset_epoch

    assert await reset_epoch() == 0
    assert await store(2, reset_epoch=0) == []
    await reset(broker, earliest=True)
    assert await reset_epoch() == 1
    assert await store(3, reset_epoch=0) == ["CONSUMER_OFFSET_RESET"]
    assert await broker.known_offset("group", "orders") == 0
    assert await store(3, reset_epoch=1) == []


async def test_a_reset_and_a_clone_are_on_the_disk_with_the_answer(running, tmp_path):
    path = tmp_path / "store/config/consumerOffset.json"
    async with running(offset_save_s=3600) as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"a", b"b"])
        await broker.store_offset("group", "orders", 0, 1)
        await reset(broker, earliest=False)
        content = json.loads(path.read_text())
        assert content["offsetTable"] == {"orders@group": {"0": 2}}
        assert content["resetTable"] == {"orders@group": {"0": 1}}
        clone = offset_pb.CloneConsumerOffsetsRequest(
            consumer_group="group", target_consumer_group="copy", topic="orders"
        )
        await broker.offsets.CloneConsumerOffsets(clone)
        assert json.loads(path.read_text())["offsetTable"]["orders@copy"] == {"0": 2}


async def test_resets_are_counted_over_a_restart(running, tmp_path):
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store_offset("group", "orders", 0, 0)
        await reset(broker, earliest=True)
        await reset(broker, earliest=True)
    content = json.loads((tmp_path / "store/config/consumerOffset.json").read_text())
    assert content["resetTable"] == {"orders@group": {"0": 2}}
    async with running() as broker:
        request = offset_pb.GetConsumerOffsetsRequest(consumer_group="group")
        assert (await broker.offsets.GetConsumerOffsets(request)).offsets[0].reset_epoch == 2


async def test_the_backlog_counts_what_is_kept(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b", b"c"])
    await broker.store_offset("group", "orders", 0, 1)
    request = offset_pb.ListConsumerLagsRequest(consumer_group="group")
    (lag,) = (await broker.offsets.ListConsumerLags(request)).lags
    assert (lag.consumer_offset, lag.max_queue_offset, lag.message_count) == (1, 3, 2)


async def test_a_lower_offset_counts_only_where_it_is_meant(broker, refused):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b", b"c"])

    async def store(offset, rule=offset_pb.STORE_RULE_UNSPECIFIED):
        wanted = offset_pb.QueueConsumerOffset(topic="orders", queue_offset=offset, rule=rule)
        request = offset_pb.StoreConsumerOffsetsRequest(consumer_group="group", offsets=[wanted])
        assert not (await broker.offsets.StoreConsumerOffsets(request)).refused
        return await broker.known_offset("group", "orders")

    assert await store(2) == 2
    assert await store(1) == 2
    assert await store(3) == 3
    assert await store(1, offset_pb.STORE_RULE_MOVE) == 1
    assert await store(2, offset_pb.STORE_RULE_LAST) == 2
    assert await store(1, offset_pb.STORE_RULE_LAST) == 2
    assert (await refused(store(1, 77))).reason == "FIELD_INVALID"


async def test_a_beginning_counts_only_where_there_is_no_offset(broker):
    await broker.create_topic("orders", 2)
    await broker.store("orders", [b"a", b"b", b"c"])
    await broker.store_offset("group", "orders", 0, 1)

    async def begin(queue_id, offset):
        wanted = offset_pb.QueueConsumerOffset(
            topic="orders",
            queue_id=queue_id,
            queue_offset=offset,
            rule=offset_pb.STORE_RULE_BEGIN,
        )
        request = offset_pb.StoreConsumerOffsetsRequest(consumer_group="group", offsets=[wanted])
        return list((await broker.offsets.StoreConsumerOffsets(request)).refused)

    (refusal,) = await begin(1, 9)
    assert refusal.queue_id == 1
    for queue_id, offset in ((0, 3), (0, 0), (1, 0)):
        assert await begin(queue_id, offset) == []
    assert await broker.known_offset("group", "orders", 0) == 1
    assert await broker.known_offset("group", "orders", 1) == 0


async def test_a_beginning_is_told_to_other_members_once_it_is_durable(broker, monkeypatch):
    """A member that relied on it earlier would skip messages if it was lost."""
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b"])
    await broker.store_offset("group", "orders", 0, 1)
    may_save, save = threading.Event(), StateFile.save

    def late(file, state):
        if file.path.name == "consumerOffset.json":
            may_save.wait(60)
        save(file, state)

    monkeypatch.setattr(StateFile, "save", late)
    wanted = offset_pb.QueueConsumerOffset(
        topic="orders", queue_offset=2, rule=offset_pb.STORE_RULE_BEGIN
    )
    request = offset_pb.StoreConsumerOffsetsRequest(
        consumer_group="other", offsets=[wanted], durable=True
    )
    storing = asyncio.ensure_future(broker.offsets.StoreConsumerOffsets(request))
    while await lags_of(broker, "other") == 0:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)
    reading = asyncio.ensure_future(broker.known_offset("other", "orders"))
    assert not (await asyncio.wait([storing, reading], timeout=0.1))[0]
    may_save.set()
    assert await reading == 2
    await storing


async def lags_of(broker, group):
    request = offset_pb.ListConsumerLagsRequest(consumer_group=group)
    return len((await broker.offsets.ListConsumerLags(request)).lags)
