"""Replicas whose stores are not what the set relies on: of another set, older, cut or damaged."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack

import pytest
from replica_group import in_sync, state_of

from ariane_sdk import Message, Producer, QueueReader
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

QUICK = ("--primary-lease-s", "2.5", "--replica-behind-s-max", "2")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def send(cluster, name, count):
    """Messages with bodies of one name, all acknowledged."""
    async with Producer(cluster.name_servers) as producer:
        bodies = (b"%s %d" % (name.encode(), number) for number in range(count))
        await producer.send_batch([Message("orders", body) for body in bodies])


async def bodies_in(cluster):
    found = []
    async with QueueReader(cluster.name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds("orders")).items():
            async for columns in reader.read_range(queue, begin, end):
                found += [bytes(columns.message(row).body) for row in range(len(columns))]
    return found


async def troubled(process, words):
    """Wait until a broker says why it does not follow."""
    async with asyncio.timeout(60):
        while words not in (await state_of(process)).trouble:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)


async def back_in_sync(process, broker_id):
    """Wait until a replica follows and is in sync by the row; the primary may not know yet.

    Before it follows it may have read a row that it has not left yet.
    """
    async with asyncio.timeout(60):
        while True:
            state = await state_of(process)
            if not state.trouble and broker_id in state.replica_set.in_sync_broker_ids:
                return
            await asyncio.sleep(0.1)


async def test_a_replica_with_a_store_of_another_set_takes_no_part(tmp_path):
    async with AsyncExitStack() as stack:
        ours, theirs = [
            await stack.enter_async_context(
                LocalCluster(tmp_path / name, replicas=1, extra_broker_args=(*SMALL_STORE, *QUICK))
            )
            for name in ("ours", "theirs")
        ]
        for cluster, count in ((ours, 50), (theirs, 200)):
            await in_sync(cluster.brokers[0], 0, 1)
            await send(cluster, cluster.data_path.name, count)
        [first], [second] = ours.brokers, ours.replicas
        await second.stop()
        await theirs.replicas[0].stop()
        shutil.rmtree(tmp_path / "ours" / second.name)
        store = tmp_path / "ours" / second.name
        shutil.copytree(tmp_path / "theirs" / second.name, store)
        await second.start()
        await troubled(second, "belongs to the replica set")
        await in_sync(first, 0)
        await send(ours, "ours, later,", 50)
        first.kill()
        await first.wait()
        await second.restart()  # With nobody to ask, it is not elected either.
        await troubled(second, "belongs to the replica set")
        await first.start()
        await in_sync(first, 0)
        found = await bodies_in(ours)
        assert len(found) == 100
        assert all(body.startswith(b"ours") for body in found)
        await second.stop()
        shutil.rmtree(store)
        await second.start()
        await in_sync(first, 0, 1)


SMALL_SEGMENTS = ("--segment-bytes", str(1 << 20), "--message-bytes-max", str(1 << 16))
# However little of the machine's disk is in use, it is more.
FULL_DISK = ("--disk-clean-ratio", "0.0001", "--disk-force-ratio", "0.0001")


async def test_a_replica_whose_disk_is_full_leaves_the_set_and_deletes_nothing(local_cluster):
    async with local_cluster(*QUICK, *SMALL_SEGMENTS, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        for number in range(4):
            await send(cluster, f"{number}:" + "x" * 2000, 500)
        end = (await in_sync(first, 0, 1)).max_commit_log_offset
        roomy = second.arguments
        second.arguments = (*roomy, *FULL_DISK)
        await second.restart()
        await troubled(second, "deletes nothing that the primary keeps")
        await in_sync(first, 0)
        state = await state_of(second)
        assert state.min_commit_log_offset == 0 < 3 << 20 < end
        assert state.max_commit_log_offset == end
        await send(cluster, "later", 10)
        second.arguments = roomy
        await second.restart()
        await in_sync(first, 0, 1)
        first.kill()
        await first.wait()
        await in_sync(second, 1)
        assert len(await bodies_in(cluster)) == 2010


async def filled(cluster):
    """Send some segments full; the end of the log."""
    for number in range(5):
        await send(cluster, f"{number}:" + "x" * 2000, 500)
    return (await in_sync(cluster.brokers[0], 0, 1)).max_commit_log_offset


def segments_of(tmp_path, process):
    return sorted((tmp_path / process.name / "commitlog").iterdir())


def halve_the_last(paths):
    [*_, last] = [path for path in paths if any(path.read_bytes()[:64])]
    with last.open("r+b") as file:
        file.truncate(last.stat().st_size // 4)


def remove_the_first(paths):
    paths[0].unlink()


def remove_one_in_the_middle(paths):
    paths[1].unlink()


def write_zeros(paths):
    with paths[1].open("r+b") as file:
        file.seek(200_000)
        file.write(bytes(1 << 16))


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize(
    "harm", [halve_the_last, remove_the_first, remove_one_in_the_middle, write_zeros]
)
async def test_a_replica_fetches_records_it_lost_while_down_before_it_is_in_sync(
    local_cluster, tmp_path, harm, is_killed
):
    async with local_cluster(*QUICK, *SMALL_SEGMENTS, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        end = await filled(cluster)
        if is_killed:
            second.kill()
            await second.wait()
        else:
            await second.stop()
        harm(segments_of(tmp_path, second))
        await second.start()
        await back_in_sync(second, 1)
        first.kill()
        await first.wait()
        state = await in_sync(second, 1)
        assert (state.min_commit_log_offset, state.max_commit_log_offset) == (0, end)
        assert len(set(await bodies_in(cluster))) == 2500


async def test_a_bit_that_was_turned_in_old_bytes_is_found_and_mended(
    local_cluster, tmp_path, until
):
    """Nothing else reads them: the replica was in sync, and would have been elected so."""
    async with local_cluster(*QUICK, *SMALL_SEGMENTS, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        await filled(cluster)
        await second.stop()
        with segments_of(tmp_path, second)[0].open("r+b") as file:
            file.seek(200_000)
            [byte] = file.read(1)
            file.seek(200_000)
            file.write(bytes([byte ^ 4]))
        await second.start()

        async def mended():
            return "log_mended" in second.log_path.read_text()

        await until(mended)
        await back_in_sync(second, 1)
        first.kill()
        await first.wait()
        await in_sync(second, 1)
        assert len(set(await bodies_in(cluster))) == 2500


async def test_an_older_store_is_out_of_sync_until_it_has_caught_up(local_cluster, tmp_path):
    """Also if nobody had time to write into the row what its set has confirmed since."""
    # The lease is renewed every 2 s, and sending takes less.
    slow = ("--primary-lease-s", "10", "--replica-behind-s-max", "8")
    async with local_cluster(*slow, *SMALL_SEGMENTS, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        await send(cluster, "before", 10)
        await second.stop()
        shutil.copytree(tmp_path / second.name, tmp_path / "older")
        await second.start()
        await in_sync(first, 0, 1)
        known = (await state_of(first)).replica_set.version
        while (await state_of(first)).replica_set.version == known:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await send(cluster, "x" * 2000, 500)
        second.kill()
        first.kill()
        await asyncio.gather(first.wait(), second.wait())
        shutil.rmtree(tmp_path / second.name)
        shutil.move(tmp_path / "older", tmp_path / second.name)
        second.ready_s_max = 30
        starting = asyncio.create_task(second.start())
        await asyncio.sleep(12)  # More than a lease: it could be elected.
        await first.start()
        await starting
        await in_sync(first, 0, 1)
        assert len(set(await bodies_in(cluster))) == 510


async def test_a_damaged_primary_is_mended_from_its_replica(local_cluster, tmp_path):
    async with local_cluster(*QUICK, *SMALL_SEGMENTS, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        await filled(cluster)
        await second.stop()
        await in_sync(first, 0)
        await first.stop()
        write_zeros(segments_of(tmp_path, first))
        await first.start()  # Alone in sync, it has to be primary all the same.
        await in_sync(first, 0)
        assert len(await bodies_in(cluster)) < 2500
        await second.start()
        await in_sync(second, 0, 1)
        assert len(set(await bodies_in(cluster))) == 2500
        second.kill()
        await second.wait()
        await in_sync(first, 0)
        assert len(set(await bodies_in(cluster))) == 2500
