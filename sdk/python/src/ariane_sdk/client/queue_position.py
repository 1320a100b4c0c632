"""A position in a message queue, and the epoch of its log."""

from __future__ import annotations

from typing import NamedTuple


class QueuePosition(NamedTuple):
    """A queue offset, and the epoch of its broker's log when it was read.

    A log that loses its end in a power failure uses queue offsets again. By the epoch its broker
    knows whether the messages before this position are still there.
    """

    queue_offset: int
    """The next queue offset to be consumed."""
    log_epoch: int = 0
    """The epoch; 0 if unknown, and then nothing is checked."""
