"""Delay levels: parked in the log, delivered in time, once, whatever happens in between."""

import asyncio
import json
import time
from contextlib import AsyncExitStack

import numpy as np
import pytest
from grpc import aio

from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1.message_pb2 import MessageType
from ariane_broker.delay.level_queues import LevelQueues, queue_of
from ariane_broker.delay.level_table import level_waits_ms
from ariane_broker.settings import BrokerSettings
from ariane_record.decoding.columns import decode_columns
from ariane_record.names import DELAY_TOPIC
from ariane_storage.config import DELAY_LEVELS_MS, StoreConfig
from ariane_storage.store import Store
from ariane_storage.testing import FixedClock, block_of, small_config


async def park(broker, bodies, queue_id=0, *, level=1, topic="orders", **options):
    return await broker.store(topic, bodies, queue_id, delay_level=level, **options)


async def arrived(broker, count, queue_id=0, topic="orders", within_s=60):
    """The messages of a queue, once there are so many."""
    async with asyncio.timeout(within_s):
        while True:
            (pulled,) = await broker.pull((topic, queue_id, 0), hold_s=0.0)
            columns = decode_columns(pulled.records, np.frombuffer(pulled.record_sizes, "<i4"))
            if len(columns) >= count:
                return list(map(columns.message, range(len(columns))))
            await asyncio.sleep(0.02)


async def nothing_more(broker, count, seconds=0.3, **options):
    """The messages of a queue, of which there are no more than that."""
    await asyncio.sleep(seconds)
    found = await arrived(broker, count, **options)
    assert len(found) == count
    return found


async def test_a_message_comes_after_its_delay_as_it_was_sent(broker):
    await broker.create_topic("orders", 3)
    begin = time.time()
    parked = await park(broker, [b"a", b"b"], 2, tags=["red", "blue"], keys=["k1", "k2"])
    early = await broker.bodies("orders", 2)
    assert early == [] or time.time() - begin >= 1
    first, second = await arrived(broker, 2, queue_id=2)
    assert time.time() - begin >= 1
    assert first.store_timestamp_ms - parked.store_time.ToMilliseconds() >= 1000
    assert (first.body, first.tag, first.keys, first.unique_id) == (b"a", "red", ("k1",), "id-0")
    assert (second.body, second.tag, second.keys) == (b"b", "blue", ("k2",))
    assert (first.queue_id, first.queue_offset, second.queue_offset) == (2, 0, 1)
    assert set(first.properties) == {"TAGS", "KEYS", "UNIQ_KEY"}
    assert first.born_timestamp_ms == 1_700_000_000_000
    assert first.store_timestamp_ms - first.born_timestamp_ms > 1000


async def test_levels_wait_each_for_itself(clock, broker):
    await broker.create_topic("orders")
    await park(broker, [b"later"], level=3)
    await park(broker, [b"soon"])
    clock.advance(1)
    assert [message.body for message in await arrived(broker, 1)] == [b"soon"]


async def test_a_level_above_the_highest_is_the_highest(broker):
    await broker.create_topic("orders")
    await park(broker, [b"a"], level=99)
    result = await park(broker, [b"b"], level=18)
    assert result.first_queue_offset == 1


@pytest.mark.parametrize("name", ["REAL_TOPIC", "REAL_QID", "DELAY", "TIMER_DELIVER_MS"])
async def test_a_producer_does_not_say_where_a_parked_record_goes(broker, reason_of, name):
    await broker.create_topic("orders")
    batch = broker.batch("orders", [b"a"], properties={name: "1"}, delay_level=1)
    (result,) = await broker.append(batch)
    assert reason_of(result.error) == "MESSAGE_ILLEGAL"


