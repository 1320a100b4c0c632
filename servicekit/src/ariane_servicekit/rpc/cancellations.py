"""Counting cancelled calls: many of them mean an attack, or a faulty client.

A call that is cancelled at once costs its caller almost nothing, and the service the full cost of
beginning it. gRPC does not report such calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ariane_servicekit.observability.logs import get_logger

WINDOW_S: Final = 10.0
TOLD_FROM: Final = 1000
"""Cancellations by one connection in one window from which they are logged."""

CONNECTIONS_MAX: Final = 10_000

_log = get_logger(__name__)


class Cancellations:
    """The cancellations of the present window, by connection."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.count = 0
        """Their number since the start of the service."""
        self._monotonic = monotonic
        self._window_end_s = 0.0
        self._of_connection: dict[str, int] = {}

    def add(self, peer: str, method: str) -> None:
        """Count a cancellation.

        Args:
            peer: The caller's connection.
            method: The called method.
        """
        self.count += 1
        now_s = self._monotonic()
        if now_s >= self._window_end_s or len(self._of_connection) >= CONNECTIONS_MAX:
            self._window_end_s = now_s + WINDOW_S
            self._of_connection.clear()
        count = self._of_connection[peer] = self._of_connection.get(peer, 0) + 1
        # At 1,000, 10,000 and so on, so that the line has the order of magnitude.
        if count >= TOLD_FROM and str(count).strip("0") == "1":
            _log.warning(
                "calls_cancelled_in_bulk",
                peer=peer,
                method=method,
                cancelled_count=count,
                window_s=WINDOW_S,
                cancelled_in_all=self.count,
            )
