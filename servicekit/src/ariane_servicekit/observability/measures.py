"""Values that are read when metrics are collected, and cost nothing until then.

Readers run in threads of their own, but the state of a service belongs to its event loop. So values
are read on the loop, in short turns (``turns``), however many topics and groups there are.

The page for Prometheus is written there, too. A thread that computes beside the loop delays each of
its calls to the system, and OpenTelemetry takes ten times as long for a value as the line of text::

    ariane_consumer_lag{consumer_group="billing",topic="orders"} 17
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from threading import Lock, get_ident
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, TypeVar

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from ariane_servicekit.observability.durations import DurationHistogram
from ariane_servicekit.observability.logs import get_logger
from ariane_servicekit.running.turns import at_once, in_turns

_log = get_logger(__name__)

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

TELLS_APART: Final[ContextVar[bool]] = ContextVar("TELLS_APART", default=False)
"""True in a thread that writes a page: OpenTelemetry then does not collect what ``text`` tells."""

_UNITS: Final = {"By": "_bytes", "s": "_seconds"}
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})

ResultT = TypeVar("ResultT")


class Instrument(NamedTuple):
    """One value that a service tells, or one for each topic, group or the like."""

    name: str
    """By OpenTelemetry."""
    unit: str
    """By UCUM."""
    description: str
    """One sentence."""
    grows: bool
    """Whether it only grows."""
    read: Read
    """Reads the values."""

    @property
    def prometheus(self) -> str:
        """The name that Prometheus reads."""
        name = self.name.replace(".", "_") + _UNITS.get(self.unit, "")
        return f"{name}_total" if self.grows else name

    def lines(self) -> Iterator[str | None]:
        """The text for Prometheus, line by line."""
        name = self.prometheus
        yield f"# HELP {name} {self.description}\n"
        yield f"# TYPE {name} {'counter' if self.grows else 'gauge'}\n"
        for value in bounded(self.read()):
            yield None if value is None else _line(name, *value)


class Measures:
    """The instruments of a service."""

    def __init__(self, meter: Meter) -> None:
        """Make instruments of this meter; call it on the loop that the values belong to."""
        self._meter = meter
        self._loop = asyncio.get_running_loop()
        self._loop_thread = get_ident()
        self._instruments: list[Instrument] = []
        self._histograms: list[DurationHistogram] = []
        self._writing = Lock()

    def counter(self, name: str, unit: str, description: str, read: Read) -> None:
        """Add a counter: a value that only grows."""
        self._instruments.append(Instrument(name, unit, description, grows=True, read=read))
        self._meter.create_observable_counter(name, [self._callback(read)], unit, description)

    def gauge(self, name: str, unit: str, description: str, read: Read) -> None:
        """Add a gauge: a present value."""
        self._instruments.append(Instrument(name, unit, description, grows=False, read=read))
        self._meter.create_observable_gauge(name, [self._callback(read)], unit, description)

    def histogram(
        self, name: str, description: str, bounds_s: Sequence[float]
    ) -> Callable[[float], None]:
        """Add a histogram of durations in seconds.

        Args:
            name: By OpenTelemetry.
            description: One sentence.
            bounds_s: Upper bounds of its buckets, seconds.

        Returns:
            What records one.
        """
        histogram = DurationHistogram(name, description, bounds_s)
        self.add(histogram)
        return histogram.of(NO_ATTRIBUTES).record

    def add(self, histogram: DurationHistogram) -> None:
        """Add a histogram that is there already."""
        self._histograms.append(histogram)

    @property
    def histograms(self) -> Sequence[DurationHistogram]:
        """All histograms."""
        return tuple(self._histograms)

    def text(self) -> str:
        """All values as Prometheus reads them; call it in another thread than the loop's.

        An instrument that fails is left out. Several readers are served one after the other.
        """
        parts: list[str] = []
        with self._writing:
            every: Sequence[DurationHistogram | Instrument] = (
                *self._histograms,
                *self._instruments,
            )
            for each in every:
                try:
                    parts += self._on_loop(each.lines)
                except Exception:  # noqa: BLE001 - the other instruments are still worth reading
                    _log.exception("metric_not_read", metric=each.name)
        return "".join(parts)

    def _callback(self, read: Read) -> Callable[[CallbackOptions], Sequence[Observation]]:
        def observe(_options: CallbackOptions) -> Sequence[Observation]:
            if TELLS_APART.get():
                return ()
            return [Observation(*value) for value in self._on_loop(lambda: bounded(read()))]

        return observe

    def _on_loop(self, work: Callable[[], Iterable[ResultT | None]]) -> list[ResultT]:
        if get_ident() == self._loop_thread:
            return at_once(work())

        async def done() -> list[ResultT]:
            return await in_turns(work())

        future = asyncio.run_coroutine_threadsafe(done(), self._loop)
        try:
            return future.result(READ_S_MAX)
        finally:
            # What nobody waits for any more is not read to its end.
            future.cancel()


def one(value: float) -> Iterable[Value]:
    """A single value for the whole service."""
    return ((value, NO_ATTRIBUTES),)


def bounded(values: Iterable[Value | None]) -> Iterator[Value | None]:
    """Values, no more than ``SERIES_MAX``: the rest is summed up.

    A topic or group for each customer must not fill the collector's memory.
    """
    kept = 0
    rest: int | float = 0
    others: Mapping[str, str] | None = None
    for value in values:
        if value is None:
            yield None
        elif kept < SERIES_MAX - 1:
            kept += 1
            yield value
        else:
            number, attributes = value
            others = others or dict.fromkeys(attributes, OTHER)
            rest += number
            yield None
    if others is not None:
        yield rest, others


def _line(name: str, number: float, attributes: Mapping[str, str]) -> str:
    if not attributes:
        return f"{name} {number}\n"
    labels = ",".join(
        f'{key.replace(".", "_")}="{text.translate(_ESCAPES)}"' for key, text in attributes.items()
    )
    return f"{name}{{{labels}}} {number}\n"
