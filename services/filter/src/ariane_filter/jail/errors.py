"""Errors of filters.

::

    FilterError
    +-- JailUnavailable     this kernel cannot jail; the text has what is missing
    +-- FilterInvalid       a module that is not a filter; the text has the reason
    +-- FilterFailed        it broke a limit, raised, or answered invalid data; no record passed
    +-- FilterQuarantined   it failed too often, and runs no more until it is released
"""

from __future__ import annotations


class FilterError(Exception):
    """Root of every error of the jail."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause
        """The cause, one clause for people."""


class JailUnavailable(FilterError):
    """This machine's kernel cannot jail a worker, so no filter runs here."""


class FilterInvalid(FilterError):
    """A module that cannot be compiled, or lacks a required function."""


class FilterFailed(FilterError):
    """A filter broke a limit, raised or answered invalid data on a batch; no record passed."""

    def __init__(self, cause: str, *, blamed: bool = True) -> None:
        super().__init__(cause)
        self.blamed = blamed
        """Whether the filter is at fault; False if its process was killed from outside."""


class FilterQuarantined(FilterError):
    """A filter that failed too often; its cause is that of the last failure."""
