"""A place in a message queue, and when it was learnt."""

from __future__ import annotations

from typing import NamedTuple


class QueuePosition(NamedTuple):
    """A queue offset, and the epoch of its broker's log that it was learnt in.

    A log that loses its end with the power uses queue offsets again. Its broker tells by the epoch
    whether what lay before this position is still there.

    Attributes:
        queue_offset: The next queue offset to be consumed.
        log_epoch: As the broker said; 0 if nobody knows, and then nothing is checked.
    """

    queue_offset: int
    log_epoch: int = 0
