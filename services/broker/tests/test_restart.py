"""What a broker keeps over a restart, and what makes it refuse to start."""

import asyncio
import errno
import json
from contextlib import suppress

import pytest
from grpc import StatusCode, aio
from structlog.testing import capture_logs

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane_servicekit import StartRefused, StopIncomplete
from ariane_storage.disk.os_disk import OsOpenFile
from ariane_storage.state_file import StateFile


@pytest.fixture
def config(tmp_path):
    return tmp_path / "store" / "config"


def remove(config, name):
    for path in config.glob(f"{name}*"):
        path.unlink()


async def fill(running):
    async with running() as broker:
        await broker.create_topic("orders", 2, attributes={"cleanup.policy": "DELETE"})
        await broker.store("orders", [b"a", b"b"], 1)
        await broker.store_offset("group", "orders", 1, 1)


def update_of_queue_counts(topic, count):
    return topic_pb.UpdateTopicRequest(topic=topic, read_queue_count=count, write_queue_count=count)


async def findings(broker):
    state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
    return list(state.recovery_findings)


async def test_everything_is_there_again(running):
    await fill(running)
    async with running() as broker:
        response = await broker.topics.GetTopic(topic_pb.GetTopicRequest(topic="orders"))
        assert response.topic.read_queue_count == 2
        assert dict(response.topic.attributes) == {"cleanup.policy": "DELETE"}
        assert await broker.known_offset("group", "orders", 1) == 1
        assert await broker.bodies("orders", 1, 1) == [b"b"]
        result = await broker.store("orders", [b"c"], 1)
        assert result.first_queue_offset == 2
        request = group_pb.GetConsumerGroupRequest(consumer_group="group")
        assert (await broker.groups.GetConsumerGroup(request)).group.attempts_max == 16
        assert await findings(broker) == []


async def test_lost_offsets_are_no_zeros(running, config):
    await fill(running)
    remove(config, "consumerOffset.json")
    with pytest.raises(StartRefused, match="--accept-offset-loss"):
        async with running():
            pass
    async with running(accept_offset_loss=True) as broker:
        assert await broker.known_offset("group", "orders", 1) is None
        assert await findings(broker) == ["consumer offsets were lost and given up"]
    async with running() as broker:
        assert await broker.known_offset("group", "orders", 1) is None


async def test_the_previous_generation_is_as_good(running, config):
    await fill(running)
    async with running() as broker:
        await broker.store_offset("group", "orders", 1, 2)
    (config / "consumerOffset.json").write_text("{")
    async with running() as broker:
        assert await broker.known_offset("group", "orders", 1) == 1
        (finding,) = await findings(broker)
        assert "config/consumerOffset.json" in finding
        assert "messages may be consumed again" in finding
    async with running() as broker:
        assert await findings(broker) == []


async def test_topics_newer_than_the_previous_generation_are_found_by_their_queues(running, config):
    async with running() as broker:
        await broker.create_topic("orders", 1)
        await broker.topics.UpdateTopic(update_of_queue_counts("orders", 3))
        await broker.store("orders", [b"a"], 2)
        await broker.create_topic("newest", 2)
        await broker.store("newest", [b"b"], 1)
    (config / "topics.json").write_text("{")
    async with running() as broker:
        assert await broker.bodies("newest", 1) == [b"b"]
        assert await broker.bodies("orders", 2) == [b"a"]
        first, second = await findings(broker)
        assert "config/topics.json" in first
        assert "newest" in second
        assert "orders" not in second
    async with running() as broker:
        assert await broker.bodies("newest", 1) == [b"b"]
        assert await findings(broker) == []


async def test_queues_newer_than_the_previous_generation_are_readable(running, config):
    async with running() as broker:
        await broker.create_topic("orders", 1)
        await broker.topics.UpdateTopic(update_of_queue_counts("orders", 3))
        await broker.store("orders", [b"a"], 2)
    (config / "topics.json").write_text("{")
    async with running() as broker:
        assert await broker.bodies("orders", 2) == [b"a"]
        _, finding = await findings(broker)
        assert "orders" in finding
        response = await broker.topics.GetTopic(topic_pb.GetTopicRequest(topic="orders"))
        assert (response.topic.read_queue_count, response.topic.write_queue_count) == (3, 1)


async def test_settings_of_groups_from_the_previous_generation_are_told(running, config):
    await fill(running)
    async with running() as broker:
        request = group_pb.DeleteConsumerGroupRequest(consumer_group="group")
        await broker.groups.DeleteConsumerGroup(request)
    (config / "subscriptionGroup.json").write_text("{")
    async with running() as broker:
        (finding,) = await findings(broker)
        assert "config/subscriptionGroup.json" in finding


async def test_topics_of_a_restored_older_copy_are_completed(running, config):
    await fill(running)
    copy = (config / "topics.json").read_bytes()
    async with running() as broker:
        await broker.create_topic("newest")
        await broker.store("newest", [b"a"])
    remove(config, "topics.json")
    (config / "topics.json").write_bytes(copy)
    async with running() as broker:
        assert await broker.bodies("newest") == [b"a"]
        (finding,) = await findings(broker)
        assert "newest" in finding


