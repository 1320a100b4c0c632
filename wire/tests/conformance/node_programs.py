"""Node's gRPC, `@grpc/grpc-js` from npm: had once, into `.cache/node-programs`."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from go_programs import ROOT

PACKAGES = ("@grpc/grpc-js@1.14.7", "@grpc/proto-loader@0.8.1")
CACHE = ROOT / ".cache" / "node-programs" / "-".join(each.rpartition("@")[2] for each in PACKAGES)
LOAD_S_MAX = 280
HERE = Path(__file__).parent


def node_program() -> tuple[tuple[str, ...], dict[str, str]]:
    """The command of ``node_interop.js`` and its environment; skipped where it cannot be had."""
    modules = CACHE / "node_modules"
    if not (CACHE / "done").exists():
        if shutil.which("node") is None or shutil.which("npm") is None:
            pytest.skip("Node is not on this machine")
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (CACHE / "done").exists():
                _load()
    proto = str(HERE / "interop.proto")
    return ("node", str(HERE / "node_interop.js"), proto), {**os.environ, "NODE_PATH": str(modules)}


def _load() -> None:
    command = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(CACHE), *PACKAGES)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LOAD_S_MAX)
    if done.returncode:
        pytest.skip(f"@grpc/grpc-js could not be had: {done.stderr.strip()[-300:]}")
    (CACHE / "done").touch()
