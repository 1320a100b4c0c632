"""A sender with rows of any kind, and calls that fail: each queue keeps its order."""

import asyncio
from collections import Counter
from itertools import cycle
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ariane_record.encoding.message_properties import TopicProperties
from ariane_sdk import ProducerSettings
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.sending.sender import Sender
from ariane_sdk.producer.sending.unsettled import QueueSequences
from ariane_sdk.runtime.clock import SystemClock

CALLS_WAITED_MAX = 8
"""Those in flight, and one after the other for a queue."""


class Topic:
    """What a producer knows of a topic: its queues, and its open rows."""

    def __init__(self, number, queue_count):
        name = f"topic-{number}"
        self.queues = cycle([MessageQueue(name, "broker-a", each) for each in range(queue_count)])
        self.properties = TopicProperties(name, id_bytes=32, sequenced=True)
        self.row = None
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
    """A producer and a broker: rows of any kind, and calls that fail as a whole or in part."""

    def __init__(self, seed, *, topic_count, queue_count, failures):
        self.random = Random(seed)
        self.topics = [Topic(number, queue_count) for number in range(topic_count)]
        self.sequences = QueueSequences(7)
        self.broker = Broker()
        self.failures = failures
        self.in_flight = []
        self.call_count = 0
        self.added_at = {}
        self.waited_max = 0
        self.sent = self.stored = 0
        self.sender = Sender(
            "broker-a",
            self._send,
            settings=ProducerSettings(request_bytes_max=1 << 26),
            clock=SystemClock(),
        )

    def send(self):
        topic = self.random.choice(self.topics)
        pinned = self.random.random() < 0.1
        queue = next(topic.queues)
        row = topic.pinned.get(queue) if pinned else topic.row
        if row is None or not row.open:
            choose_other = None if pinned else lambda _: next(topic.queues)
            row = Row(queue, topic.properties, choose_other=choose_other, sequenced=True)
            self.added_at[row] = self.call_count
            self.sender.accumulator.add(row)
            if pinned:
                topic.pinned[queue] = row
            else:
                topic.row = row
        row.add(b"body", topic.properties.of_tag(""), 1, None)
        self.sent += 1

    def _send(self, call):
        self.call_count += 1
        rows = [self._row_of(row) for row in call.rows]
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

    def _row_of(self, row):
        self.waited_max = max(self.waited_max, self.call_count - self.added_at[row])
        if row.sequence is None:
            self.sequences.number(row)
        return row.queue, row.sequence, row.count

    async def answer(self):
        position = self.random.randrange(len(self.in_flight))
        call, rows, (fate, refused) = self.in_flight.pop(position)
        again = []
        for row, is_refused in zip(call.rows, refused, strict=True):
            if fate == "told":
                continue
            self.added_at[row] = self.call_count
            row.maybe_stored |= fate in ("lost", "stored")
            if is_refused and not row.maybe_stored:
                self.sequences.free(row)
                row.sequence = None
            if is_refused or fate in ("lost", "stored"):
                again.append(row)
        done = sum(each for _, _, each in rows) - sum(row.count for row in again)
        self.stored += done
        if again:
            self.sender.accumulator.add_again(again)
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