async def test_a_deleted_topic_stays_deleted(running, config):
    await fill(running)
    async with running() as broker:
        await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
    for content in (None, "{"):
        if content is not None:
            async with running() as broker:
                await broker.create_topic("other")
            (config / "topics.json").write_text(content)
        async with running() as broker:
            response = await broker.topics.ListTopics(topic_pb.ListTopicsRequest())
            assert "orders" not in {entry.topic for entry in response.topics}


async def test_damaged_offsets_are_no_zeros(running, config):
    await fill(running)
    for path in config.glob("consumerOffset.json*"):
        path.write_text("{")
    with pytest.raises(StartRefused, match="--accept-offset-loss"):
        async with running():
            pass
    async with running(accept_offset_loss=True) as broker:
        assert await broker.known_offset("group", "orders", 1) is None


async def test_damaged_topics_refuse_the_start(running, config):
    await fill(running)
    for path in config.glob("topics.json*"):
        path.write_text("{")
    with pytest.raises(StartRefused, match=r"topics\.json"):
        async with running():
            pass


async def test_topics_of_another_shape_refuse_the_start(running, config):
    await fill(running)
    remove(config, "topics.json")
    (config / "topics.json").write_text('{"topicConfigTable": {"orders": {}}}')
    with pytest.raises(StartRefused, match="another shape"):
        async with running():
            pass


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("topics.json", '{"topicConfigTable": {"orders": {"readQueueNums": 1e999}}}'),
        ("subscriptionGroup.json", '{"subscriptionGroupTable": {"g": {"retryMaxTimes": 1e999}}}'),
        ("consumerOffset.json", '{"offsetTable": {"orders@g": {"0": 1e999}}}'),
        ("topics.json", '{"dataVersion": {"counter": 1%s}, "topicConfigTable": {}}' % ("0" * 30)),
        (
            "topics.json",
            '{"topicConfigTable": {"orders": {"readQueueNums": 4, "writeQueueNums": -4}}}',
        ),
    ],
)
async def test_a_number_without_sense_refuses_the_start_in_a_line(running, config, name, entry):
    await fill(running)
    remove(config, name)
    (config / name).write_text(entry)
    with pytest.raises(StartRefused, match=rf"{name}") as refused:
        async with running():
            pass
    assert "\n" not in str(refused.value)


async def test_groups_of_rocketmq_with_any_number_of_retries_are_taken(running, config):
    await fill(running)
    remove(config, "subscriptionGroup.json")
    growth = {"initial": -1, "max": 10**18, "multiplier": 0.1}
    groups = {
        "few": {"retryMaxTimes": -1},
        "many": {"retryMaxTimes": 2000},
        "odd": {"groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": growth}},
        "list": {"groupRetryPolicy": {"customizedRetryPolicy": {"next": [-5] * 200}}},
    }
    path = config / "subscriptionGroup.json"
    path.write_text(json.dumps({"subscriptionGroupTable": groups}))
    async with running() as broker:
        attempts = {}
        for name in groups:
            request = group_pb.GetConsumerGroupRequest(consumer_group=name)
            found = (await broker.groups.GetConsumerGroup(request)).group
            attempts[name] = found.attempts_max
        assert attempts == {"few": 0, "many": 2000, "odd": 16, "list": 16}


async def test_what_cannot_be_saved_at_the_stop_keeps_nothing_else_from_it(
    running, config, monkeypatch
):
    await fill(running)
    save = StateFile.save

    def full(self, state):
        if self.path.name == "consumerOffset.json":
            raise OSError(errno.ENOSPC, "no space")
        save(self, state)

    epochs = (config / "logEpochs.json").read_text()

    async def live():
        async with running(offset_save_s=3600) as broker:
            await broker.store("orders", [b"c"])
            await broker.store_offset("group", "orders", 1, 2)
            monkeypatch.setattr(StateFile, "save", full)

    with pytest.raises(StopIncomplete, match="consumer offsets"):
        await live()
    begins = [begin for _, begin in json.loads((config / "logEpochs.json").read_text())["epochs"]]
    known = [begin for _, begin in json.loads(epochs)["epochs"]]
    assert len(begins) == len(known) + 2, "that of the start, and that of the stop"
    assert not (config.parent / "abort").exists()


async def test_lost_topics_are_found_by_their_queues(running, config):
    await fill(running)
    remove(config, "topics.json")
    async with running() as broker:
        assert await broker.bodies("orders", 1) == [b"a", b"b"]
        (finding,) = await findings(broker)
        assert "orders" in finding


