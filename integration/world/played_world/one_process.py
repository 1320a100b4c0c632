"""A process for one seed: what could differ between two of them is the same."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import IO, Final

from played_world import run
from played_world.fault import Fault

_PERSONALITY_ASKED: Final = 0xFFFFFFFF
_ADDR_NO_RANDOMIZE: Final = 0x0040000
_PROCESS_ID: Final = 4242


def freeze_addresses() -> None:
    """Begin again with memory at the addresses of every other run.

    Maps of protobuf are in the order of addresses. Does nothing where the system has no such thing.
    """
    libc = ctypes.CDLL(None)
    now = libc.personality(_PERSONALITY_ASKED)
    if now < 0 or now & _ADDR_NO_RANDOMIZE or libc.personality(now | _ADDR_NO_RANDOMIZE) < 0:
        return
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this program.


def play_apart(
    seed: int, plan_path: Path | None, trace_path: Path | None, scale: float
) -> tuple[int, IO[str]]:
    """Play a seed in a child of this process.

    Returns:
        Its process id, and where its verdict comes from, as JSON.
    """
    plan = None if plan_path is None else read_plan(plan_path)
    return play_plan_apart(seed, plan, trace_path, scale)


def play_plan_apart(
    seed: int, plan: list[Fault] | None, trace_path: Path | None, scale: float
) -> tuple[int, IO[str]]:
    """The same, with a plan at hand."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child:
        os.close(writing)
        return child, os.fdopen(reading)
    status = 1
    try:
        fix_process_id()
        with (trace_path or Path(os.devnull)).open("w") as trace:
            verdict = run.play(seed, plan, trace if trace_path is not None else None, scale)
        with os.fdopen(writing, "w") as file:
            file.write(json.dumps(asdict(verdict)))
        status = 0
    except BaseException:  # noqa: BLE001 - told, and ended below.
        traceback.print_exc()
    finally:
        # At once: what killed processes have left must not be cleared away.
        os._exit(status)


def fix_process_id() -> None:
    """Have the process id of every other run."""
    os.getpid = lambda: _PROCESS_ID


def read_plan(path: Path) -> list[Fault]:
    """The faults of a file that the command has written."""
    return [Fault(*row) for row in json.loads(path.read_text())["plan"]]
