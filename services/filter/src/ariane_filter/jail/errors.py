"""What can go wrong with a filter.

::

    FilterError
    +-- JailUnavailable     this kernel cannot jail; says what is missing
    +-- FilterInvalid       a module that is no filter; says why
    +-- FilterFailed        it broke a limit, raised, or answered nonsense; nothing was passed
    +-- FilterQuarantined   it failed too often, and runs no more until it is released
"""

from __future__ import annotations


class FilterError(Exception):
    """Root of every error of the jail.

    Attributes:
        cause: What happened, one clause for people.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


class JailUnavailable(FilterError):
    """This machine's kernel cannot jail a worker, so no filter runs here."""


class FilterInvalid(FilterError):
    """A module that cannot be compiled, or lacks what it must offer."""


class FilterFailed(FilterError):
    """A filter broke a limit, raised or answered nonsense on a batch, of which nothing was passed.

    Attributes:
        blamed: Whether the filter is to blame; not when somebody else has ended its process.
    """

    def __init__(self, cause: str, *, blamed: bool = True) -> None:
        super().__init__(cause)
        self.blamed = blamed


class FilterQuarantined(FilterError):
    """A filter that failed too often; its cause is that of the last failure."""
