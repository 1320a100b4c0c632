"""How long a member waits before it takes over queues that other members may still consume.

A broker that has restarted, and one that has become primary, knows no members at first, and learns
of them one by one. Whoever is first would take itself for the only one, and consume the queues of
the others from offsets that they have not stored yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ariane_sdk.runtime.clock import Clock

REJOIN_S: Final = 5.0
"""How long other members may take to come back to a broker that was away. Most are back within a
second; of one that is not, messages come twice."""


class Handovers:
    """The waits of one member."""

    def __init__(self, handover_s: float, clock: Clock) -> None:
        """``handover_s``: the wait while all brokers know the members."""
        self._handover_s = handover_s
        self._clock = clock
        self._accepted: set[str] = set()
        self._rejoined_s: float | None = None
        self._was_shared = False

    def accepted(self, broker_name: str) -> None:
        """A broker has let this member in: for the first time, or anew."""
        if broker_name in self._accepted:
            self._rejoined_s = self._clock.monotonic_s()
        self._accepted.add(broker_name)

    def wait_s(self, member_counts: Iterable[int]) -> float:
        """How long the earlier owners of queues may keep them.

        Args:
            member_counts: How many members share each topic, as brokers know now.
        """
        shared = any(count > 1 for count in member_counts)
        self._was_shared = self._was_shared or shared
        # A member that is alone begins at once: others that have left have stored their offsets.
        return max(self._handover_s if shared else 0.0, self.left_s())

    def left_s(self) -> float:
        """How long other members may still take to come back to a broker that was away."""
        if self._rejoined_s is None or not self._was_shared:
            return 0.0
        return max(0.0, self._rejoined_s + REJOIN_S - self._clock.monotonic_s())
