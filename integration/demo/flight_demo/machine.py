"""What the demo needs of the machine, asked before anything is started."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from flight_demo.errors import JavaMissing, NoRoom

ROOM_BYTES_MIN = 2 << 30
"""Free space that a year needs at most: three segments a broker, derived files, Spark's."""


def check_machine(folder: Path) -> None:
    """Return if the demo can run with its files in `folder`.

    Raises:
        NoRoom: There is not enough space.
        JavaMissing: Spark would not start.
    """
    free = shutil.disk_usage(folder).free
    if free < ROOM_BYTES_MIN:
        raise NoRoom(
            f"{folder.parent} has {free >> 20:,} MiB free and {ROOM_BYTES_MIN >> 20:,} are needed:"
            " name another folder in TMPDIR"
        )
    java_home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{java_home}/bin" if java_home else None) is None:
        raise JavaMissing("Spark needs Java 17: install it, or say in JAVA_HOME where it is")
