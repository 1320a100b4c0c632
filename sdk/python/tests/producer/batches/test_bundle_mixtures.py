"""Bundles and batches in any order, and calls that fail: each queue keeps its order."""

import asyncio
from collections import Counter
from itertools import count, cycle
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ariane_record.encoding.plain_topic import PlainTopic
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk import ProducerSettings
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.bundle import Bundle, BundleSettings
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.sending.broker_sender import BrokerSender
from ariane_sdk.producer.sending.queue_sequences import QueueSequences
from ariane_sdk.runtime.clock import SystemClock

IDS = UniqueIdGenerator(lambda: 1, ip="10.1.2.3", pid=7, origin=0)

CALLS_WAITED_MAX = 24
"""Turns of four calls, those of bundles and of batches; and one after the other for a queue."""


class CountedBatch(SendBatch):
    """A batch of so many messages."""

    __slots__ = ("messages",)

    def __init__(self, queue, *, pinned):
        super().__init__(
            queue,
            choose_other=None if pinned else lambda _: queue,
            body_bytes_max=100,
            sequenced=True,
        )
        self.messages = 0

    @property
    def count(self):
        return self.messages

    @property
    def wire_bytes(self):
        return 200 * self.messages


class Topic:
    """What a producer knows of a topic: where its plain messages go."""

    def __init__(self, number, queue_count):
        name = f"topic-{number}"
        self.queues = cycle([MessageQueue(name, "broker-a", each) for each in range(queue_count)])
        self.plain = PlainTopic(name, id_bytes=IDS.digit_count)
        self.bundle = self.batch = self.row = None
        self.pinned = {}


class Broker:
    """Keeps the sequences, and says so if one is not followed."""

    def __init__(self):
        self.following = Counter()

    def append(self, queue, sequence, message_count):
        stored, first = self.following[queue], sequence.first_sequence
        assert sequence.epoch == 0
        assert first == stored or first + message_count <= stored
        self.following[queue] = max(stored, first + message_count)


