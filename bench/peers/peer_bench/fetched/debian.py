"""Programs of Debian packages, unpacked below ``.cache`` and installed nowhere."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from peer_bench.errors import PeerUnavailable
from peer_bench.places import CACHE_PATH

FETCH_S_MAX: Final = 300


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """Fetch packages and unpack them side by side, once; returns the root of what they hold.

    Raises:
        PeerUnavailable: This is no Debian, or a package cannot be had.
    """
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise PeerUnavailable(f"{program} is not installed")
    root = CACHE_PATH / name
    marker = root / "unpacked"
    if not marker.exists():
        shutil.rmtree(root, ignore_errors=True)
        packages_path = root / "packages"
        packages_path.mkdir(parents=True)
        _run(["apt-get", "download", "-q", *packages], packages_path)
        for package in packages_path.glob("*.deb"):
            _run(["dpkg", "-x", str(package), str(root)], root)
        shutil.rmtree(packages_path)
        marker.touch()
    return root


def libraries_of(root: Path) -> dict[str, str]:
    """The environment in which unpacked programs find their libraries."""
    folders = [root / "usr/lib/x86_64-linux-gnu", root / "usr/lib/aarch64-linux-gnu"]
    return {"LD_LIBRARY_PATH": ":".join(map(str, folders))}


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=FETCH_S_MAX, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise PeerUnavailable(f"{command[0]} took longer than {FETCH_S_MAX} s") from error
    if done.returncode != 0:
        word = done.stderr.decode()[-500:]
        raise PeerUnavailable(f"{' '.join(command)} failed (apt-get update may help): {word}")
