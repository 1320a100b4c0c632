"""The name of a queue within one broker."""

from __future__ import annotations

from typing import NamedTuple


class QueueKey(NamedTuple):
    """One queue of this broker."""

    topic: str
    queue_id: int
