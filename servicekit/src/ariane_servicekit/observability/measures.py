"""Values that are read when metrics are collected, and cost nothing until then.

Readers run in threads of their own, but the state of a service belongs to its event loop. So values
are read on the loop, in short turns (``turns``), however many topics and groups there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from threading import get_ident
from types import MappingProxyType
from typing import Final, TypeAlias

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from ariane_servicekit.running.turns import at_once, in_turns

READ_S_MAX: Final = 10.0
"""The longest wait for the loop, as that of Prometheus. One that is stuck has no values."""

SERIES_MAX: Final = 2_000
"""Values of one instrument. Beyond them the rest is one value whose attributes are ``_OTHER``."""

OTHER: Final = "_OTHER"

NO_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({})

Value: TypeAlias = tuple[int | float, Mapping[str, str]]
"""A value with its attributes."""

Read: TypeAlias = Callable[[], Iterable[Value | None]]
"""Reads all values of an instrument; called on the event loop. None: something was examined that
has no value, see ``turns``."""


class Measures:
    """The instruments of a service."""

    def __init__(self, meter: Meter) -> None:
        """Make instruments of this meter; call it on the loop that the values belong to."""
        self._meter = meter
        self._loop = asyncio.get_running_loop()
        self._loop_thread = get_ident()

    def counter(self, name: str, unit: str, description: str, read: Read) -> None:
        """Add a counter: a value that only grows."""
        self._meter.create_observable_counter(name, [self._callback(read)], unit, description)

    def gauge(self, name: str, unit: str, description: str, read: Read) -> None:
        """Add a gauge: a present value."""
        self._meter.create_observable_gauge(name, [self._callback(read)], unit, description)

    def _callback(self, read: Read) -> Callable[[CallbackOptions], Sequence[Observation]]:
        def observe(_options: CallbackOptions) -> Sequence[Observation]:
            return [Observation(*value) for value in bounded(self._on_loop(read))]

        return observe

    def _on_loop(self, read: Read) -> list[Value]:
        if get_ident() == self._loop_thread:
            return at_once(read())

        async def values() -> list[Value]:
            return await in_turns(read())

        return asyncio.run_coroutine_threadsafe(values(), self._loop).result(READ_S_MAX)


def one(value: float) -> Iterable[Value]:
    """A single value for the whole service."""
    return ((value, NO_ATTRIBUTES),)


def bounded(values: Iterable[Value]) -> list[Value]:
    """Values, no more than ``SERIES_MAX``: the rest is summed up.

    A topic or group for each customer must not fill the collector's memory.
    """
    rest = iter(values)
    kept = list(islice(rest, SERIES_MAX - 1))
    others = list(rest)
    if others:
        names = dict.fromkeys(others[0][1], OTHER)
        kept.append((sum(value for value, _ in others), names))
    return kept
