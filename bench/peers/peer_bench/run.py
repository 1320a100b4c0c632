"""Pairs in turn: ours, theirs, ours, theirs; each leg's messages consumed again and compared."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, Final, NamedTuple

from peer_bench.contender import Contender
from peer_bench.errors import DriverFailed
from peer_bench.loads import Leg, Load, Shape
from peer_bench.pairs import compare
from peer_bench.peers import NOBODY_SAID, Part, Target
from peer_bench.readings import RATE, Reading
from peer_bench.results import Row, machine, now, side_of
from peer_bench.workloads import Workload
from peer_bench.workloads.workload import (
    SCHEDULE_S,
    SCHEDULE_S_QUICK,
    SCHEDULE_WARM_UP_S,
)

SUSTAINED_S: Final = 12.5
_GRAIN: Final = 1000


class Extent(NamedTuple):
    """How much is run."""

    pairs: int
    """Pairs that count."""
    leg_s: float = 1.5
    """About how long the slower of two legs takes."""
    schedule_s: float = SCHEDULE_S
    """How long a schedule lasts."""
    warm_up_s_max: float = 60.0
    """At most so many seconds of warm-up."""
    count_max: int = 50_000_000
    """Messages of a leg at most, whatever the work says; for trying things out."""
    sustained_s: float = SUSTAINED_S
    """How long the faster of two legs takes at least where sending lasts."""
    sustained_pairs_max: int = 3
    """Pairs of such legs at most."""

    @property
    def lasts(self) -> bool:
        """Whether sending that lasts has its whole time."""
        return self.sustained_s >= SUSTAINED_S


WHOLE: Final = Extent(pairs=5)
QUICK: Final = Extent(
    pairs=2, leg_s=0.4, schedule_s=SCHEDULE_S_QUICK, warm_up_s_max=2.0, sustained_s=0.4
)
TINY: Final = Extent(
    pairs=1, leg_s=0.1, schedule_s=0.5, warm_up_s_max=0.0, count_max=20_000, sustained_s=0.1
)


@dataclass(slots=True)
class Measured:
    """One comparison while it grows: the pairs of legs, ours first."""

    work: str
    target: Target
    reading: Reading = RATE
    pairs: list[tuple[Leg, Leg]] = field(default_factory=list)
    lost: int = 0

    def row(self, ours: Contender, theirs: Contender) -> Row:
        """What the pairs say."""
        read = self.reading.of
        said = compare(
            [(read(mine), read(other)) for mine, other in self.pairs],
            less_is_better=self.reading.less_is_better,
        )
        return Row(
            work=self.work,
            ours=said.ours,
            unit=self.reading.unit,
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

    def sides(self) -> Iterator[dict[str, Any]]:
        """What the legs say of each side, for the record."""
        for side, legs in zip(("ours", "theirs"), zip(*self.pairs, strict=True), strict=True):
            yield side_of(self.work, side, list(map(asdict, legs)))


class Duel:
    """Us and one peer, both running, at one work.

    Args:
        ours: We.
        theirs: The peer.
        part: What the peer does.
        workload: The work.
        extent: How much of it.
    """

    def __init__(
        self, ours: Contender, theirs: Contender, part: Part, workload: Workload, extent: Extent
    ) -> None:
        self._ours = ours
        self._theirs = theirs
        self._part = part
        self._workload = workload
        self._extent = extent
        self._topic_number = 0
        self._slowest_message_s = 0.0
        self._fastest_send_s = math.inf

    def warm_up(self, seconds: float, our_s: float) -> None:
        """Keep both busy with the work, each for so long; nothing of it counts."""
        seconds = min(seconds, self._extent.warm_up_s_max)
        load = self._workload.load
        if not load.rate:
            load = load.of(min(self._workload.try_count, self._extent.count_max))
        if load.group:
            # Topics that last are made, and get their first messages, before anything is timed.
            self._try_out(self._ours, load, self._our_check())
            self._try_out(self._theirs, self._part.load_from(load), self._part.consume)
        for contender, asked, consume, least_s in (
            (self._ours, load, self._our_check(), min(seconds, our_s)),
            (self._theirs, self._part.load_from(load), self._part.consume, seconds),
        ):
            if load.rate:
                self._exchange(contender, asked.for_seconds(max(least_s, 0.2), 0.0))
                continue
            end = time.monotonic() + least_s
            while True:
                sent_s, slower_s = self._try_out(contender, asked, consume)
                if time.monotonic() >= end:
                    break
            share = asked.count / load.count
            self._slowest_message_s = max(self._slowest_message_s, slower_s * share)
            self._fastest_send_s = min(self._fastest_send_s, sent_s * share)

    def measure(self) -> list[Measured]:
        """Run the pairs; what was sent first, then what was consumed."""
        if self._workload.load.rate:
            return self._measure_exchanges()
        part, load = self._part, self._workload.load.of(self.leg_count)
        sent = self._of_sending()
        consumed = {
            shape: self._of(title, part.consumed[shape], self._workload.received)
            for shape, title in self._workload.consuming.items()
            if shape in part.consumed
        }
        for _ in range(self._pairs):
            mine, other = self._on_new_topics(load)
            our_leg, their_leg = self._produce(self._ours, mine), self._produce(self._theirs, other)
            lost = our_leg.failures + (load.count - our_leg.count - our_leg.failures)
            for shape, each in consumed.items():
                pair = (
                    self._consume(self._ours, mine, shape),
                    self._consume(self._theirs, other, part.consume_beside(shape)),
                )
                for measured in each:
                    measured.pairs.append(pair)
                    measured.lost += pair[0].lost
            if not consumed:
                # Nothing is measured here: what was sent is counted and compared all the same.
                lost += self._consume(self._ours, mine, self._our_check()).lost
                if part.consume is not None:
                    self._consume(self._theirs, other, part.consume)
            for measured in sent:
                measured.pairs.append((our_leg, their_leg))
                measured.lost += lost
            if not sent:
                next(iter(consumed.values()))[0].lost += lost
        return [*sent, *chain.from_iterable(consumed.values())]

    @property
    def leg_count(self) -> int:
        """Messages of one leg: what the slower side does in its time, after the warm-up.

        Of a work that lasts: what the faster side sends in its time.
        """
        fitting = self._workload.load.count
        if self._workload.sustained:
            fitting = min(fitting, round(self._extent.sustained_s / self._fastest_send_s))
        elif self._slowest_message_s:
            fitting = min(fitting, round(self._extent.leg_s / self._slowest_message_s))
        return max(min(fitting, self._extent.count_max) // _GRAIN, 1) * _GRAIN

    @property
    def _pairs(self) -> int:
        if self._workload.sustained:
            return min(self._extent.pairs, self._extent.sustained_pairs_max)
        return self._extent.pairs

    def _measure_exchanges(self) -> list[Measured]:
        load = self._workload.load.for_seconds(self._extent.schedule_s, SCHEDULE_WARM_UP_S)
        sent = self._of_sending()
        for _ in range(self._extent.pairs):
            mine, other = self._on_new_topics(load)
            pair = self._exchange(self._ours, mine), self._exchange(self._theirs, other)
            for measured in sent:
                measured.pairs.append(pair)
                measured.lost += pair[0].failures + pair[0].lost
        return sent

    def _of_sending(self) -> list[Measured]:
        title = self._part.title or self._workload.title
        return self._of(title, self._part.produced, self._workload.sent)

    @staticmethod
    def _of(title: str, target: Target, readings: Sequence[Reading]) -> list[Measured]:
        return [
            Measured(
                f"{title}, {reading.name}" if reading.name else title,
                target if reading.targeted else NOBODY_SAID,
                reading,
            )
            for reading in readings
        ]

    def _try_out(
        self, contender: Contender, load: Load, consume: Shape | None
    ) -> tuple[float, float]:
        """One round of the warm-up; seconds that a message took to send, and in the slower half."""
        load = load.on(self._new_topic())
        legs = [self._produce(contender, load)]
        if consume is not None:
            legs.append(self._consume(contender, load, consume))
        return legs[0].seconds / load.count, max(leg.seconds for leg in legs) / load.count

    def _exchange(self, contender: Contender, load: Load) -> Leg:
        leg = contender.exchange(load if load.topic else load.on(self._new_topic()))
        if not leg.count:
            raise DriverFailed(f"{contender.name} delivered nothing of {load}")
        if leg.failures or leg.lost:
            print(f"  {contender.name}: {leg.failures} refused, {leg.lost} lost of {load.count}")
        return leg

    @staticmethod
    def _produce(contender: Contender, load: Load) -> Leg:
        leg = contender.produce(load)
        if not leg.count:
            raise DriverFailed(f"{contender.name} sent nothing of {load}")
        if leg.failures:
            print(f"  {contender.name}: {leg.failures} of {load.count} refused")
        return leg

    @staticmethod
    def _consume(contender: Contender, load: Load, shape: Shape) -> Leg:
        leg = contender.consume(replace(load, shape=shape))
        if not leg.count:
            raise DriverFailed(f"{contender.name} consumed nothing of {load}")
        if leg.lost:
            print(f"  {contender.name} lost or altered {leg.lost} of {load.count} in {load.topic}")
        return leg

    def _our_check(self) -> Shape:
        return next(iter(self._part.consumed or self._workload.consuming), "chunks")

    def _on_new_topics(self, load: Load) -> tuple[Load, Load]:
        return load.on(self._new_topic()), self._part.load_from(load).on(self._new_topic())

    def _new_topic(self) -> str:
        if not self._workload.load.group:
            self._topic_number += 1
        return f"bench-{self._topic_number}"
