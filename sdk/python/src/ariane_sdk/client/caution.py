"""The care of consumers in queues where members of their group died, and their reports."""

from __future__ import annotations

from typing import Final, NamedTuple


class Caution(NamedTuple):
    """A broker's advice for a queue in which members of the group died."""

    watched_end: int = 0
    """Before this queue offset messages in work are to be reported to the broker."""
    alone_end: int = 0
    """Before this queue offset one message at a time is to be in work, alone."""
    in_doubt: bool = False
    """Whether the next message may have killed a member: the queue is not to be taken over yet."""


NO_CAUTION: Final = Caution()


class InWork(NamedTuple):
    """The messages in work in a queue."""

    end: int
    """Queue offset behind the last of them."""
    alone: bool = False
    """Whether that is one message, and nothing else of any queue is in work."""
