"""What happens to a broker's files while it is down, or to its disk while it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from ariane_sdk import Message, Producer
from ariane_servicekit.running.broker_groups import broker_groups
from ariane_servicekit.running.processes import LocalCluster

DAMAGED_BYTES: Final = 1 << 13
FOREIGN_MESSAGES: Final = 200
_FILLING: Final = "filling"


async def make_foreign_store(folder: Path, name: str, flags: tuple[str, ...]) -> Path:
    """A store of a broker of that name, of a set that has nothing to do with ours."""
    cluster = LocalCluster(folder, replicas=1, extra_broker_args=flags)
    async with cluster:
        [group] = broker_groups(cluster)
        await group.wait_in_sync()
        async with Producer(cluster.name_servers) as producer:
            bodies = (b"foreign %d" % number for number in range(FOREIGN_MESSAGES))
            await producer.send_batch([Message("s0", body) for body in bodies])
    return folder / f"{name}-1"


def lose_file(store: Path, which: int) -> None:
    """Remove a segment: the oldest, or one behind it."""
    paths = _written(store)
    if paths:
        paths[min(which, len(paths) - 1)].unlink()
        _sync(store)


def damage(store: Path, which: int) -> None:
    """Write zeros into a segment: the oldest, or the newest."""
    paths = _written(store)
    if paths:
        with paths[-which].open("r+b") as file:
            file.seek(1000)
            file.write(bytes(DAMAGED_BYTES))
        _sync(store)


def exchange(store: Path, other: Path, away: Path) -> None:
    """Put the content of another store into a store's folder, and its own away."""
    away.mkdir(parents=True)
    for child in list(store.iterdir()):
        shutil.move(child, away / child.name)
    shutil.copytree(other, store, dirs_exist_ok=True)
    _sync(store)


def bring_back(store: Path, away: Path) -> None:
    """Undo ``exchange``."""
    for child in list(store.iterdir()):
        shutil.rmtree(child) if child.is_dir() else child.unlink()
    for child in list(away.iterdir()):
        shutil.move(child, store / child.name)
    away.rmdir()
    _sync(store)


def back_up(store: Path, backup: Path) -> None:
    """Copy the store of a broker that is down, in place of an earlier copy."""
    if backup.exists():
        shutil.rmtree(backup)
    shutil.copytree(store, backup)


def put_back(store: Path, backup: Path, away: Path) -> None:
    """Put an earlier copy in a store's place; what was there becomes the copy."""
    exchange(store, backup, away)
    back_up(away, backup)
    shutil.rmtree(away)


def fill(disk: Path) -> None:
    """Use up all of a disk that is mounted there."""
    with (disk / _FILLING).open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free)


def empty(disk: Path) -> None:
    """Undo ``fill``."""
    (disk / _FILLING).unlink()


def _sync(disk: Path) -> None:
    """A loss of power that comes later takes nothing of this back."""
    subprocess.run(("sync", "-f", str(disk)), check=True)


def _written(store: Path) -> list[Path]:
    """Segments that hold something, oldest first."""
    paths = sorted(path for path in (store / "commitlog").iterdir() if path.name.isdigit())
    return [path for path in paths if path.open("rb").read(8) != bytes(8)]
