"""Decides from the shared row and a clock whether a replica may stand for election now."""

from __future__ import annotations

from typing import Final

from ariane_broker.replication.replica_set import ReplicaSet

PATIENCE: Final = 1.05
"""Leases of silence after which a primary counts as gone: clocks may differ in speed by 5 %."""

HEAD_START: Final = 0.5
"""Leases for which a better broker may have itself elected first."""


class Candidacy:
    """Measures how long the primary has been silent."""

    def __init__(self, broker_id: int, *, lease_s: float) -> None:
        self._broker_id = broker_id
        self._lease_s = lease_s
        self._sign: tuple[int, int, int | None] | None = None
        self._since_s = 0.0

    def saw(self, replica_set: ReplicaSet, now_s: float) -> None:
        """Note a state of the row.

        Args:
            replica_set: The row.
            now_s: The monotonic clock, after it was read.
        """
        # A primary may have been started with another lease than this broker.
        self._lease_s = replica_set.lease_s or self._lease_s
        sign = (replica_set.epoch, replica_set.renewals, replica_set.primary_id)
        if sign != self._sign:
            self._sign, self._since_s = sign, now_s

    def is_silent(self, now_s: float, leases: float = 1) -> bool:
        """Whether the primary did not renew its lease for as long as ``leases`` leases last."""
        return now_s - self._since_s >= self._lease_s * PATIENCE * leases

    def may_stand(self, replica_set: ReplicaSet, now_s: float) -> bool:
        """Whether the broker may have itself elected now.

        At once if there is no primary, or if this broker is the primary: its earlier process has
        ended. Else once the primary was silent for longer than its lease. If another broker is
        wanted, this one waits for as long again: the wanted one may have died, too. It leaves half
        as long to one that is better where the primary has died (``ReplicaSet.has_better``).
        """
        me = self._broker_id
        if not replica_set.may_elect(me):
            return False
        others_lease = replica_set.primary_id not in {None, me}
        others_turn = replica_set.wanted_id not in {None, me}
        better = HEAD_START * (others_lease and replica_set.has_better(me))
        return self.is_silent(now_s, others_lease + others_turn + better)
