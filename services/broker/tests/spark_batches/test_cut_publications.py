"""Publications of batches that are cut short, and go on with what the log shows."""

import asyncio

import pytest

from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane_broker.spark_batches.batch_publication import BatchPublication
from ariane_storage.errors import StoreFull
from services.broker.tests.spark_batches.test_batch_calls import (
    all_bodies,
    commit_call,
    stage,
    visible,
)


def cut_publications_short(monkeypatch, path, appends):
    """Let publications end after some appends, as if the process died there."""
    publish = BatchPublication._publish

    async def cut_short(self, publication):
        append, left = self._log.append, [appends]

        def dying(*arguments):
            if not left[0]:
                raise StoreFull(path, "the process died here")
            left[0] -= 1
            return append(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(self._log, "append", dying, raising=False)
            await publish(self, publication)

    monkeypatch.setattr(BatchPublication, "_publish", cut_short)


@pytest.mark.parametrize("snapshot", [True, False])
@pytest.mark.parametrize("appends", [0, 1, 3])
async def test_a_publication_that_was_cut_short_is_finished(
    running, tmp_path, monkeypatch, appends, snapshot
):
    publish = BatchPublication._publish
    async with running() as broker:
        await broker.create_topic("orders", 2)
        one = await stage(broker, [b"%d" % number for number in range(10)])
        two = await stage(broker, [b"%d" % number for number in range(10, 15)], partition=1)
        cut_publications_short(monkeypatch, tmp_path, appends)
        call = asyncio.ensure_future(commit_call(broker, one, two))
        async with asyncio.timeout(60):
            while sum(map(len, await visible(broker))) < (0, 5, 12)[min(appends, 2)]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        call.cancel()
    monkeypatch.setattr(BatchPublication, "_publish", publish)
    if not snapshot:
        for path in (tmp_path / "store" / "config").glob("batchTransactions.json*"):
            path.unlink()
    async with running() as broker:
        # Whoever asks again waits until all is visible.
        assert (await commit_call(broker, one, two)).duplicate
        assert await visible(broker) == [
            [b"%d" % number for number in (0, 2, 4, 6, 8, 10, 12, 14)],
            [b"%d" % number for number in (1, 3, 5, 7, 9, 11, 13)],
        ]


async def test_rows_staged_for_a_removed_queue_are_published_to_another(
    running, tmp_path, monkeypatch
):
    """Also where the process dies between its queues, and begins anew with what the log shows."""
    publish = BatchPublication._publish
    async with running() as broker:
        await broker.create_topic("orders", 3)
        attempt = await stage(broker, [b"0", b"1", b"2", b"3"], queue_ids=[0, 2, 0, 2])
        fewer = {"read_queue_count": 2, "write_queue_count": 2}
        await broker.topics.UpdateTopic(topic_pb.UpdateTopicRequest(topic="orders", **fewer))
        cut_publications_short(monkeypatch, tmp_path, 1)
        call = asyncio.ensure_future(commit_call(broker, attempt))
        async with asyncio.timeout(60):
            while not await broker.bodies("orders", 0):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        call.cancel()
    monkeypatch.setattr(BatchPublication, "_publish", publish)
    async with running() as broker:
        assert (await commit_call(broker, attempt)).duplicate
        assert await visible(broker) == [[b"0", b"2", b"1", b"3"], []]
        listed = await broker.topics.GetTopic(topic_pb.GetTopicRequest(topic="orders"))
        assert listed.topic.unread_message_count == 0


@pytest.mark.parametrize(("appends", "among"), [(1, 1), (2, 1), (3, 3), (2, 2)])
async def test_rows_published_to_another_queue_are_not_repeated_when_their_own_is_back(
    running, tmp_path, monkeypatch, appends, among
):
    publish = BatchPublication._publish

    async def resize(broker, count):
        counts = {"read_queue_count": count, "write_queue_count": count}
        await broker.topics.UpdateTopic(topic_pb.UpdateTopicRequest(topic="orders", **counts))

    async def found(broker, count):
        return [body for queue in range(count) for body in await all_bodies(broker, queue)]

    async with running() as broker:
        await broker.create_topic("orders", 8)
        queue_ids = [1, 3, 5, 1, 3, 5, 5]
        attempt = await stage(broker, [b"%d" % n for n in range(7)], queue_ids=queue_ids)
        await resize(broker, among)
        cut_publications_short(monkeypatch, tmp_path, appends)
        call = asyncio.ensure_future(commit_call(broker, attempt))
        async with asyncio.timeout(60):
            while len(await found(broker, among)) < (2, 4, 7)[appends - 1]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        call.cancel()
        await resize(broker, 8)
    monkeypatch.setattr(BatchPublication, "_publish", publish)
    async with running() as broker:
        assert (await commit_call(broker, attempt)).duplicate
        assert sorted(await found(broker, 8)) == [b"%d" % n for n in range(7)]