async def test_a_topic_for_other_messages_takes_none_that_are_delayed(broker, reason_of):
    for kind in ("NORMAL", "FIFO", "DELAY"):
        await broker.create_topic(kind, message_type=MessageType.Value(f"MESSAGE_TYPE_{kind}"))
        (result,) = await broker.append(broker.batch(kind, [b"a"], delay_level=1))
        refused = reason_of(result.error) if result.error is not None else None
        assert refused == (None if kind == "DELAY" else "MESSAGE_TYPE_MISMATCH")
    (result,) = await broker.append(broker.batch("DELAY", [b"a"]))
    assert reason_of(result.error) == "MESSAGE_TYPE_MISMATCH"


async def test_the_parked_record_is_that_of_rocketmq(running, tmp_path, settings_for):
    async with running() as broker:
        await broker.create_topic("orders", 3)
        await park(broker, [b"a"], 2, level=5, tags=["red"], keys=["k"])
    config = settings_for().store_config()
    with Store.open(tmp_path / "store", config) as store:
        read = store.read_queue(DELAY_TOPIC, 4, 0, max_count=9, max_bytes=1 << 20)
        (message,) = store.query_by_key(DELAY_TOPIC, "k")
        (entry,) = store.queue_entries(DELAY_TOPIC, 4, 0, max_count=9)
        assert read.count == 1
        expected = {"REAL_TOPIC": "orders", "REAL_QID": "2", "DELAY": "5"}
        assert expected.items() <= message.properties.items()
        due_ms = message.store_timestamp_ms + StoreConfig().delay_levels_ms[4]
        assert int(entry["tags_code"]) == due_ms
    saved = json.loads((tmp_path / "store" / "config" / "delayOffset.json").read_text())
    assert saved["offsetTable"]["5"] == 0


async def test_due_during_downtime_comes_once_and_soon(running, clock):
    async with running() as broker:
        await broker.create_topic("orders")
        await park(broker, [b"a", b"b"])
    clock.advance(1)
    async with running() as broker:
        assert [message.body for message in await arrived(broker, 2, within_s=60)] == [b"a", b"b"]
    async with running() as broker:
        await nothing_more(broker, 2)


@pytest.mark.parametrize("snapshot", ["old", "none", "of RocketMQ"])
async def test_messages_delivered_before_a_crash_are_not_delivered_again(
    running, crashed, clock, tmp_path, snapshot
):
    async with running(producer_save_s=1000) as broker:
        await broker.create_topic("orders")
        await park(broker, [b"%d" % number for number in range(40)])
        clock.advance(1)
        await arrived(broker, 40, within_s=60)
        late = await park(broker, [b"late"])
        assert late.first_queue_offset == 40
        if snapshot == "of RocketMQ":
            document = {"dataVersion": {"counter": 1}, "offsetTable": {"1": 7}}
            (tmp_path / "store" / "config" / "delayOffset.json").write_text(json.dumps(document))
        if snapshot == "none":
            for path in (tmp_path / "store" / "config").glob("delayOffset.json*"):
                path.unlink()
        async with crashed() as survivor:
            clock.advance(1)
            found = await arrived(survivor, 41, within_s=60)
            assert [m.body for m in found] == [b"%d" % number for number in range(40)] + [b"late"]
            await nothing_more(survivor, 41)


async def test_a_file_of_rocketmq_that_is_ahead_of_the_log_holds_nothing_back(
    running, clock, tmp_path
):
    """It says no commit-log offset, and what it knew may have gone with the power."""
    config = tmp_path / "store" / "config"
    async with running() as broker:
        await broker.create_topic("orders")
        await park(broker, [b"a"])
        clock.advance(1)
        await arrived(broker, 1)
    for path in config.glob("delayOffset.json*"):
        path.unlink()
    document = {"dataVersion": {"counter": 1}, "offsetTable": {"1": 7, "2": 3}}
    (config / "delayOffset.json").write_text(json.dumps(document))
    async with running(delay_levels="1s 1s") as broker:
        await park(broker, [b"b"])
        await park(broker, [b"c"], level=2)
        clock.advance(1)
        found = await arrived(broker, 3, within_s=4)
        assert sorted(message.body for message in found) == [b"a", b"b", b"c"]
        await nothing_more(broker, 3)


