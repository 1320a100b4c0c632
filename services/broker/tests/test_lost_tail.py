"""The end of the log is lost, as with the power: what groups have done is known up to it only."""

import json

import pytest

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb


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
        assert "2 consumer offsets lay beyond the end" in finding
        assert "group group, topic orders, queue 0: 5 to 2" in finding
        # Who began before the loss does not undo it.
        wanted = offset_pb.QueueConsumerOffset(topic="orders", queue_offset=5, reset_epoch=0)
        request = offset_pb.StoreConsumerOffsetsRequest(consumer_group="group", offsets=[wanted])
        (refused,) = (await broker.offsets.StoreConsumerOffsets(request)).refused
        assert "set anew" in refused.error.message
    async with running() as broker:
        assert list((await state_of(broker)).recovery_findings) == []
        assert await broker.known_offset("group", "orders") == 2


async def test_nobody_has_died_of_messages_to_come(running, config):
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
async def test_what_is_saved_of_a_group_is_durable_in_the_log(running, config, durable):
    async with running(offset_save_s=3600, flush_interval_ms=60_000) as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"a", b"b"])
        store = (await state_of(broker)).store
        assert store.flushed_commit_log_offset < store.max_commit_log_offset
        await broker.store_offset("group", "orders", 0, 2, durable=durable)
        store = (await state_of(broker)).store
        flushed = store.flushed_commit_log_offset == store.max_commit_log_offset
        assert flushed is durable
        assert ("orders@group" in (config / "consumerOffset.json").read_text()) is durable