async def test_topics_of_rocketmq_are_read(running, config):
    await fill(running)
    remove(config, "topics.json")
    entry = {"perm": 6, "readQueueNums": 16, "topicName": "orders", "writeQueueNums": 8}
    (config / "topics.json").write_text(json.dumps({"topicConfigTable": {"orders": entry}}))
    (config / "consumerOffset.json").write_text('{"offsetTable":{"orders@group":{1:2}}}')
    (config / "consumerOffset.json.sums").unlink()
    async with running() as broker:
        response = await broker.topics.GetTopic(topic_pb.GetTopicRequest(topic="orders"))
        assert (response.topic.read_queue_count, response.topic.write_queue_count) == (16, 8)
        assert await broker.known_offset("group", "orders", 1) == 2


async def test_a_store_of_another_format_refuses_the_start(running):
    await fill(running)
    with pytest.raises(StartRefused):
        async with running(segment_bytes=32 << 20):
            pass


async def test_a_second_broker_on_the_store_refuses_to_start(running):
    async with running() as broker:
        with pytest.raises(StartRefused, match="another process"):
            async with running():
                pass
        await broker.store("orders", [b"still fine"])


async def test_a_failed_flush_ends_the_broker_and_acknowledges_nothing(running, reason_of):
    """Who waited learns that nobody knows; then the store or the draining broker refuses."""

    def fail(_):
        raise OSError(5, "scripted")

    async with running(flush_mode="sync", drain_s_max=0.2) as broker:
        await broker.store("orders", [b"good"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(OsOpenFile, "flush", fail)
            async with asyncio.timeout(60):
                while True:
                    try:
                        (result,) = await broker.append(broker.batch("orders", [b"lost"]))
                    except aio.AioRpcError as error:
                        code = error.code()
                        break
                    assert reason_of(result.error) == "FLUSH_UNCONFIRMED"
                    assert result.record_count == 1
        assert code in {StatusCode.UNAVAILABLE, StatusCode.CANCELLED}
    async with running() as broker:
        assert (await broker.bodies("orders"))[0] == b"good"
        state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
        assert "the last run ended without a stop" in state.recovery_notes[0]
        assert list(state.recovery_findings) == []


async def test_a_failed_flush_is_told_once_as_an_error_when_nobody_waits_for_it(running):
    def fail(_):
        raise OSError(5, "scripted")

    with capture_logs() as lines:
        async with running(flush_mode="async", flush_interval_ms=10, drain_s_max=0.2) as broker:
            await broker.store("orders", [b"good"])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(OsOpenFile, "flush", fail)
                async with asyncio.timeout(60):
                    while not [line for line in lines if line["event"] == "flush_failed"]:
                        with suppress(aio.AioRpcError):
                            await broker.append(broker.batch("orders", [b"lost"]))
    (failed,) = [line for line in lines if line["event"] == "flush_failed"]
    assert failed["log_level"] == "error"
    assert "scripted" in failed["cause"]


async def test_what_recovery_has_found_is_logged(running, tmp_path):
    await fill(running)
    (tmp_path / "store" / "abort").touch()
    with capture_logs() as lines:
        async with running() as broker:
            told = [line for line in lines if line["event"] == "recovery_note"]
            state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
            assert [line["note"] for line in told] == list(state.recovery_notes) != []
    assert {line["log_level"] for line in told} == {"info"}


async def test_a_store_that_refuses_for_lack_of_room_is_not_writable(running):
    ratios = dict.fromkeys(("disk_clean_ratio", "disk_force_ratio", "disk_refuse_ratio"), 1e-9)
    with capture_logs() as lines:
        async with running(**ratios) as broker, asyncio.timeout(60):
            while True:
                state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
                if state.store.refusal:
                    break
    assert not state.writable
    assert [line for line in lines if line["event"] == "writes_refused"]


async def test_the_first_file_of_a_queue_that_is_gone_hides_no_message(running, tmp_path):
    bodies = [b"%d" % number for number in range(7)]
    async with running(consume_queue_entries=2) as broker:
        await broker.create_topic("orders")
        await broker.append(broker.batch("orders", bodies))
    min((tmp_path / "store" / "consumequeue" / "orders" / "0").iterdir()).unlink()
    async with running(consume_queue_entries=2) as broker:
        assert await broker.bodies("orders") == bodies
        assert await findings(broker) == ["consume queues built again from the log"]


async def test_a_first_segment_that_is_gone_is_told(running, tmp_path):
    small = {"segment_bytes": 1 << 20, "message_bytes_max": 1 << 19}
    async with running(**small) as broker:
        await broker.create_topic("orders")
        for number in range(4):
            await broker.append(broker.batch("orders", [b"%d" % number * 400_000]))
    min((tmp_path / "store" / "commitlog").iterdir()).unlink()
    async with running(**small) as broker:
        (finding,) = await findings(broker)
        assert finding == (
            "commit-log offsets 0 to 1048576 are gone from the begin of the log, which retention "
            "has not deleted"
        )
        assert len(await broker.bodies("orders", 0, 2)) == 2
    async with running(**small) as broker:
        assert await findings(broker) == []
