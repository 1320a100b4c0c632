"""The batches of a producer that have no outcome yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ariane_sdk.errors import CallError
from ariane_sdk.message import SendResult
from ariane_sdk.producer.batches.bundle import Bundle
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.batches.singles_batch import SinglesBatch
from ariane_sdk.producer.sending.queue_streams import QueueStreams
from ariane_sdk.runtime.log import logger


class Unsettled:
    """Batches and bundles, in the order in which they were opened.

    Attributes:
        held: Refused batches that wait to be taken out.
    """

    __slots__ = ("_all", "_landings", "_settled", "_streams", "held")

    def __init__(self, streams: QueueStreams | None, settled: Callable[[int], None]) -> None:
        """Have none.

        Args:
            streams: Have the numbers of batches, if these are sequenced.
            settled: Is told the bytes of a batch that is done.
        """
        self._streams = streams
        self._settled = settled
        self._all: dict[SendBatch | Bundle, None] = {}
        self._landings: dict[str, Callable[[], None]] = {}
        self.held: set[SendBatch] = set()

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, batch: SendBatch | Bundle) -> bool:
        return batch in self._all

    def add(self, batch: SendBatch | Bundle) -> None:
        """Take a batch that was just opened."""
        self._all[batch] = None

    @property
    def batches(self) -> list[SendBatch]:
        """Those that are no bundles."""
        return [each for each in self._all if isinstance(each, SendBatch)]

    @property
    def bundles(self) -> list[Bundle]:
        """The others."""
        return [each for each in self._all if isinstance(each, Bundle)]

    def of_topic(self, topic: str) -> list[SendBatch]:
        """The batches of a topic."""
        return [batch for batch in self.batches if batch.topic == topic]

    def withdraw(self, future: asyncio.Future[SendResult]) -> bool:
        """Take a message back that was not sent yet.

        Args:
            future: Waits for its outcome.

        Returns:
            Whether it will surely not be stored.
        """
        for batch in self._all:
            size_bytes = batch.withdraw(future)
            if size_bytes:
                self._settled(size_bytes)
                if isinstance(batch, SendBatch) and not batch.count:
                    self.fail(batch, CallError("all its messages were withdrawn"))
                return True
        return False

    async def wait(self) -> None:
        """Wait for the outcome of everything that is here now."""
        for batch in list(self._all):
            await batch.wait_settled()

    def take_apart(self, bundle: Bundle) -> list[SinglesBatch]:
        """The batches of a bundle, which are here by themselves from now on."""
        batches = bundle.take_apart()
        if bundle not in self._all:
            return batches
        del self._all[bundle]
        self._all.update(dict.fromkeys(batches))
        # Rows whose messages were all withdrawn took some, too.
        self._settled(bundle.size_bytes - sum(batch.size_bytes for batch in batches))
        return batches

    def bundle_stored(self, bundle: Bundle) -> None:
        """All messages of a bundle have their results."""
        del self._all[bundle]
        self._settled(bundle.size_bytes)

    def fail(self, batch: SendBatch, error: CallError) -> None:
        """Give a batch up."""
        journey, size_bytes = batch.journey, batch.size_bytes
        if self._streams is not None and journey.sequence is not None:
            if journey.maybe_stored or error.outcome_unknown:
                self._streams.begin_anew(batch.queue, journey.sequence)
            else:
                self._streams.give_back(batch.queue, journey.sequence)
        batch.fail(error)
        self.forget(batch, size_bytes)

    def lose(self, broker_name: str, batches: Iterable[SendBatch], error: Exception) -> None:
        """Give up those of some batches that are still here: an answer was not understood."""
        logger.error("an answer of broker %s was not understood", broker_name, exc_info=error)
        for batch in batches:
            if batch in self._all:
                self.fail(batch, CallError(f"{broker_name}: {error}", outcome_unknown=True))

    def forget(self, batch: SendBatch, size_bytes: int) -> None:
        """A batch of so many bytes has its outcome, or somebody else sees to its messages."""
        del self._all[batch]
        self.held.discard(batch)
        self._settled(size_bytes)
        if self._landings:
            self.tell_landed((batch.topic,))

    def await_landing(self, topic: str, landed: Callable[[], None] | None) -> None:
        """Call a function each time when batches of a topic are in flight no longer.

        Args:
            topic: The topic.
            landed: Is called in the next turn of the loop; ``None`` ends it.
        """
        if landed is None:
            self._landings.pop(topic, None)
        else:
            self._landings[topic] = landed

    def tell_landed(self, topics: Iterable[str]) -> None:
        """Batches of these topics are in flight no longer."""
        for topic in topics:
            if topic in self._landings:
                # Not now: batches that are about to be sent look as if they still waited.
                asyncio.get_running_loop().call_soon(self._landings[topic])

    def close(self) -> None:
        """Give all up; what is in flight may have been stored."""
        self._landings.clear()
        for bundle in self.bundles:
            self.take_apart(bundle)
        for batch in self.batches:
            refusal = batch.journey.last_refusal
            before = "" if refusal is None else f" before another try, after: {refusal}"
            text = f"the producer was closed{before}"
            self.fail(batch, CallError(text, outcome_unknown=batch.journey.in_flight))
