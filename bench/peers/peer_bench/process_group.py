"""The end of a child that leads a process group, and of whoever it started."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress


def end_group(process: subprocess.Popen[str] | subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until a process that was asked to end does so; kill what is left of its group then.

    Args:
        process: Leads a group of its own.
        seconds: How long it may take before it is killed as well.
    """
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    finally:
        # Servers that are scripts, and clients with another end, have children.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
