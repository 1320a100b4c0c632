"""The wait before a client tries to reach a broker again.

A broker that restarts is away for a second or two, on a busy machine for ten. Waits that double
would overshoot by as much again. Here a wait is a tenth of a second and a quarter of the time for
which the broker has been away.
"""

from __future__ import annotations

from typing import Final

from ariane_sdk.net.backoff import backoff_s

GROWTH: Final = 1.25
"""Each wait is so much longer than the one before."""


RECONNECT_DELAY_S_MIN: Final = 0.1
"""The wait after the first failure."""

RECONNECT_DELAY_S_MAX: Final = 2.0
"""No wait is longer."""


def reconnect_delay_s(failure_count: int) -> float:
    """How long to wait, in seconds.

    Args:
        failure_count: Failed tries since the broker was last reached.
    """
    return backoff_s(failure_count, RECONNECT_DELAY_S_MIN, RECONNECT_DELAY_S_MAX, growth=GROWTH)
