"""The sending half of a producer: a sender for each broker, and the parts that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ariane_sdk.producer.accumulator.accumulator import ByBroker
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.sending.append_calls import AppendCalls
from ariane_sdk.producer.sending.producer_parts import ProducerParts
from ariane_sdk.producer.sending.repeats import Repeats
from ariane_sdk.producer.sending.sender import Sender
from ariane_sdk.routing.route import Route


class Sending:
    """Builds and connects the senders of a producer."""

    def __init__(self, parts: ProducerParts) -> None:
        self.unsettled = parts.unsettled
        """The rows without an outcome."""
        self._parts = parts
        self._primaries: dict[str, str] = {}
        parts.routes.on_change(self._follow)
        self.senders = ByBroker(self._new_sender)
        """The sender of each broker."""
        self.accumulators = ByBroker(lambda broker_name: self.senders[broker_name].accumulator)
        """The accumulator of each."""
        self._repeats = Repeats(parts, self.senders)
        self.is_welcome = self._repeats.is_welcome
        """Whether a row for a broker would be sent at once, with a good chance."""
        self._calls = AppendCalls(parts, self._repeats)

    def add(self, row: Row) -> None:
        """Have a new row sent; it may grow until it is sent."""
        self.unsettled.add(row)
        self.accumulators[row.queue.broker_name].add(row)

    def on_gone(self, take_over: Callable[[Row], bool]) -> None:
        """Set the function that is asked about rows refused because their queues are lost."""
        self._repeats.take_over = take_over

    def take_out(self, rows: Sequence[Row]) -> None:
        """Stop sending rows, none of them in flight: their messages move to other rows."""
        for sender in self.senders.values():
            sender.accumulator.take_out(set(rows))
        for row in rows:
            self.unsettled.forget(row)

    def release(self, rows: Iterable[Row]) -> None:
        """Send rows that had waited to be taken out: their queues are back."""
        for row in [row for row in rows if row in self.unsettled.held]:
            self.unsettled.held.discard(row)
            row.not_before_s = 0.0
            self.senders[row.queue.broker_name].send_soon()

    def _follow(self, route: Route) -> None:
        """Send waiting rows at once where another broker has become primary."""
        for broker in route.brokers:
            address = broker.addresses.get(0, "")
            if not address:
                continue
            before = self._primaries.get(broker.broker_name, address)
            self._primaries[broker.broker_name] = address
            if address == before or broker.broker_name not in self.senders:
                continue
            for row in self.unsettled.rows:
                if row.queue.broker_name == broker.broker_name and row not in self.unsettled.held:
                    row.not_before_s = 0.0
            self.senders[broker.broker_name].send_soon()

    async def close(self) -> None:
        """Give everything up; rows in flight may have been stored."""
        for sender in self.senders.values():
            sender.close()
        await self._calls.close()
        self.unsettled.close()

    def _new_sender(self, broker_name: str) -> Sender:
        return Sender(
            broker_name,
            self._calls.send,
            settings=self._parts.settings,
            clock=self._parts.clock,
        )
