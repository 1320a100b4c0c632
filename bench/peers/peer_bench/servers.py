"""Servers of peers as child processes, on loopback, until a context ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from peer_bench.errors import PeerUnavailable
from peer_bench.processes.process_group import ProcessGroup

START_S_MAX: Final = 300.0
"""One that fails ends, and is noticed at once; one in Java on a machine at work takes minutes."""
STOP_S_MAX: Final = 30.0
_LOG_CHARACTERS_SHOWN: Final = 1500


def version_said(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """The first thing like a version in what a program says when it is asked for it.

    Raises:
        PeerUnavailable: It cannot be started, or says nothing of the kind.
    """
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=START_S_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerUnavailable(f"{command[0]} cannot be started: {error}") from error
    return version_in(done.stdout + done.stderr)


def version_in(out: str) -> str:
    """The first thing like a version in what a program said.

    Raises:
        PeerUnavailable: There is none.
    """
    found = re.search(r"\d+\.\d+(\.\d+)*", out)
    if found is None:
        raise PeerUnavailable(f"no version in what it said: {out[-500:]}")
    return found.group()


@contextmanager
def server(
    name: str,
    command: Sequence[str],
    *,
    port: int,
    home: Path,
    environment: Mapping[str, str] | None = None,
) -> Iterator[int]:
    """Run a server until the context ends; yields its process id when its port listens.

    Raises:
        PeerUnavailable: It cannot be started, ended, or did not listen in time.
    """
    home.mkdir(parents=True, exist_ok=True)
    log_path = home / f"{name}.log"
    with log_path.open("ab") as log:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=home,
                env={**os.environ, **(environment or {})},
                process_group=0,
            )
        except OSError as error:
            raise PeerUnavailable(f"{name} cannot be started: {error}") from error
    group = ProcessGroup(process)
    try:
        _wait_for_port(name, port, process, log_path)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        group.end(STOP_S_MAX)


def _wait_for_port(name: str, port: int, process: subprocess.Popen[bytes], log_path: Path) -> None:
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            word = f"ended with status {process.returncode}"
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    else:
        word = f"did not listen within {START_S_MAX:.0f} s"
    shown = log_path.read_text(errors="replace")[-_LOG_CHARACTERS_SHOWN:]
    raise PeerUnavailable(f"{name} {word}: {shown}")
