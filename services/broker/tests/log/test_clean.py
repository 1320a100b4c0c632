"""Old segments are deleted because an operator asks."""

import asyncio
import time

from ariane.broker.v1 import broker_service_pb2 as broker_pb

OLD_AT_ONCE = {
    "segment_bytes": 1 << 20,
    "message_bytes_max": 1 << 19,
    "retention_hours": 1e-9,
    "delete_at_hour": (time.localtime().tm_hour + 12) % 24,
    "disk_clean_ratio": 0.998,
    "disk_force_ratio": 0.999,
    "disk_refuse_ratio": 1.0,
}


async def test_what_would_go_is_told_and_then_goes(running, tmp_path):
    async with running(**OLD_AT_ONCE) as broker:
        await broker.create_topic("orders")
        for number in range(6):
            await broker.append(broker.batch("orders", [b"%d" % number * 400_000]))
    # What follows from the log is saved, so that all of it may go.
    async with running(**OLD_AT_ONCE) as broker:
        files = tmp_path / "store" / "commitlog"
        before = sorted(files.iterdir())
        told = await broker.broker.CleanBroker(broker_pb.CleanBrokerRequest(validate_only=True))
        assert (told.segment_count, told.byte_count, told.message_count) == (2, 2 << 20, 4)
        assert all(path.exists() for path in before)
        assert await broker.bodies("orders")

        done = await broker.broker.CleanBroker(broker_pb.CleanBrokerRequest())
        assert done == told
        state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
        assert state.store.min_commit_log_offset == done.min_commit_log_offset == 2 << 20
        assert len(await broker.bodies("orders", 0, 4)) == 2
        async with asyncio.timeout(20):
            while before[0].exists() or before[1].exists():  # noqa: ASYNC110 - of the disk
                await asyncio.sleep(0.01)
        nothing = await broker.broker.CleanBroker(broker_pb.CleanBrokerRequest())
        assert (nothing.segment_count, nothing.min_commit_log_offset) == (0, 2 << 20)
