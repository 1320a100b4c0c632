"""Who is measured beside us, what each does for a workload, and what we aim at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from peer_bench.contender import Contender
from peer_bench.contenders import ours
from peer_bench.loads import Load, Shape


class Target(NamedTuple):
    """Ratios: what must be reached, and what is aimed at; ``None`` where nobody said."""

    floor: float | None = None
    goal: float | None = None


NOBODY_SAID: Final = Target()


@dataclass(frozen=True, slots=True)
class Part:
    """What a peer does for one workload of ours."""

    produced: Target = NOBODY_SAID
    """What we aim at when sending."""
    in_flight: int | None = None
    """Its threads, tasks or batches at the same time; ours if not given."""
    shape: Shape | None = None
    """How it sends, if not as we do."""
    topics: int | None = None
    """To how many topics, if not to as many as we."""
    share: float = 1.0
    """Of our messages it sends so many: where it is much slower and only its pace is asked."""
    consume: Shape | None = "listener"
    """How it consumes afterwards, for the count and the checksum; ``None``: it cannot."""
    consumed: Mapping[Shape, Target] = field(default_factory=dict)
    """What we aim at when consuming, by our way of doing it. A way that is not here is not compared
    with this peer."""
    title: str = ""
    """The work's name, if this peer makes it another."""
    quick: bool = False
    """Whether it is done when there is little time."""

    def consume_beside(self, ours: Shape) -> Shape:
        """How the peer consumes beside one of our ways; by a listener, it has the same calls."""
        return ours if self.consume in (None, "listener") else self.consume

    def load_from(self, ours: Load) -> Load:
        """The load as the peer does it."""
        return replace(
            ours,
            count=round(ours.count * self.share),
            in_flight=self.in_flight or ours.in_flight,
            shape=self.shape or ours.shape,
            topics=self.topics or ours.topics,
        )


@dataclass(frozen=True, slots=True)
class Peer:
    """Somebody beside us."""

    key: str
    """Its name in code and on the command line."""
    running: Callable[[Path], AbstractContextManager[Contender]]
    """Runs it in a folder; raises ``PeerUnavailable`` when it cannot be had here."""
    parts: Mapping[str, Part]
    """What it does, by the workload's key."""
    ours: Callable[[Path], AbstractContextManager[Contender]] = ours.running
    """Runs us, if not by default."""
    warm_up_s: float = 3.0
    """Seconds of work before anything counts; a Java tool needs 20."""
    our_warm_up_s: float = 4.0
    """As many for us, at most: nothing of ours compiles."""
    start_s: float = 4.0
    """Seconds that its start and its end take, about: for the time that is left."""
    leg_s_max: float = 60.0
    """The slower of two legs takes no longer than that."""