class Mixture:
    """A producer and a broker: bundles, batches, and calls that fail as a whole or in part."""

    def __init__(self, seed, *, topic_count, queue_count, failures):
        self.random = Random(seed)
        self.topics = [Topic(number, queue_count) for number in range(topic_count)]
        self.sequences = QueueSequences(7)
        self.broker = Broker()
        self.failures = failures
        self.in_flight = []
        self.call_count = self.bundle_count = 0
        self.added_at = {}
        self.waited_max = 0
        self.sent = self.stored = 0
        self.deadlines_s = count(1)
        self.sender = BrokerSender(
            "broker-a",
            self._send,
            take_apart=self._take_apart,
            settings=ProducerSettings(request_bytes_max=1 << 26),
            clock=SystemClock(),
        )

    def send(self):
        topic = self.random.choice(self.topics)
        kind = self.random.random()
        if kind < 0.8:
            self._send_plain(topic)
        else:
            self._send_other(topic, pinned=kind < 0.9)
        self.sent += 1

    def _send_plain(self, topic):
        if topic.bundle is None or not topic.bundle.open:
            queue = next(topic.queues)
            if not self.sender.bundling:
                self._send_other(topic, pinned=False)
                return
            bundle = self.sender.joinable(1 << 20)
            if bundle is None:
                bundle = Bundle(BundleSettings(IDS, sequenced=True))
                bundle.deadline_s = next(self.deadlines_s)
                self.added_at[bundle] = self.call_count
                self.sender.add_bundle(bundle)
            topic.bundle, topic.row = bundle, bundle.join(queue, topic.plain, lambda _: queue)
        shape = topic.plain.shapes.get("") or topic.plain.shape_of("")
        future = asyncio.get_running_loop().create_future()
        topic.bundle.add(topic.row, b"body", shape, 1, future)

    def _send_other(self, topic, *, pinned):
        queue = next(topic.queues)
        batch = topic.pinned.get(queue) if pinned else topic.batch
        if batch is None or not batch.open:
            batch = CountedBatch(queue, pinned=pinned)
            batch.deadline_s = next(self.deadlines_s)
            self.added_at[batch] = self.call_count
            self.sender.add(batch)
            if pinned:
                topic.pinned[queue] = batch
            else:
                topic.batch = batch
        batch.messages += 1

    def _take_apart(self, bundle):
        since = self.added_at.pop(bundle)
        batches = bundle.take_apart()
        self.added_at.update(dict.fromkeys(batches, since))
        return batches

    def _send(self, call):
        cargo = call.bundle or call.batches
        self.call_count += 1
        if isinstance(cargo, Bundle):
            self.bundle_count += 1
            self._left(cargo)
            cargo.to_wire("", self.sequences)
            rows = list(zip(cargo.queues, cargo._sequences, cargo._counts, strict=True))
        else:
            rows = [self._row_of(batch) for batch in cargo]
        away = {queue for _, each, _ in self.in_flight for queue, _, _ in each}
        assert len(away.union(queue for queue, _, _ in rows)) == len(away) + len(rows)
        fate = self.random.choice(["lost", "stored", "refused"])
        if self.random.random() >= self.failures:
            fate = "told"
        refused = [fate == "refused" and self.random.random() < 0.3 for _ in rows]
        for row, is_refused in zip(rows, refused, strict=True):
            if fate != "lost" and not is_refused:
                self.broker.append(*row)
        self.in_flight.append((call, rows, (fate, refused)))

    def _row_of(self, batch):
        self._left(batch)
        if batch.sequence is None:
            batch.sequence = self.sequences.take(batch.queue, batch.count)
        return batch.queue, batch.sequence, batch.count

    def _left(self, cargo):
        self.waited_max = max(self.waited_max, self.call_count - self.added_at[cargo])

    async def answer(self):
        position = self.random.randrange(len(self.in_flight))
        call, rows, (fate, refused) = self.in_flight.pop(position)
        cargo = batches = call.bundle or call.batches
        if isinstance(cargo, Bundle) and fate != "told":
            self.added_at[cargo] = self.call_count
            batches = self._take_apart(cargo)
        if fate == "told":
            batches = []
        again = []
        for batch, is_refused in zip(batches, refused, strict=False):
            self.added_at[batch] = self.call_count
            batch.maybe_stored |= fate in ("lost", "stored")
            if is_refused and not batch.maybe_stored:
                self.sequences.give_back(batch.queue, batch.sequence)
                batch.sequence = None
            if is_refused or fate in ("lost", "stored"):
                again.append(batch)
        done = sum(each for _, _, each in rows) - sum(batch.count for batch in again)
        self.stored += done
        if again:
            self.sender.add_again(again)
        call.over(call)
        return done


async def run(mixture, in_flight, answers):
    """Have so many messages on their way for so many answers, and then all the others answered."""
    for _ in range(in_flight):
        mixture.send()
    await asyncio.sleep(0)
    while mixture.in_flight:
        done = await mixture.answer()
        if answers:
            answers -= 1
            for _ in range(done):
                mixture.send()
        else:
            mixture.failures = 0.0
        await asyncio.sleep(0)
    mixture.sender.close()


@settings(max_examples=25)
@given(
    topic_count=st.integers(1, 400),
    queue_count=st.integers(1, 3),
    in_flight=st.integers(1, 1500),
    answers=st.integers(0, 60),
    failures=st.sampled_from([0.0, 0.1, 0.5]),
    seed=st.integers(0, 1 << 20),
)
def test_all_is_stored_in_order_and_nobody_starves(
    topic_count, queue_count, in_flight, answers, failures, seed
):
    async def check():
        # What is asserted in a callback is asserted here.
        wrong = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
        mixture = Mixture(seed, topic_count=topic_count, queue_count=queue_count, failures=failures)
        await run(mixture, in_flight, answers)
        assert not wrong
        assert mixture.stored == mixture.sent == sum(mixture.broker.following.values())
        assert failures or mixture.waited_max <= CALLS_WAITED_MAX

    asyncio.run(check())
