"""What others do to the folder of a store, and what a broker makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ariane_sdk import Message, Producer, QueueReader
from ariane_servicekit.running.processes import LocalCluster, ProcessFailed, ServiceProcess
from ariane_servicekit.security.caller import MemberKind

pytestmark = pytest.mark.slow

SEGMENT_BYTES = 1 << 20
SMALL_STORE = (
    *("--segment-bytes", str(SEGMENT_BYTES)),
    *("--message-bytes-max", str(1 << 16)),
    *("--consume-queue-entries", "1000"),
    *("--index-slots", "1000"),
    *("--index-items", "4000"),
)


def cluster_in(folder: Path, flush_mode: str = "async", brokers: int = 1) -> LocalCluster:
    return LocalCluster(
        folder, brokers=brokers, flush_mode=flush_mode, extra_broker_args=SMALL_STORE
    )


async def send(cluster: LocalCluster, topic: str, count: int, size: int = 100) -> list[bytes]:
    """Send numbered messages and wait for all acknowledgements; returns their bodies."""
    bodies = [b"%06d " % number + b"." * size for number in range(count)]
    async with Producer(cluster.name_servers) as producer:
        for first in range(0, count, 500):
            await producer.send_batch(
                [Message(topic, body) for body in bodies[first : first + 500]]
            )
    return bodies


def contents_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def read_all(cluster: LocalCluster, topic: str) -> list[bytes]:
    """Bodies of all messages of a topic, sorted."""
    bodies: list[bytes] = []
    async with QueueReader(cluster.name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds(topic)).items():
            async for columns in reader.read_range(queue, begin, end):
                bodies += columns.bodies()
    return sorted(bodies)


async def test_a_stray_file_in_the_commit_log_costs_no_message(tmp_path: Path) -> None:
    async with cluster_in(tmp_path) as cluster:
        (broker,) = cluster.brokers
        sent = await send(cluster, "orders", 1000, size=1000)
        await broker.stop()
        log = tmp_path / "broker-a" / "commitlog"
        next_start = int(max(path.name for path in log.iterdir())) + SEGMENT_BYTES
        stray = log / f"{next_start + 2 * SEGMENT_BYTES:020d}"
        stray.touch()
        await broker.start()
        sent += await send(cluster, "orders", 6000, size=1000)
        assert int(max(path.name for path in log.iterdir())[:20]) > int(stray.name)
        assert await read_all(cluster, "orders") == sorted(sent)
        broker.kill()
        await broker.wait()
        await broker.start()
        assert await read_all(cluster, "orders") == sorted(sent)
        assert stray.with_name(f"{stray.name}.foreign").exists()
        assert f"set aside as {stray.name}.foreign" in broker.log_path.read_text()


async def test_a_lost_page_costs_no_acknowledged_message_behind_it(tmp_path: Path) -> None:
    """Under synchronous flush, with the broker killed before it has written a checkpoint."""
    async with cluster_in(tmp_path, flush_mode="sync") as cluster:
        (broker,) = cluster.brokers
        first = await send(cluster, "orders", 10)
        await broker.restart()
        sent = first + await send(cluster, "payments", 100, size=400)
        broker.kill()
        await broker.wait()
        log = tmp_path / "broker-a" / "commitlog" / f"{0:020d}"
        content = log.read_bytes()
        begin = content.index(b"000090 " + b"." * 400) // 4096 * 4096
        with log.open("r+b") as file:
            file.seek(begin)
            file.write(bytes(4096))
        await broker.start()
        hit = [body for body in sent if touches(content, body, begin, begin + 4096)]
        assert 0 < len(hit) < 15
        kept = await read_all(cluster, "orders") + await read_all(cluster, "payments")
        assert sorted(kept) == sorted(set(sent) - set(hit))
        more = await send(cluster, "payments", 20, size=401)
        kept += more
        found = await read_all(cluster, "orders") + await read_all(cluster, "payments")
        assert sorted(found) == sorted(kept)


def touches(content: bytes, body: bytes, begin: int, end: int) -> bool:
    """Whether any byte of the record of a body lies in a range of its segment."""
    place = content.index(body)
    header = content.rindex(b"\xda\xa3\x20\xa7", 0, place) - 4
    size = int.from_bytes(content[header : header + 4], "big")
    return header < end and header + size > begin


async def test_a_broker_follows_no_link_out_of_its_store(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with cluster_in(tmp_path) as cluster:
        await send(cluster, "orders", 10)
        (broker,) = cluster.brokers
        await broker.stop()
        store = tmp_path / "broker-a"
        for place in ("commitlog/00000000000000000000", "consumequeue", "config/topics.json"):
            path, target = store / place, outside / Path(place).name
            path.rename(target)
            path.symlink_to(target)
            before = contents_of(outside)
            with pytest.raises(ProcessFailed, match="is a symbolic link") as refusal:
                await broker.start()
            assert refusal.value.exit_status == 2
            assert f"'{path}'" in str(refusal.value)
            assert "Traceback" not in str(refusal.value)
            assert contents_of(outside) == before
            path.unlink()
            target.rename(path)
        await broker.start()
        await send(cluster, "orders", 10)


async def test_a_store_without_its_lock_file_takes_no_second_broker(tmp_path: Path) -> None:
    async with cluster_in(tmp_path) as cluster:
        await send(cluster, "orders", 10)
        store = tmp_path / "broker-a"
        (store / "lock").unlink()
        flags = ("--store-path", str(store), "--broker-name", "broker-b", *SMALL_STORE)
        flags += cluster.shown(MemberKind.BROKER, "broker-b")
        second = ServiceProcess("broker-b", "ariane_broker", flags, tmp_path / "second.log")
        with pytest.raises(ProcessFailed, match="another process has this store open") as refusal:
            await second.start()
        assert refusal.value.exit_status == 2
        await send(cluster, "orders", 10)
