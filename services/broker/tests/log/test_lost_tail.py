"""The end of the log is lost, as with the power: what groups have done is known up to it only."""

import json
import shutil
from contextlib import asynccontextmanager

import pytest

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane_broker.log.store_keeping import StoreKeeping


@pytest.fixture
def config(tmp_path):
    return tmp_path / "store" / "config"


async def state_of(broker):
    return await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())


def edit(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


async def test_offsets_beyond_the_end_are_set_back_durably_and_told(running, config):
    async with running() as broker:
        await broker.create_topic("orders", 2)
        await broker.store("orders", [b"a", b"b"])
        await broker.store_offset("group", "orders", 0, 2)
        await broker.store_offset("group", "orders", 1, 0)
        await broker.store_offset("other", "orders", 0, 1)

    def beyond_the_end(document):
        document["offsetTable"]["orders@group"] = {"0": 5, "1": 3}

    offsets = config / "consumerOffset.json"
    edit(offsets, beyond_the_end)
    async with running() as broker:
        saved = json.loads(offsets.read_text())["offsetTable"]
        assert saved == {"orders@group": {"0": 2, "1": 0}, "orders@other": {"0": 1}}
        await broker.store("orders", [b"c", b"d", b"e", b"f"])
        assert await broker.known_offset("group", "orders") == 2
        (finding,) = (await state_of(broker)).recovery_findings
        assert "2 consumer offsets lay outside of their queues: beyond the end" in finding
        assert "group group, topic orders, queue 0: 5 to 2" in finding
        # Who began before the loss does not undo it.
        wanted = offset_pb.QueueConsumerOffset(topic="orders", queue_offset=5, reset_epoch=0)
        request = offset_pb.StoreConsumerOffsetsRequest(consumer_group="group", offsets=[wanted])
        (refused,) = (await broker.offsets.StoreConsumerOffsets(request)).refused
        assert "the offset was reset" in refused.error.message
    async with running() as broker:
        assert list((await state_of(broker)).recovery_findings) == []
        assert await broker.known_offset("group", "orders") == 2


async def test_an_offset_below_0_becomes_0_durably_and_is_told(running, config):
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"a", b"b"])
        await broker.store_offset("group", "orders", 0, 1)
    offsets = config / "consumerOffset.json"
    edit(offsets, lambda document: document["offsetTable"]["orders@group"].update({"0": -5}))
    async with running() as broker:
        assert json.loads(offsets.read_text())["offsetTable"] == {"orders@group": {"0": 0}}
        assert await broker.known_offset("group", "orders") == 0
        (finding,) = (await state_of(broker)).recovery_findings
        assert "group group, topic orders, queue 0: -5 to 0" in finding


@pytest.mark.parametrize("flush_mode", ["async", "sync"])
async def test_offsets_at_the_end_stay_there(running, flush_mode):
    async with running(flush_mode=flush_mode) as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"a", b"b"])
        await broker.store_offset("group", "orders", 0, 2)
    async with running(flush_mode=flush_mode) as broker:
        state = await state_of(broker)
        assert list(state.recovery_findings) == []
        assert state.statistics.set_back_offset_count == 0
        assert await broker.known_offset("group", "orders") == 2


async def test_no_consumer_has_died_of_messages_to_come(running, config):
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"a", b"b"])
        await broker.store_offset("group", "orders", 0, 1)
    deaths = config / "consumerDeaths.json"
    lost = ["group", "orders", 0, 9, 7, 5, 3]
    deaths.write_text(json.dumps({"version": 1, "suspicions": [lost]}))
    async with running() as broker:
        saved = json.loads(deaths.read_text())["suspicions"]
        assert saved == [["group", "orders", 0, 2, 2, -1, 0]]


@pytest.mark.parametrize("durable", [True, False])
async def test_what_is_saved_of_a_group_is_durable_in_the_log(
    running, config, durable, monkeypatch
):
    async def nothing(_keeping):
        pass

    # Nothing flushes by itself, however long this takes: no tick comes, and the first turn of
    # retention, which begins by flushing, may run late.
    monkeypatch.setattr("ariane_broker.log.room.FLUSH_TICK_SECONDS", 3600)
    monkeypatch.setattr(StoreKeeping, "_apply_retention", nothing)
    async with running(
        offset_save_s=3600, producer_save_s=3600, flush_interval_ms=3_600_000
    ) as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"a", b"b"])
        store = (await state_of(broker)).store
        assert store.flushed_commit_log_offset < store.max_commit_log_offset
        await broker.store_offset("group", "orders", 0, 2, durable=durable)
        store = (await state_of(broker)).store
        flushed = store.flushed_commit_log_offset == store.max_commit_log_offset
        assert flushed is durable
        assert ("orders@group" in (config / "consumerOffset.json").read_text()) is durable


