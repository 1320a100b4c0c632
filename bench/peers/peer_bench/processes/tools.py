"""Programs that prepare something and end: compilers, and what makes a server's folder."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from peer_bench.errors import ToolFailed


def run_tool(what: str, command: Sequence[str], seconds: float) -> str:
    """Run one to its end; returns what it printed.

    Args:
        what: For errors, such as "compiling kafka".
        command: The program with its arguments.
        seconds: How long it may take.

    Raises:
        ToolFailed: It failed, is not there, or took longer.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ToolFailed(f"{what} took longer than {seconds:g} s") from error
    except OSError as error:
        raise ToolFailed(f"{what}: {command[0]} cannot be started: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-500:]
        raise ToolFailed(f"{what} ended with status {done.returncode}: {said}")
    return done.stdout
