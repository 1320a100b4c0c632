"""Calls that their callers take back, counted: many of them are an attack, or a client gone wrong.

A call costs the caller next to nothing that cancels it at once, and the service all that it costs
to begin it. gRPC says nothing of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ariane_servicekit.observability.logs import get_logger

WINDOW_S: Final = 10.0
TOLD_FROM: Final = 1000
"""So many in one window by one connection are told: a line of the log for each window."""

CONNECTIONS_MAX: Final = 10_000

_log = get_logger(__name__)


class Cancellations:
    """Those of the present window, by connection.

    Attributes:
        count: All since the start of the service.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Have none.

        Args:
            monotonic: Seconds that never go back.
        """
        self.count = 0
        self._monotonic = monotonic
        self._window_end_s = 0.0
        self._of_connection: dict[str, int] = {}

    def add(self, peer: str, method: str) -> None:
        """Count one.

        Args:
            peer: The caller's connection.
            method: What it had called.
        """
        self.count += 1
        now_s = self._monotonic()
        if now_s >= self._window_end_s or len(self._of_connection) >= CONNECTIONS_MAX:
            self._window_end_s = now_s + WINDOW_S
            self._of_connection.clear()
        count = self._of_connection[peer] = self._of_connection.get(peer, 0) + 1
        # At 1,000, 10,000 and so on, so that the line says how bad it is.
        if count >= TOLD_FROM and str(count).strip("0") == "1":
            _log.warning(
                "calls_cancelled_in_bulk",
                peer=peer,
                method=method,
                cancelled_count=count,
                window_s=WINDOW_S,
                cancelled_in_all=self.count,
            )
