"""What consumers must beware of where members of their group died, and what they tell."""

from __future__ import annotations

from typing import Final, NamedTuple


class Caution(NamedTuple):
    """What a broker says of a queue in which members of the group died.

    Attributes:
        watched_end: Before this queue offset it is to be told what is in work.
        alone_end: Before this queue offset one message at a time is to be in work, alone.
        in_doubt: Whether a member may have died of the next message: not to be taken over yet.
    """

    watched_end: int = 0
    alone_end: int = 0
    in_doubt: bool = False


NO_CAUTION: Final = Caution()


class InWork(NamedTuple):
    """What is in work in a queue.

    Attributes:
        end: Behind the last message.
        alone: Whether that is one message, and nothing else of any queue is in work.
    """

    end: int
    alone: bool = False
