"""Python clients of the peers, in an environment of their own below ``.cache``, made once."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

from peer_bench.errors import PeerUnavailable
from peer_bench.places import CACHE_PATH, DRIVERS_PATH

MAKE_S_MAX: Final = 600
_VENV_PATH: Final = CACHE_PATH / "venv"
_REQUIREMENTS: Final = DRIVERS_PATH / "requirements.txt"


def client_python() -> str:
    """The Python that has all clients.

    Raises:
        PeerUnavailable: They cannot be had.
    """
    python = _VENV_PATH / "bin" / "python"
    marker = _VENV_PATH / "made"
    if not marker.exists() or marker.stat().st_mtime < _REQUIREMENTS.stat().st_mtime:
        _VENV_PATH.parent.mkdir(parents=True, exist_ok=True)
        quiet = ["--quiet", "--disable-pip-version-check"]
        _run([sys.executable, "-m", "venv", "--clear", str(_VENV_PATH)])
        _run([str(python), "-m", "pip", *quiet, "install", "-r", str(_REQUIREMENTS)])
        marker.touch()
    return str(python)


def client_versions(*names: str) -> dict[str, str]:
    """Versions of clients, as they are installed."""
    code = "import json, sys; from importlib.metadata import version;"
    code += "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    versions: dict[str, str] = json.loads(_run([client_python(), "-c", code, *names]))
    return versions


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, timeout=MAKE_S_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise PeerUnavailable(f"{command[0]} took longer than {MAKE_S_MAX} s") from error
    if done.returncode != 0:
        raise PeerUnavailable(f"Python clients cannot be had: {done.stderr.decode()[-500:]}")
    return done.stdout.decode()
