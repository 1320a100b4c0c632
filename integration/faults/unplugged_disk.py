"""A disk whose plug can be pulled: ext4 in a loop-mounted image, shut down without its journal.

Killing a process does not test durability: its dirty pages survive in the kernel. The shutdown call
of ext4 drops everything that was not synced, as a power failure does, and costs 40 ms a cycle.
Source: ``EXT4_IOC_SHUTDOWN`` in the kernel, flag 2 (``EXT4_GOING_FLAGS_NOLOGFLUSH``).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

SHUTDOWN: Final = 0x8004587D
DROP_EVERYTHING_UNSYNCED: Final = 2


def why_not() -> str:
    """Why this machine cannot mount such a disk; empty when it can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    missing = [
        tool for tool in ("mkfs.ext4", "mount", "umount", "losetup") if not shutil.which(tool)
    ]
    return f"missing: {', '.join(missing)}" if missing else ""


class UnpluggedDisk:
    """An ext4 image and the folder it is mounted at."""

    def __init__(
        self, folder: Path, *, megabytes: int = 64, mount_point: Path | None = None
    ) -> None:
        self.image = folder / "disk.img"
        self.mount_point = mount_point or folder / "mounted"
        folder.mkdir(parents=True, exist_ok=True)
        self.mount_point.mkdir(parents=True)
        with self.image.open("wb") as image:
            image.truncate(megabytes << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(self.image)], check=True)

    def plug_in(self) -> None:
        """Mount the disk; ext4 replays its journal."""
        # A loop device of its own each time: somebody else's view of all mounts (a jail, a network
        # namespace) may keep the one before, and "mount -o loop" would take that, shut down, again.
        losetup = ["losetup", "--find", "--show", str(self.image)]
        made = subprocess.run(losetup, check=True, capture_output=True, text=True)
        device = made.stdout.strip()
        subprocess.run(["mount", device, str(self.mount_point)], check=True)
        # It goes when it is unmounted.
        subprocess.run(["losetup", "--detach", device], check=True)

    def pull_the_plug(self) -> None:
        """Lose everything that was not synced. From here on writes to the disk fail."""
        folder = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, SHUTDOWN, struct.pack("I", DROP_EVERYTHING_UNSYNCED))
        finally:
            os.close(folder)

    def unmount(self) -> None:
        """Take the disk away; nobody may have files open on it."""
        subprocess.run(["umount", str(self.mount_point)], check=True)
