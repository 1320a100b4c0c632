"""The wait before a failed try is repeated: longer each time, up to a bound."""

from __future__ import annotations

from typing import Final

RECONNECT_DELAY_S_MIN: Final = 0.1
"""The wait of a client after it has once failed to reach a broker."""

RECONNECT_DELAY_S_MAX: Final = 2.0
"""The longest wait."""

_FAILURES_MAX: Final = 100
"""After so many failures every bound is reached; a larger power would overflow."""


def backoff_s(failure_count: int, first_s: float, bound_s: float, *, growth: float = 2.0) -> float:
    """How long to wait, in seconds.

    Args:
        failure_count: Number of failures before the latest one.
        first_s: The wait after the first failure.
        bound_s: The longest wait.
        growth: The ratio of each wait to the one before.
    """
    return min(first_s * growth ** min(failure_count, _FAILURES_MAX), bound_s)


def reconnect_delay_s(failure_count: int) -> float:
    """How long a client waits before it tries to reach a broker again, in seconds.

    A broker that restarts is away for a second or two, on a busy machine for ten. Waits that double
    would overshoot by as much again. Here a wait is a tenth of a second and a quarter of the time
    for which the broker has been away.

    Args:
        failure_count: Failed tries since the broker was last reached, before the latest one.
    """
    return backoff_s(failure_count, RECONNECT_DELAY_S_MIN, RECONNECT_DELAY_S_MAX, growth=1.25)


class Backoff:
    """The waits of one loop of tries, each twice as long as the one before."""

    __slots__ = ("_bound_s", "_failure_count", "_first_s")

    def __init__(self, first_s: float, bound_s: float) -> None:
        self._first_s = first_s
        self._bound_s = bound_s
        self._failure_count = 0

    def next_s(self) -> float:
        """How long to wait after one more failure, in seconds."""
        delay_s = backoff_s(self._failure_count, self._first_s, self._bound_s)
        self._failure_count += 1
        return delay_s
