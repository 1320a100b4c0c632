"""The sending half of a producer: a sender for each broker, and the parts that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from ariane_sdk.net.connections import Connections
from ariane_sdk.producer.batches.bundle import Bundle, BundleSettings
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.sending.append_calls import AppendCalls
from ariane_sdk.producer.sending.broker_sender import BrokerSender
from ariane_sdk.producer.sending.latency import BrokerLatencies
from ariane_sdk.producer.sending.queue_sequences import QueueSequences
from ariane_sdk.producer.sending.repeats import Repeats
from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.routing.route import Route
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings


class Senders(dict[str, BrokerSender]):
    """The sender of each broker, made on first use."""

    def __init__(self, new_sender: Callable[[str], BrokerSender]) -> None:
        super().__init__()
        self._new_sender = new_sender

    def __missing__(self, broker_name: str) -> BrokerSender:
        """Make the sender of a broker that had no batches yet."""
        sender = self[broker_name] = self._new_sender(broker_name)
        return sender


class Sending:
    """Builds and connects the senders of a producer.

    Attributes:
        senders: The senders by broker name.
        unsettled: The batches without an outcome.
        is_welcome: Whether a batch for a broker would be sent at once, with a good chance.
    """

    def __init__(
        self,
        connections: Connections,
        routes: Routes,
        unsettled: Unsettled,
        *,
        sequences: QueueSequences | None,
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
            sequences=sequences,
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
            sequences=sequences,
            latencies=latencies,
            group=group,
            settings=settings,
            clock=clock,
        )

    def add(self, batch: SendBatch) -> None:
        """Have a new batch sent; it may grow until it is sent."""
        self.unsettled.add(batch)
        self.senders[batch.queue.broker_name].add(batch)

    def bundle_for(self, broker_name: str, size_bytes_max: int) -> Bundle | None:
        """Return a bundle for another topic; None if plain messages should not be bundled."""
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
        """Set the function that is asked about batches refused because their queues are lost."""
        self._repeats.take_over = take_over

    def take_out(self, batches: Sequence[SendBatch]) -> None:
        """Stop sending batches, none of them in flight: their messages move to other batches."""
        for sender in self.senders.values():
            sender.take_out(set(batches))
        for batch in batches:
            self.unsettled.forget(batch, batch.size_bytes)

    def release(self, batches: Iterable[SendBatch]) -> None:
        """Send batches that had waited to be taken out: their queues are back."""
        for batch in [batch for batch in batches if batch in self.unsettled.held]:
            self.unsettled.held.discard(batch)
            batch.not_before_s = 0.0
            self.senders[batch.queue.broker_name].look_again()

    def _follow(self, route: Route) -> None:
        """Send waiting batches at once where another broker has become primary."""
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
        """Give everything up; batches in flight may have been stored."""
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
