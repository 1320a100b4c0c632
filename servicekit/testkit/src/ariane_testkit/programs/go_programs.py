"""Programs of others, in Go: built once, from a module by its version, into a cache folder.

For tests and measurements beside them; nothing of it is kept in the repository, and no service
needs it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

BUILD_S_MAX: Final = 280


class GoProgramUnavailable(Exception):
    """Go is not here, or a module cannot be had: tests skip with this text."""


def go_program(module: str, cache: Path, *, build_s_max: float = BUILD_S_MAX) -> Path:
    """Build a program if it is missing.

    Args:
        module: Its package at its version, as ``go install`` takes it.
        cache: Has a folder for each program.
        build_s_max: How long fetching and building may take.

    Returns:
        Its path.

    Raises:
        GoProgramUnavailable: It cannot be had.
    """
    folder = cache / module.replace("/", "_")
    program = folder / module.partition("@")[0].rpartition("/")[2]
    if program.exists():
        return program
    if shutil.which("go") is None:
        msg = f"{program.name} is built by Go, which is not on this machine"
        raise GoProgramUnavailable(msg)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        # Others may build it at the same time; Go moves a program to its place when it is whole.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _install(module, folder, build_s_max)
    return program


def _install(module: str, folder: Path, build_s_max: float) -> None:
    environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-buildvcs=false"}
    try:
        done = subprocess.run(  # noqa: S603 - modules of our own choice
            ("go", "install", module),  # noqa: S607 - the machine's Go
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=build_s_max,
        )
    except subprocess.TimeoutExpired as error:
        msg = f"building {module} took longer than {build_s_max:.0f} s; what is built is kept"
        raise GoProgramUnavailable(msg) from error
    if done.returncode != 0:
        msg = f"{module} could not be had: {done.stderr.strip()[-300:]}"
        raise GoProgramUnavailable(msg)
