"""A child that leads a process group, and its end, with whoever it started."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import Final

_WATCHING: Final = 'read -r line || kill -s KILL -- "-$1"'
"""What ends a group when this process is gone: nothing is ever written, and then the pipe ends."""


class ProcessGroup:
    """A group that ends with this process, also when this process is killed.

    Args:
        process: Leads a group of its own.
    """

    def __init__(self, process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
        self._process = process
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHING, "watch", str(process.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def end(self, seconds: float) -> None:
        """Wait until a leader that was asked to end does so; kill what is left of its group then.

        Args:
            seconds: How long it may take before it is killed as well.
        """
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
        finally:
            # Servers that are scripts, and clients with another end, have children.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            # Before the number is another's.
            self._watcher.kill()
            self._watcher.communicate()
