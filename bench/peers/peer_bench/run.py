"""Pairs in turn: ours, theirs, ours, theirs; each leg's messages consumed again and compared."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from peer_bench.contender import Contender
from peer_bench.errors import DriverFailed
from peer_bench.loads import Leg, Load, Shape
from peer_bench.pairs import compare
from peer_bench.peers import Part, Peer, Target
from peer_bench.results import Row, machine, now
from peer_bench.workloads import Workload

UNIT = "msg/s"


@dataclass(slots=True)
class Measured:
    """One comparison while it grows: the pairs of legs, ours first."""

    work: str
    target: Target
    pairs: list[tuple[Leg, Leg]] = field(default_factory=list)
    lost: int = 0

    def row(self, ours: Contender, theirs: Contender) -> Row:
        """What the pairs say."""
        said = compare([(mine.rate, other.rate) for mine, other in self.pairs])
        return Row(
            work=self.work,
            ours=said.ours,
            unit=UNIT,
            against=theirs.name,
            theirs=said.theirs,
            ratio=said.ratio,
            ratio_min=said.ratio_min,
            ratio_max=said.ratio_max,
            pairs=said.pairs,
            floor=self.target.floor,
            goal=self.target.goal,
            lost=self.lost,
            when=now(),
            machine=machine(),
            versions={**ours.versions, **theirs.versions},
        )

    def legs(self) -> Iterator[dict[str, Any]]:
        """Every leg, for the record."""
        for number, pair in enumerate(self.pairs):
            for side, leg in zip(("ours", "theirs"), pair, strict=True):
                yield {"work": self.work, "pair": number, "side": side, **asdict(leg)}


class Duel:
    """Us and one peer, both running.

    Args:
        ours: We.
        theirs: The peer.
        peer: What the peer does.
        pairs: How many pairs count.
        quick: Whether there is little time.
    """

    def __init__(
        self, ours: Contender, theirs: Contender, peer: Peer, *, pairs: int, quick: bool
    ) -> None:
        self._ours = ours
        self._theirs = theirs
        self._peer = peer
        self._pairs = pairs
        self._quick = quick
        self._topic_number = 0

    def warm_up(self, workload: Workload, seconds: float) -> None:
        """Keep both busy with a workload for so many seconds each; nothing of it counts."""
        part = self._peer.parts[workload.key]
        load = self._load_of(workload, quick=True)
        for contender, asked, consume in (
            (self._ours, load, self._our_check(workload, part)),
            (self._theirs, part.load_from(load), part.consume),
        ):
            end = time.monotonic() + seconds
            while True:
                self._send_and_check(contender, asked, consume)
                if time.monotonic() >= end:
                    break

    def measure(self, workload: Workload) -> list[Measured]:
        """Run the pairs of one workload; what was sent first, then what was consumed."""
        part = self._peer.parts[workload.key]
        load = self._load_of(workload, quick=self._quick)
        sent = Measured(part.title or workload.title, part.produced)
        consumed = {
            shape: Measured(title, part.consumed[shape])
            for shape, title in workload.consuming.items()
            if shape in part.consumed
        }
        for _ in range(self._pairs):
            mine = load.on(self._new_topic())
            other = part.load_from(load).on(self._new_topic())
            our_leg, their_leg = self._produce(self._ours, mine), self._produce(self._theirs, other)
            sent.pairs.append((our_leg, their_leg))
            sent.lost += our_leg.failures + (load.count - our_leg.count - our_leg.failures)
            for shape, measured in consumed.items():
                pair = (
                    self._consume(self._ours, mine, shape),
                    self._consume(self._theirs, other, part.consume or shape),
                )
                measured.pairs.append(pair)
                measured.lost += pair[0].lost
            if not consumed:
                # Nothing is measured here: what was sent is counted and compared all the same.
                sent.lost += self._consume(self._ours, mine, self._our_check(workload, part)).lost
                if part.consume is not None:
                    self._consume(self._theirs, other, part.consume)
        return [sent, *consumed.values()]

    def _load_of(self, workload: Workload, *, quick: bool) -> Load:
        load = workload.load_of(quick=quick)
        return load.of(round(load.count * self._peer.parts[workload.key].share))

    def _send_and_check(self, contender: Contender, load: Load, consume: Shape | None) -> None:
        load = load.on(self._new_topic())
        self._produce(contender, load)
        if consume is not None:
            self._consume(contender, load, consume)

    @staticmethod
    def _produce(contender: Contender, load: Load) -> Leg:
        leg = contender.produce(load)
        if not leg.count:
            raise DriverFailed(f"{contender.name} sent nothing of {load}")
        return leg

    @staticmethod
    def _consume(contender: Contender, load: Load, shape: Shape) -> Leg:
        leg = contender.consume(Load(shape, load.topic, load.count, load.body_bytes))
        if not leg.count:
            raise DriverFailed(f"{contender.name} consumed nothing of {load}")
        if leg.lost:
            print(f"  {contender.name} lost or altered {leg.lost} of {load.count} in {load.topic}")
        return leg

    @staticmethod
    def _our_check(workload: Workload, part: Part) -> Shape:
        return next(iter(part.consumed or workload.consuming), "chunks")

    def _new_topic(self) -> str:
        self._topic_number += 1
        return f"bench-{self._topic_number}"
