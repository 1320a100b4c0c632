"""Exit statuses, by which a script distinguishes outcomes without parsing text."""

from __future__ import annotations

import enum


class ExitStatus(enum.IntEnum):
    """How a command ends. Statuses are only ever added."""

    DONE = 0
    """It did what was asked."""

    FAILED = 1
    """It did not, and none of the following says why."""

    USAGE = 2
    """The command line is wrong; nothing was tried."""

    UNREACHABLE = 3
    """No name server or broker answered, or none in time; or one did not, and what is shown is
    without it. The same may succeed later."""

    NOT_FOUND = 4
    """The topic, queue, group or message does not exist."""

    REFUSED = 5
    """It exists, but this caller or this moment does not allow it."""

    OUTCOME_UNKNOWN = 6
    """It may have happened: look before you repeat it."""

    INTERRUPTED = 130
    """Ctrl-C."""
