"""How long a client waits before it tries a broker again that it could not reach.

A broker that restarts is away for a second or two, on a busy machine for ten; whoever doubles his
waits comes back as much later again. Here a wait is a tenth of a second and a quarter of the time
for which the broker has been away.
"""

from __future__ import annotations

from typing import Final, Protocol

from ariane_sdk.net.backoff import backoff_s

GROWTH: Final = 1.25
"""Each wait is so much longer than the one before."""


class Reconnecting(Protocol):
    """How long to wait before a broker is tried again, in seconds."""

    @property
    def reconnect_delay_s_min(self) -> float:
        """After the first failure; it grows by a quarter each time."""
        ...

    @property
    def reconnect_delay_s_max(self) -> float:
        """Upper bound."""
        ...


def reconnect_delay_s(settings: Reconnecting, failure_count: int) -> float:
    """How long to wait.

    Args:
        settings: The bounds.
        failure_count: How often the broker was tried in vain before, since it was there.
    """
    return backoff_s(
        failure_count,
        settings.reconnect_delay_s_min,
        settings.reconnect_delay_s_max,
        growth=GROWTH,
    )