@pytest.fixture
def after_loss(running, tmp_path):
    """A broker whose log has lost messages 2 and 3 of a queue, and has got 5 others since."""
    store = tmp_path / "store"

    @asynccontextmanager
    async def run():
        async with running() as broker:
            await broker.create_topic("orders", 2)
            await broker.store("orders", [b"a", b"b"])
            await broker.store_offset("group", "orders", 0, 0)
        shutil.copytree(store, tmp_path / "image")
        async with running() as broker:
            await broker.store("orders", [b"lost", b"lost"])
            await broker.store("orders", [b"lost"], 1)
            (pulled,) = await broker.pull(("orders", 0, 0))
        epochs = {path: path.read_bytes() for path in (store / "config").glob("logEpochs.json*")}
        shutil.rmtree(store)
        shutil.copytree(tmp_path / "image", store)
        for path, content in epochs.items():
            path.write_bytes(content)
        async with running() as broker:
            await broker.store("orders", [b"c", b"d", b"e", b"f", b"g"])
            yield broker, pulled.log_epoch

    return run


def pull_at(broker, queue_offset, log_epoch, queue_id=0):
    position = pull_pb.PullPosition(
        topic="orders", queue_id=queue_id, queue_offset=queue_offset, log_epoch=log_epoch
    )
    request = pull_pb.PullRecordsRequest(consumer_group="group", positions=[position])
    return broker.pulls.PullRecords(request)


async def test_a_position_whose_messages_are_lost_is_refused(
    after_loss, running, reason_of, read_bodies
):
    async with after_loss() as (broker, log_epoch):
        (pulled,) = (await pull_at(broker, 4, log_epoch)).queues
        assert reason_of(pulled.error) == "QUEUE_CUT"
        assert "ends at 2" in pulled.error.message
        (pulled,) = (await pull_at(broker, 1, log_epoch, queue_id=1)).queues
        assert "ends at 0" in pulled.error.message
        # What nobody knows is not believed; who says nothing is not checked.
        (pulled,) = (await pull_at(broker, 1, 12345)).queues
        assert reason_of(pulled.error) == "QUEUE_CUT"
        (pulled,) = (await pull_at(broker, 4, 0)).queues
        assert read_bodies(pulled) == [b"e", b"f", b"g"]
        (pulled,) = (await pull_at(broker, 2, log_epoch)).queues
        assert read_bodies(pulled) == [b"c", b"d", b"e", b"f", b"g"]
        assert pulled.log_epoch not in {0, log_epoch}
        assert (await state_of(broker)).statistics.set_back_offset_count == 3
    async with running() as broker:
        # A stop in order loses nothing.
        assert len((await pull_at(broker, 7, pulled.log_epoch)).queues) == 1
        (later,) = (await pull_at(broker, 6, pulled.log_epoch)).queues
        assert read_bodies(later) == [b"g"]
        (later,) = (await pull_at(broker, 4, log_epoch)).queues
        assert reason_of(later.error) == "QUEUE_CUT"


async def test_an_offset_whose_messages_are_lost_is_not_stored(after_loss, reason_of):
    async with after_loss() as (broker, log_epoch):
        for offset, reasons in ((4, ["QUEUE_CUT"]), (2, [])):
            wanted = offset_pb.QueueConsumerOffset(
                topic="orders", queue_offset=offset, log_epoch=log_epoch
            )
            request = offset_pb.StoreConsumerOffsetsRequest(
                consumer_group="group", offsets=[wanted]
            )
            refused = (await broker.offsets.StoreConsumerOffsets(request)).refused
            assert [reason_of(entry.error) for entry in refused] == reasons
        assert await broker.known_offset("group", "orders") == 2


async def test_a_range_whose_messages_are_lost_is_refused(after_loss, refused):
    async def read(broker, **fields):
        request = pull_pb.PullRangeRequest(topic="orders", **fields)
        return [chunk async for chunk in broker.pulls.PullRange(request)]

    async with after_loss() as (broker, log_epoch):
        wanted = {"begin_queue_offset": 1, "log_epoch": log_epoch}
        assert (await refused(read(broker, end_queue_offset=4, **wanted))).reason == "QUEUE_CUT"
        assert len(await read(broker, end_queue_offset=2, **wanted)) == 1


async def test_a_lost_file_of_epochs_is_told_and_believes_nobody(after_loss, running, config):
    async with after_loss() as (broker, _):
        (pulled,) = (await pull_at(broker, 2, 0)).queues
    for path in config.glob("logEpochs.json*"):
        path.write_text("{")
    async with running() as broker:
        (finding,) = (await state_of(broker)).recovery_findings
        assert "logEpochs.json was damaged" in finding
        (later,) = (await pull_at(broker, 2, pulled.log_epoch)).queues
        assert "ends at 0" in later.error.message
