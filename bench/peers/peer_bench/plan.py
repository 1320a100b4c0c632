"""What is run in which order, and how long it will take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from peer_bench.peers import Part, Peer
from peer_bench.run import Extent
from peer_bench.workloads import WORKLOADS, Workload
from peer_bench.workloads.workload import SCHEDULE_WARM_UP_S

_JOIN_S: Final = 1.0
"""Seconds that a group takes to come together and to leave, about."""
_LASTING_S: Final = 20.0
"""Seconds that topics which last over all legs take at first, of both sides, about."""

_MEMORY_S: Final = 15.0
"""Seconds that it takes to have the machine's memory in use, about."""


@dataclass(frozen=True, slots=True)
class Bout:
    """One peer at one work."""

    peer: Peer
    workload: Workload

    @property
    def key(self) -> tuple[str, str]:
        """Tells it apart."""
        return self.peer.key, self.workload.key

    @property
    def part(self) -> Part:
        """What the peer does."""
        return self.peer.parts[self.workload.key]

    def expected_s(self, extent: Extent) -> float:
        """Seconds that it takes, about, on a machine that is quiet."""
        warm_up_s = min(self.peer.warm_up_s, extent.warm_up_s_max)
        ends_s = self.peer.start_s + warm_up_s + min(warm_up_s, self.peer.our_warm_up_s)
        load = self.workload.load
        if load.group:
            ends_s += _LASTING_S
        if load.rate:
            each_s = SCHEDULE_WARM_UP_S + extent.schedule_s + 2 * load.delay_ms / 1000 + _JOIN_S
            return ends_s + extent.pairs * 2 * each_s
        consumes = (len(self.part.consumed) or 1) * (1 if self.part.consume is None else 2)
        if self.workload.sustained:
            pairs = min(extent.pairs, extent.sustained_pairs_max)
            leg_s = extent.sustained_s
            return ends_s + _MEMORY_S + pairs * (3 * leg_s + consumes * (leg_s * 0.5 + _JOIN_S))
        # The slowest of all legs takes its time, the others less.
        leg_s = min(extent.leg_s, self.peer.leg_s_max) * 0.5
        return ends_s + extent.pairs * (2 * leg_s + consumes * (leg_s + _JOIN_S))


def bouts_of(
    peers: Iterable[Peer], *, quick: bool = False, only: Collection[str] = ()
) -> list[Bout]:
    """What is run: of all peers and works, or of those that are named."""
    peers = tuple(peers)
    peer_keys = {peer.key for peer in peers} & set(only)
    work_keys = {workload.key for workload in WORKLOADS} & set(only)
    return [
        Bout(peer, workload)
        for peer in peers
        for workload in WORKLOADS
        if workload.key in peer.parts
        and (peer.parts[workload.key].quick or not quick)
        and (peer.key in peer_keys or not peer_keys)
        and (workload.key in work_keys or not work_keys)
    ]


class Forecast:
    """How long what is left will take, by what was expected and what came of it so far.

    Args:
        bouts: All that is run.
        extent: How much of each.
        runs: What is kept of earlier runs: what a bout took then is expected again.
    """

    def __init__(
        self, bouts: Iterable[Bout], extent: Extent, runs: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._left = {
            bout.key: self._known(runs, bout, extent) or bout.expected_s(extent) for bout in bouts
        }
        self._expected_s = 0.0
        self._taken_s = 0.0

    def took(self, bout: Bout, seconds: float) -> None:
        """A bout was run."""
        self._expected_s += self._left.pop(bout.key)
        self._taken_s += seconds

    def drop(self, peer: Peer) -> None:
        """Nothing of this peer is run any more."""
        self._left = {key: s for key, s in self._left.items() if key[0] != peer.key}

    @property
    def left_s(self) -> float:
        """Seconds that all that is left will take, about."""
        # Early on the plan counts more than the little that was seen.
        begun_s = 60.0
        pace = (self._taken_s + begun_s) / (self._expected_s + begun_s)
        return pace * sum(self._left.values())

    @staticmethod
    def _known(runs: Mapping[str, Mapping[str, Any]], bout: Bout, extent: Extent) -> float | None:
        took = runs.get(bout.peer.key, {}).get("took_s", {}).get(bout.workload.key, {})
        known: float | None = took.get(str(extent.pairs))
        return known
