"""How much of the log a start reads: what was written since the last save of derived states."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ariane_storage.disk.os_disk import OsOpenFile

BODIES = [b"x" * 1000] * 500
LOG_BYTES = 4 * len(BODIES) * 1000


class LogReads:
    """Counts the bytes that are read of segments."""

    def __init__(self, patch):
        self.count_bytes = 0
        read_at, gather = OsOpenFile.read_at, OsOpenFile.gather

        def counted_read(file, position, size):
            return self.counted(file, read_at(file, position, size))

        def counted_gather(file, positions, sizes):
            return self.counted(file, gather(file, positions, sizes))

        patch.setattr(OsOpenFile, "read_at", counted_read)
        patch.setattr(OsOpenFile, "gather", counted_gather)

    def counted(self, file, content):
        path = Path(f"/proc/self/fd/{file._descriptor}").readlink()
        if path.parent.name == "commitlog":
            self.count_bytes += len(content)
        return content


@pytest.fixture
def log_reads(monkeypatch):
    return LogReads(monkeypatch)


async def fill(broker):
    await broker.create_topic("orders", 2)
    for _ in range(4):
        await broker.store("orders", BODIES)


async def test_a_start_after_a_clean_stop_reads_none_of_the_log(running, log_reads):
    async with running() as broker:
        await fill(broker)
    # The states rest: no record concerns them. Once more, so that the log of another run counts.
    for _ in range(2):
        log_reads.count_bytes = 0
        async with running() as broker:
            assert log_reads.count_bytes < LOG_BYTES // 20
            assert len(await broker.bodies("orders", 0, 1999)) == 1


def saved_end(common):
    return json.loads(common.read_text())["commitLogOffset"]


async def test_after_a_kill_states_read_what_was_written_since_the_last_save(
    running, copy_store, tmp_path
):
    common = tmp_path / "store" / "config" / "logStates.json"
    async with running(producer_save_s=0.05) as broker:
        await fill(broker)
        end = (await broker.store("orders", BODIES[:1])).first_commit_log_offset
        async with asyncio.timeout(60):
            while saved_end(common) <= end:  # noqa: ASYNC110 - a disk tells nobody.
                await asyncio.sleep(0.01)
        copy_store()
    shutil.rmtree(tmp_path / "store")
    shutil.move(tmp_path / "copy", tmp_path / "store")
    with capture_logs() as lines:
        async with running() as broker:
            assert len(await broker.bodies("orders", 0, 2000)) == 1
    (restored,) = [line for line in lines if line["event"] == "log_states_restored"]
    assert min(restored["begin_commit_log_offsets"].values()) > end
