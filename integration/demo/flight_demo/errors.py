"""What stops the demo, each with one line for people.

::

    DemoError
    +-- FlightsMissing      the package with the flights is not installed
    +-- NoRoom              the temporary folder is too full
    +-- JavaMissing         Spark needs it
    +-- ChildFailed         a process that the demo started ended too early
    +-- NoFailover          no replica took over from a primary that was killed
    +-- UploadFailed        a FilterServer takes no filter
    +-- GroupStalled        the consumer group receives nothing more, but not everything came
    +-- TotalsDiffer        a total does not hold
"""

from __future__ import annotations


class DemoError(Exception):
    """The demo cannot go on; the text is one line for people."""


class FlightsMissing(DemoError):
    """The package with the flights is not installed."""


class NoRoom(DemoError):
    """The temporary folder is too full."""


class JavaMissing(DemoError):
    """Spark needs it."""


class ChildFailed(DemoError):
    """A process that the demo started ended too early."""


class NoFailover(DemoError):
    """No replica took over from a primary that was killed."""


class UploadFailed(DemoError):
    """A FilterServer takes no filter."""


class GroupStalled(DemoError):
    """The consumer group receives nothing more, but not everything came."""


class TotalsDiffer(DemoError):
    """A total does not hold."""
