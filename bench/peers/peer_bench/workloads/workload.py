"""A piece of work as we do it, and how it is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from peer_bench.loads import Load, Shape


@dataclass(frozen=True, slots=True)
class Workload:
    """Messages that are sent, and then consumed.

    Attributes:
        key: Its name in code: peers say by it what they do instead.
        title: Its name in results.
        load: How we send; the topic is filled in for each leg.
        count_quick: Messages when there is little time.
        consuming: Our ways of consuming that are measured, with their names in results.
        in_quick: Whether it is run at all when there is little time.
    """

    key: str
    title: str
    load: Load
    count_quick: int
    consuming: Mapping[Shape, str] = field(default_factory=lambda: MappingProxyType({}))
    in_quick: bool = True

    def load_of(self, *, quick: bool) -> Load:
        """The load, by the time there is."""
        return self.load.of(self.count_quick) if quick else self.load
