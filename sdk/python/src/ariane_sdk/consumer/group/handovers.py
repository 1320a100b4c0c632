"""How long a member waits before it takes over queues that other members may still consume.

A broker that has restarted, and one that has become primary, knows no members at first, and learns
of them one by one. Whoever is first would take itself for the only one, and consume the queues of
the others from offsets that they have not stored yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ariane_sdk.runtime.clock import Clock

REJOIN_S: Final = 5.0
"""How long other members may take to come back to a broker that was away. Most are back within a
second; of one that is not, messages come twice."""


class Handovers:
    """The waits of one member."""

    def __init__(
        self, handover_s: float, clock: Clock, *, is_attached: Callable[[str], bool]
    ) -> None:
        """``handover_s``: the wait while all brokers know the members.

        ``is_attached``: whether a broker, by its name, knows this member now.
        """
        self._handover_s = handover_s
        self._clock = clock
        self._is_attached = is_attached
        self._until_s: dict[str, float] = {}
        self._was_shared = False

    def accepted(self, broker_name: str, others_s: float) -> None:
        """A broker has let this member in: for the first time, or anew.

        Args:
            broker_name: The broker.
            others_s: How long others may take to come back to it, as it says. One that is no
                primary of a set says nothing of its restart.
        """
        if broker_name in self._until_s and self._was_shared:
            others_s = REJOIN_S
        self._until_s[broker_name] = self._clock.monotonic_s() + min(others_s, REJOIN_S)

    def wait_s(self, member_counts: Iterable[int]) -> float:
        """How long the earlier owners of queues may keep them while no broker was away.

        Args:
            member_counts: How many members share each topic, as brokers know now.
        """
        shared = any(count > 1 for count in member_counts)
        self._was_shared = self._was_shared or shared
        # A member that is alone begins at once: others that have left have stored their offsets.
        return self._handover_s if shared else 0.0

    def left_s(self, broker_name: str) -> float:
        """How long other members may still take to come back to a broker that was away."""
        until_s = self._until_s.get(broker_name)
        if until_s is None:
            return 0.0
        if self._was_shared and not self._is_attached(broker_name):
            return REJOIN_S  # It is away, and so are they.
        return max(0.0, until_s - self._clock.monotonic_s())
