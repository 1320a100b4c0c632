"""Everything that a producer sends: a sender for each broker, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from ariane_sdk.net.connections import Connections
from ariane_sdk.producer.batches.bundle import Bundle, BundleSettings
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.sending.append_calls import AppendCalls
from ariane_sdk.producer.sending.broker_sender import BrokerSender
from ariane_sdk.producer.sending.latency import BrokerLatencies
from ariane_sdk.producer.sending.queue_streams import QueueStreams
from ariane_sdk.producer.sending.repeats import Repeats
from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.routing.route import Route
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings


class Senders(dict[str, BrokerSender]):
    """The sender of each broker, made when it is first asked for."""

    def __init__(self, new_sender: Callable[[str], BrokerSender]) -> None:
        super().__init__()
        self._new_sender = new_sender

    def __missing__(self, broker_name: str) -> BrokerSender:
        """The sender of a broker that had nothing yet."""
        sender = self[broker_name] = self._new_sender(broker_name)
        return sender


class Sending:
    """Puts the senders of a producer together.

    Attributes:
        senders: By broker.
        unsettled: The batches that have no outcome yet.
        is_welcome: Whether a batch for a broker would be sent at once, with some hope.
    """

    def __init__(
        self,
        connections: Connections,
        routes: Routes,
        unsettled: Unsettled,
        *,
        streams: QueueStreams | None,
        latencies: BrokerLatencies,
        bundle_settings: BundleSettings,
        group: str,
        settings: ProducerSettings,
        clock: Clock,
        random: Random,
    ) -> None:
        self.unsettled = unsettled
        self.senders = Senders(self._new_sender)
        self._settings = settings
        self._clock = clock
        self._bundle_settings = bundle_settings
        self._primaries: dict[str, str] = {}
        routes.on_change(self._follow)
        self._repeats = Repeats(
            self.senders,
            routes,
            unsettled,
            streams=streams,
            latencies=latencies,
            settings=settings,
            clock=clock,
            random=random,
        )
        self.is_welcome = self._repeats.is_welcome
        self._calls = AppendCalls(
            connections,
            routes,
            unsettled,
            self._repeats,
            streams=streams,
            latencies=latencies,
            group=group,
            settings=settings,
            clock=clock,
        )

    def add(self, batch: SendBatch) -> None:
        """Have a new batch sent, with what it has by then."""
        self.unsettled.add(batch)
        self.senders[batch.queue.broker_name].add(batch)

    def bundle_for(self, broker_name: str, size_bytes_max: int) -> Bundle | None:
        """A bundle that takes plain messages of another topic; None if they should not come so."""
        sender = self.senders[broker_name]
        if not sender.bundling:
            return None
        bundle = sender.joinable(size_bytes_max)
        if bundle is None:
            bundle = Bundle(self._bundle_settings)
            self.unsettled.add(bundle)
            sender.add_bundle(bundle)
        return bundle

    def on_gone(self, take_over: Callable[[SendBatch], bool]) -> None:
        """Have somebody asked about batches that were refused because their queues are gone."""
        self._repeats.take_over = take_over

    def take_out(self, batches: Sequence[SendBatch]) -> None:
        """Send these batches no more, none of which is in flight: their messages go into others."""
        for sender in self.senders.values():
            sender.take_out(set(batches))
        for batch in batches:
            self.unsettled.forget(batch, batch.size_bytes)

    def release(self, batches: Iterable[SendBatch]) -> None:
        """Send batches that waited to be taken out after all: they have their queues again."""
        for batch in self.unsettled.held.intersection(batches):
            self.unsettled.held.discard(batch)
            batch.not_before_s = 0.0
            self.senders[batch.queue.broker_name].look_again()

    def _follow(self, route: Route) -> None:
        """Where another primary has taken over, send at once what waits for its next round."""
        for broker in route.brokers:
            address = broker.addresses.get(0, "")
            if not address:
                continue
            before = self._primaries.get(broker.broker_name, address)
            self._primaries[broker.broker_name] = address
            if address != before:
                self._send_now(broker.broker_name)

    def _send_now(self, broker_name: str) -> None:
        for batch in self.unsettled.batches:
            if batch.queue.broker_name == broker_name and batch not in self.unsettled.held:
                batch.not_before_s = 0.0
        if broker_name in self.senders:
            self.senders[broker_name].look_again()

    async def close(self) -> None:
        """Give everything up; what is in flight may have been stored."""
        for sender in self.senders.values():
            sender.close()
        await self._calls.close()
        self.unsettled.close()

    def _new_sender(self, broker_name: str) -> BrokerSender:
        return BrokerSender(
            broker_name,
            self._calls.send,
            take_apart=self.unsettled.take_apart,
            settings=self._settings,
            clock=self._clock,
        )
