"""From counters of brokers to rates, in memory. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ariane.broker.v1.broker_service_pb2 import GetBrokerStateResponse


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of a broker per second, since the observation before."""

    stored_messages: float
    """Records stored."""
    stored_bytes: float
    """Bytes stored."""
    pulled_messages: float
    """Messages handed out."""
    pulled_bytes: float
    """Bytes handed out."""


@dataclass(frozen=True, slots=True)
class _Look:
    incarnation: int
    """When the broker's process started: its counters began at 0 then."""
    at_s: float
    counters: tuple[int, int, int, int]


class RateMemory:
    """The last observation of each broker, and its rates since the one before."""

    def __init__(self) -> None:
        self._looks: dict[str, _Look] = {}
        self._rates: dict[str, Rates] = {}

    def of(self, broker_name: str) -> Rates | None:
        """The rates of a broker; None before its second observation."""
        return self._rates.get(broker_name)

    def take(self, broker_name: str, state: GetBrokerStateResponse, at_s: float) -> Rates | None:
        """Add an observation of a broker.

        Args:
            broker_name: The broker.
            state: Its state.
            at_s: The time, by the monotonic clock.

        Returns:
            The rates since the observation before; None after a restart of the broker.
        """
        statistics = state.statistics
        look = _Look(
            state.start_time.ToMilliseconds(),
            at_s,
            (
                statistics.stored_message_count,
                statistics.stored_bytes,
                statistics.pulled_message_count,
                statistics.pulled_bytes,
            ),
        )
        before = self._looks.get(broker_name)
        self._looks[broker_name] = look
        self._rates.pop(broker_name, None)
        if before is None or before.incarnation != look.incarnation or at_s <= before.at_s:
            return None
        span_s = at_s - before.at_s
        rates = Rates(
            *(
                max(0, now - then) / span_s
                for now, then in zip(look.counters, before.counters, strict=True)
            )
        )
        self._rates[broker_name] = rates
        return rates

    def forget_all_but(self, broker_names: set[str]) -> None:
        """Forget brokers that did not answer: their rates are unknown."""
        for name in self._looks.keys() - broker_names:
            del self._looks[name]
            self._rates.pop(name, None)
