"""Programs of others, in Go: built once, from modules by version, into `.cache/go-programs`."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache" / "go-programs"
MODULES = {
    "h2spec": "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible",
    "interop-client": "google.golang.org/grpc/interop/client@v1.85.0",
    "interop-server": "google.golang.org/grpc/interop/server@v1.85.0",
    "grpcurl": "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4",
}
BUILD_S_MAX = 280


def go_program(name: str) -> Path:
    """The path of a program, built if it is missing; the test is skipped where it cannot be."""
    module = MODULES[name]
    folder = CACHE / module.replace("/", "_")
    program = folder / name
    if program.exists():
        return program
    if shutil.which("go") is None:
        pytest.skip(f"{name} is built by Go, which is not on this machine")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-buildvcs=false"}
            done = subprocess.run(
                ("go", "install", module),
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=BUILD_S_MAX,
            )
            if done.returncode:
                pytest.skip(f"{module} could not be had: {done.stderr.strip()[-300:]}")
            (folder / module.partition("@")[0].rpartition("/")[2]).rename(program)
    return program
