"""What the gRPC server of a service does below its calls: connections, streams, stalls."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from ariane_servicekit.observability.measures import NO_ATTRIBUTES, Measures, Value
from ariane_wire import Statistics

SNAPSHOT_S_MAX: Final = 1.0
"""The values of one page are of one snapshot: it looks at every connection."""

_GAUGES: Final = (
    ("connections", "{connection}", "Connections that are open."),
    ("streams", "{call}", "Calls that are open on them."),
    ("waiting_streams", "{call}", "Of these, those whose answers wait for the client to read."),
    ("held_octets", "By", "Bytes of requests that are not whole, or that nobody has read."),
)
_COUNTERS: Final = (
    ("connections_begun", "{connection}", "Connections that were made."),
    ("streams_begun", "{call}", "Calls that were begun, refused ones with them."),
    ("data_octets_sent", "By", "Bytes of answers that were sent."),
    ("octets_received", "By", "Bytes that were received, of all frames."),
    ("stalls", "1", "Times that something to send found a window closed: clients read slowly."),
)
_NAMES: Final = {
    "waiting_streams": "streams.waiting",
    "held_octets": "held",
    "connections_begun": "connections.begun",
    "streams_begun": "streams.begun",
    "data_octets_sent": "sent",
    "octets_received": "received",
}


class TransportMeasures:
    """The instruments of one server."""

    def __init__(self, server: Any, monotonic: Callable[[], float]) -> None:
        """Watch a server of ``ariane_wire``.

        Args:
            server: Has ``statistics()``.
            monotonic: Seconds of a clock that only goes forward.
        """
        self._server = server
        self._monotonic = monotonic
        self._taken_s = -SNAPSHOT_S_MAX
        self._snapshot: Statistics | None = None

    def make(self, measures: Measures) -> None:
        """Make the instruments."""
        for field, unit, description in _GAUGES:
            measures.gauge(_name(field), unit, description, self._reader(field))
        for field, unit, description in _COUNTERS:
            measures.counter(_name(field), unit, description, self._reader(field))

    def _reader(self, field: str) -> Callable[[], list[Value]]:
        return lambda: [(getattr(self._latest(), field), NO_ATTRIBUTES)]

    def _latest(self) -> Statistics:
        now_s = self._monotonic()
        if self._snapshot is None or now_s - self._taken_s >= SNAPSHOT_S_MAX:
            self._snapshot, self._taken_s = self._server.statistics(), now_s
        return self._snapshot


def measure_certificate(
    measures: Measures, ends: Callable[[], datetime], now: Callable[[], datetime]
) -> None:
    """Tell how long the certificate of a process still holds.

    Args:
        measures: Where.
        ends: When it ends.
        now: The present.
    """
    measures.gauge(
        "ariane.tls.certificate.left",
        "s",
        "Seconds until the certificate of the process ends, or its authority's. Only over TLS.",
        lambda: [((ends() - now()).total_seconds(), NO_ATTRIBUTES)],
    )


def _name(field: str) -> str:
    return f"ariane.rpc.{_NAMES.get(field, field)}"
