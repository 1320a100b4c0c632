"""Brokers that lose power: each on a disk of its own, which drops whatever was not synced.

A machine without power says nothing any more. So the process is frozen first: what it answers, it
has answered before, and a sync that returns while the plug is being pulled acknowledges nothing::

    SIGSTOP, wait until it stands still     pull the plug     SIGKILL     mount again, start
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from unplugged_disk import UnpluggedDisk

from ariane_servicekit.running.processes import ServiceProcess

DISK_MEGABYTES: Final = 2048
"""The image is sparse: it takes what is written."""

BROKER_FLAGS: Final = (
    # Index files of the usual size would fill such a disk.
    *("--index-slots", "20000", "--index-items", "80000"),
    *("--disk-clean-ratio", "0.97", "--disk-force-ratio", "0.98", "--disk-refuse-ratio", "0.99"),
)

FREEZE_S_MAX: Final = 10.0


class BrokerDisks:
    """The disks of all brokers of a cluster, by their names."""

    def __init__(self, images: Path, stores: Iterable[Path]) -> None:
        """Have none yet.

        Args:
            images: Folder for what the disks consist of.
            stores: Where each broker has its store, a folder that is not there; its name is the
                broker's.
        """
        self._images = images
        self._stores = list(stores)
        self._disks: dict[str, UnpluggedDisk] = {}

    def plug_in(self) -> None:
        """Make and mount all disks."""
        for store in self._stores:
            image = self._images / store.name
            disk = UnpluggedDisk(image, megabytes=DISK_MEGABYTES, mount_point=store)
            disk.plug_in()
            self._disks[store.name] = disk
            # Of ext4, and nothing of a store.
            (store / "lost+found").rmdir()

    async def cut_power(self, broker: ServiceProcess) -> None:
        """End a broker as a power failure does; afterwards its disk is mounted again."""
        disk = self._disks[broker.name]
        await _freeze(broker.pid)
        await asyncio.to_thread(disk.pull_the_plug)
        broker.kill()
        await broker.wait()
        await asyncio.to_thread(disk.unmount)
        await asyncio.to_thread(disk.plug_in)

    def unmount(self) -> None:
        """Let nothing stay mounted, whatever state a failure has left."""
        for disk in self._disks.values():
            command = ["umount", "-l", str(disk.mount_point)]
            subprocess.run(command, check=False, capture_output=True)


async def _freeze(pid: int) -> None:
    """Stop a process, and wait until none of its threads runs; one may wait for the disk."""
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(FREEZE_S_MAX):
        while not _stands_still(pid):  # noqa: ASYNC110 - the kernel tells nobody.
            await asyncio.sleep(0.001)


def _stands_still(pid: int) -> bool:
    states = (
        (task / "stat").read_text().rpartition(")")[2].split()[0]
        for task in Path(f"/proc/{pid}/task").iterdir()
    )
    return all(state in "TtD" for state in states)
