"""A disk of which nothing is in memory."""

from __future__ import annotations

import threading

from ariane_storage.testing import FaultyDisk


class SlowDisk(FaultyDisk):
    """A disk of which all is out of memory, and that a test makes wait."""

    def __init__(self):
        super().__init__()
        self.asked = threading.Event()
        """Set as soon as a read waits."""
        self.answers = threading.Event()
        """Set once it may go on."""
        self.loop_waits = 0
        """How often the thread of the test's loop had to wait."""
        self._loop_thread = threading.get_ident()

    def cool_all(self):
        for path in self.paths():
            if path.parent.name != "config":
                self.cool(path)
        self.await_medium = self._wait

    def _wait(self):
        self.asked.set()
        if threading.get_ident() == self._loop_thread:
            self.loop_waits += 1
        else:
            assert self.answers.wait(60)