async def test_a_wrong_digit_of_rocketmq_takes_nothing_that_waits(
    running, clock, tmp_path, settings_for, capsys
):
    """Nothing protects its file. What was not due yet when the log ends, it has not delivered."""
    config = tmp_path / "store" / "config"
    async with running() as broker:
        await broker.create_topic("orders")
        await park(broker, [b"delivered"], level=2)
        await park(broker, [b"waits", b"too"], level=3)
    later = FixedClock(time.time_ns() // 1_000_000 + 6000)
    with Store.open(tmp_path / "store", settings_for().store_config(), clock=later) as store:
        store.append(block_of("orders", [b"of RocketMQ"]), 0)
    for path in config.glob("delayOffset.json*"):
        path.unlink()
    document = {"dataVersion": {"counter": 1}, "offsetTable": {"2": 1, "3": 2, "4": 7}}
    (config / "delayOffset.json").write_text(json.dumps(document))
    async with running() as broker:
        clock.advance(11)
        await arrived(broker, 3)
        found = await nothing_more(broker, 3)
    assert [message.body for message in found] == [b"of RocketMQ", b"waits", b"too"]
    assert capsys.readouterr().out.count("2 messages of level 3") == 1


async def test_messages_parked_first_are_delivered_first(running, clock):
    async with running() as broker, AsyncExitStack() as stack:
        await broker.create_topic("orders")
        bodies = [b"a", b"b", b"c", b"d", b"e", b"f"]
        # A connection of its own for each, as a block of what is delivered has one. Who connects
        # later mostly has the higher port.
        alone = [("grpc.use_local_subchannel_pool", 1)]
        channels = [aio.insecure_channel(str(broker.address), options=alone) for _ in bodies]
        for channel in channels:
            await stack.enter_async_context(channel)
            await channel.channel_ready()
        for body, channel in zip(bodies, reversed(channels), strict=True):
            await park(type(broker)(channel, broker.address), [body])
        clock.advance(1)
        found = await arrived(broker, len(bodies))
        assert [message.body for message in found] == bodies


async def test_a_repeated_batch_is_delivered_once(running, crashed):
    async with running() as broker:
        await broker.create_topic("orders", 2)
        first = await park(broker, [b"a", b"b"], 1, sequence=(7, 0, 0))
        again = await park(broker, [b"a", b"b"], 1, sequence=(7, 0, 0))
        assert (again.duplicate, again.first_commit_log_offset) == (
            True,
            first.first_commit_log_offset,
        )
        undelayed = await broker.store("orders", [b"c"], 1, sequence=(7, 0, 2))
        assert not undelayed.duplicate
        async with crashed() as survivor:
            assert (await park(survivor, [b"a", b"b"], 1, sequence=(7, 0, 0))).duplicate
            assert not (await park(survivor, [b"d"], 1, sequence=(7, 0, 3))).duplicate
            found = await arrived(survivor, 4, queue_id=1)
            assert [message.body for message in found] == [b"c", b"a", b"b", b"d"]
            assert "__PSEQ#" not in found[1].properties


async def test_messages_of_a_topic_that_is_gone_are_dropped(running, clock):
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.create_topic("others")
        await park(broker, [b"a"])
        await park(broker, [b"b"], topic="others")
        await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
        clock.advance(1)
        assert len(await arrived(broker, 1, topic="others")) == 1
    async with running() as broker:
        await broker.create_topic("orders")
        assert await broker.bodies("orders") == []


async def test_a_queue_that_is_gone_gives_its_messages_to_another(clock, broker):
    await broker.create_topic("orders", 4)
    await park(broker, [b"a"], 3)
    fewer = topic_pb.UpdateTopicRequest(topic="orders", read_queue_count=2, write_queue_count=2)
    await broker.topics.UpdateTopic(fewer)
    clock.advance(1)
    (message,) = await arrived(broker, 1, queue_id=1)
    assert message.body == b"a"


async def test_large_slices_come_complete_and_in_order(clock, broker):
    await broker.create_topic("orders", 2)
    for start in range(0, 3000, 500):
        numbers = range(start, start + 500)
        await park(broker, [b"%d" % number for number in numbers], start // 500 % 2)
    clock.advance(1)
    async with asyncio.timeout(60):
        for queue_id in (0, 1):
            bodies = []
            while len(bodies) < 1500:
                bodies += await broker.bodies("orders", queue_id, len(bodies))
                await asyncio.sleep(0.01)
            assert list(map(int, bodies)) == [n for n in range(3000) if n // 500 % 2 == queue_id]


async def test_levels_wait_as_the_settings_say(running):
    async with running(delay_levels="1s 1h") as broker:
        await broker.create_topic("orders")
        begin = time.time()
        await park(broker, [b"a"], level=1)
        await park(broker, [b"above"], level=3)
        assert [message.body for message in await arrived(broker, 1)] == [b"a"]
        assert time.time() - begin >= 1
        await nothing_more(broker, 1)


async def test_messages_of_a_removed_level_are_delivered(running, clock):
    async with running(delay_levels="1h 1s 2s") as broker:
        await broker.create_topic("orders")
        await park(broker, [b"second"], level=2)
        await park(broker, [b"third"], level=3)
    clock.advance(2)
    async with running(delay_levels="1h") as broker:
        await park(broker, [b"first"], level=2)
        found = await nothing_more(broker, 2)
        assert [message.body for message in found] == [b"second", b"third"]
    async with running(delay_levels="1h") as broker:
        await nothing_more(broker, 2)


def test_what_waits_in_a_level_that_is_gone_is_found_where_replicas_may_lack_it(tmp_path):
    with Store.open(tmp_path / "store", small_config()) as store:
        store.append(block_of(DELAY_TOPIC, [b"third"]), queue_of(3).queue_id)
        store.copying.confirm_up_to(0)
        queues = LevelQueues(store, levels_ms=(1000,), now_ms=lambda: 0)
        queues.keep_topics(lambda topic: True)
        assert queues.levels == [1, 3]


def test_only_queues_of_levels_in_which_something_may_wait_are_read(tmp_path, monkeypatch):
    with Store.open(tmp_path / "store", small_config()) as store:
        queues = LevelQueues(store, levels_ms=(1000, 2000, 3000), now_ms=lambda: 10_000)
        assert queues.waiting_levels == []
        monkeypatch.setattr(store, "queue_entries", lambda *_, **__: pytest.fail("a queue is read"))
        assert queues.next_due_ms() is None
        monkeypatch.undo()
        store.append(block_of(DELAY_TOPIC, [b"a", b"b"]), queue_of(2).queue_id)
        assert queues.waiting_levels == [2]
        assert queues.next_due_ms() is not None
        queues.mark(2, np.arange(1))
        assert queues.waiting_levels == [2]
        queues.mark(2, np.arange(1, 2))
        assert queues.waiting_levels == []


@pytest.mark.parametrize(
    "text", ["", "5", "1s 0m", "1s,2s", "1s 9999999d", "1w", " ".join(["1s"] * 65)]
)
def test_tables_of_levels_that_cannot_be(text, settings_for):
    with pytest.raises(ValueError, match="delay_levels"):
        settings_for(delay_levels=text)


def test_a_table_of_levels_is_read_in_all_units():
    assert level_waits_ms("1s 10m 2h 1d") == (1000, 600_000, 7_200_000, 86_400_000)
    assert level_waits_ms(BrokerSettings.model_fields["delay_levels"].default) == DELAY_LEVELS_MS
