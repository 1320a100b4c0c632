"""What the connections of all clients of this process do, as metrics of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from ariane_sdk.client.messaging_names import SERVER_ADDRESS
from ariane_sdk.net.connections import statistics_by_address

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

Callback = Callable[["CallbackOptions"], Iterable["Observation"]]

_GAUGES: Final = (
    ("ariane.client.connections", "{connection}", "connections"),
    ("ariane.client.calls", "{call}", "streams"),
    ("ariane.client.held", "By", "held_octets"),
)
_COUNTERS: Final = (
    ("ariane.client.connections.begun", "{connection}", "connections_begun"),
    ("ariane.client.calls.begun", "{call}", "streams_begun"),
    ("ariane.client.sent", "By", "data_octets_sent"),
    ("ariane.client.received", "By", "octets_received"),
    ("ariane.client.stalls", "1", "stalls"),
)
_observed: Final[WeakKeyDictionary[Any, bool]] = WeakKeyDictionary()


def observe_connections(provider: MeterProvider, meter: Meter) -> None:
    """Have a provider read the connections of this process, by server; once for all its clients."""
    if provider in _observed:
        return
    _observed[provider] = True
    for name, unit, field in _GAUGES:
        meter.create_observable_gauge(name, [_reader(field)], unit)
    for name, unit, field in _COUNTERS:
        meter.create_observable_counter(name, [_reader(field)], unit)


def _reader(field: str) -> Callback:
    def read(_: CallbackOptions) -> Sequence[Observation]:
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - an extra.

        return [
            Observation(getattr(statistics, field), {SERVER_ADDRESS: address})
            for address, statistics in statistics_by_address().items()
        ]

    return read
