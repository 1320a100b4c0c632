"""Very many topics, single sends: each table has a row for many of them, whatever goes wrong."""

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import cycle

import grpc
import pytest

from ariane_sdk import Message, Producer, ProducerSettings, errors
from ariane_sdk.producer.sending import append_calls
from ariane_testkit.append_rows import RowResult

TOPICS = [f"topic-{number}" for number in range(80)]
SENDERS = 640
ROWS_MIN = 40
MORE = 80
"""So many wait behind a call with the messages of all others, and are not half as many."""
QUICK = ProducerSettings(
    call_timeout_s=60, send_timeout_s=90, repeat_delay_s_min=0.01, repeat_delay_s_max=0.05
)


@pytest.fixture
def travelled(monkeypatch):
    """Rows and messages of each table of many rows."""
    seen = []
    encode = append_calls.encode_rows

    def encode_seen(rows, unique_ids):
        if len(rows) >= ROWS_MIN:
            seen.append((len(rows), len(unique_ids)))
        return encode(rows, unique_ids)

    monkeypatch.setattr(append_calls, "encode_rows", encode_seen)
    return seen


class Senders:
    """Send one after the other, all at the same time, over all topics."""

    def __init__(self, producer, message_count, *, topics=TOPICS):
        self.producer = producer
        self.message_count = message_count
        self.sent_count = self.waiting_count = 0
        self.topics = topics
        self.next_topic = cycle(topics)
        self.results = {}
        self.errors = {}

    async def run(self, sender_count=SENDERS):
        for topic in self.topics:
            await self.producer.route(topic)
        await asyncio.gather(*(self._send_on() for _ in range(sender_count)))

    async def _send_on(self):
        while self.sent_count < self.message_count:
            number, self.sent_count = self.sent_count, self.sent_count + 1
            topic = next(self.next_topic)
            self.waiting_count += 1
            try:
                result = await self.producer.send(Message(topic, b"%d" % number, tag="t"))
            except errors.SendError as error:
                self.errors[number] = error
            else:
                self.results[number] = (topic, result)
            finally:
                self.waiting_count -= 1


def check_stored(broker, senders):
    """Each is where its result says, once."""
    for number, (topic, result) in senders.results.items():
        queue = result.message_queue
        assert queue.topic == topic
        stored = broker.queues[topic, queue.queue_id][result.queue_offset]
        assert (stored.body, stored.tag) == (b"%d" % number, "t")
        assert stored.unique_id == result.unique_id
    found = Counter(broker.bodies)
    assert max(found.values()) == 1
    assert found.keys() >= {b"%d" % number for number in senders.results}


def check_numbers(broker):
    """The numbers of each queue go on without a gap, in each epoch."""
    following = Counter()
    for batch in (batch for call in broker.calls for batch in call.rows):
        sequence = batch.sequence
        key = (batch.topic, batch.queue_id, sequence.producer_epoch)
        assert sequence.first_sequence == following[key]
        following[key] += len(batch.key_counts)


async def wait_until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - there is nothing to be told by.
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("idempotent", [False, True])
async def test_each_is_stored_where_its_result_says(many, travelled, idempotent):
    broker = many.brokers["broker-a"]
    # A busy machine makes calls slow; repeated without numbers, they would be stored twice.
    settings = ProducerSettings(idempotent=idempotent, call_timeout_s=30.0, send_timeout_s=60.0)
    async with Producer(many.name_servers, settings=settings) as producer:
        senders = Senders(producer, 6000)
        await senders.run()
    assert len(senders.results) == 6000
    check_stored(broker, senders)
    assert sum(messages for _, messages in travelled) > 3000
    batches = [batch for call in broker.calls for batch in call.rows]
    assert {batch.sequence is not None for batch in batches} == {idempotent}
    if idempotent:
        check_numbers(broker)


async def test_a_lost_request_has_each_batch_repeated_under_its_numbers(many, travelled):
    broker = many.brokers["broker-a"]
    settings = replace(QUICK, call_timeout_s=1.0, send_timeout_s=10.0)
    async with Producer(many.name_servers, settings=settings) as producer:
        senders = Senders(producer, 6000)
        broker.script.extend(["store"] * 3 + ["hang"] + ["store"] * 2 + ["hang"])
        await senders.run()
    assert not senders.errors
    assert len(senders.results) == 6000
    check_stored(broker, senders)
    places = Counter(
        (batch.topic, batch.queue_id, batch.sequence.first_sequence, batch.records)
        for call in broker.calls
        for batch in call.rows
    )
    assert sum(times - 1 for times in places.values()) >= 2
    assert {batch.sequence.producer_epoch for call in broker.calls for batch in call.rows} == {0}
    assert travelled


async def test_a_stream_that_breaks_leaves_nobody_without_an_outcome(many, travelled):
    broker = many.brokers["broker-a"]
    async with Producer(many.name_servers, settings=QUICK) as producer:
        senders = Senders(producer, 4000)
        broker.script.extend((["store"] * 4 + [grpc.StatusCode.INTERNAL]) * 3)
        await senders.run()
    assert {*senders.results, *senders.errors} == set(range(4000))
    check_stored(broker, senders)
    assert travelled


class Refusing:
    """Has a broker refuse the batches of some topics."""

    def __init__(self, broker, status, topics):
        self.refused = 0
        self._store = broker._store
        self._status = status
        self.topics = topics
        broker._store = self.store

    def store(self, batch):
        if batch.topic not in self.topics:
            return self._store(batch)
        self.refused += 1
        return RowResult(error=self._status)


async def test_a_refused_batch_takes_no_other_with_it(many, travelled, make_status):
    broker = many.brokers["broker-a"]
    status = make_status(grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE_TOO_LARGE")
    refusing = Refusing(broker, status, {"topic-7"})
    async with Producer(many.name_servers, settings=QUICK) as producer:
        senders = Senders(producer, 4000)
        await senders.run()
        assert await producer.send(Message("topic-8", b"one more"))
    assert refusing.refused
    assert set(senders.errors) == {number for number in range(4000) if number % len(TOPICS) == 7}
    for error in senders.errors.values():
        assert (error.reason, error.outcome_unknown) == ("MESSAGE_TOO_LARGE", False)
    check_stored(broker, senders)
    assert travelled


async def test_a_topic_that_nobody_takes_keeps_no_other_waiting(many, travelled, make_status):
    """Its batches are repeated; meanwhile the others go on."""
    broker = many.brokers["broker-a"]
    status = make_status(grpc.StatusCode.UNAVAILABLE, "STORE_FULL")
    refusing = Refusing(broker, status, {"topic-7"})
    async with Producer(many.name_servers, settings=QUICK) as producer:
        others = [topic for topic in TOPICS if topic != "topic-7"]
        stuck = [producer.send_nowait(Message("topic-7", b"stuck %d" % n)) for n in range(20)]
        senders = Senders(producer, 5000, topics=others)
        await senders.run()
        assert len(senders.results) == 5000
        assert not any(future.done() for future in stuck)
        refusing.topics.clear()
        await asyncio.gather(*stuck)
    check_stored(broker, senders)
    assert travelled


class GoneAfter:
    """The script of a broker that takes some calls and is gone then, until ``is_back``."""

    def __init__(self, count, is_back):
        self._count = count
        self._is_back = is_back

    def __bool__(self):
        return self._count > 0 or not self._is_back()

    def popleft(self):
        self._count -= 1
        return "store" if self._count >= 0 else grpc.StatusCode.UNAVAILABLE


async def test_where_a_broker_is_gone_those_that_wait_for_it_go_elsewhere(two_brokers, travelled):
    a, b = two_brokers.brokers["broker-a"], two_brokers.brokers["broker-b"]
    topics = [f"topic-{number}" for number in range(2 * len(TOPICS))]
    for topic in topics:
        two_brokers.name_server.set_route(topic, {"broker-a": a.address, "broker-b": b.address})
    settings = replace(QUICK, send_timeout_s=30)
    async with Producer(two_brokers.name_servers, settings=settings) as producer:
        senders = Senders(producer, 6000, topics=topics)
        a.script = GoneAfter(2, is_back=lambda: len(b.messages) > 2000)
        await senders.run(2 * SENDERS)
    assert {*senders.results, *senders.errors} == set(range(6000))
    # What may be stored goes nowhere else: that was in flight, and nothing that waited.
    assert all(error.outcome_unknown for error in senders.errors.values())
    assert len(senders.errors) < 2 * SENDERS
    assert a.script._count < 0
    assert travelled


@pytest.fixture
async def held(many, travelled, leaping_clock):
    """A producer whose first table is in flight, and others wait behind them."""
    broker = many.brokers["broker-a"]
    settings = ProducerSettings(call_timeout_s=100.0, send_timeout_s=100.0)
    async with Producer(many.name_servers, settings=settings, clock=leaping_clock) as producer:
        senders = Senders(producer, 1 << 30)
        running = asyncio.create_task(senders.run())
        await wait_until(lambda: len(travelled) >= 10)
        answer = asyncio.Event()
        broker.script.extend([answer] * 2)
        calls = len(broker.calls)
        await broker.wait_called(calls + 1)
        await wait_until(lambda: senders.waiting_count == SENDERS)
        more = asyncio.gather(*(senders._send_on() for _ in range(MORE)))
        await wait_until(lambda: senders.waiting_count == SENDERS + MORE)
        senders.message_count = 0
        yield producer, senders, running, answer
        answer.set()
        running.cancel()
        more.cancel()


async def test_flush_waits_for_what_waits(held):
    producer, _, running, answer = held
    flushing = asyncio.create_task(producer.flush())
    await asyncio.sleep(0.05)
    assert not flushing.done()
    answer.set()
    await asyncio.wait_for(flushing, 60)
    await asyncio.wait_for(running, 60)


async def test_closing_tells_what_has_left_from_what_has_not(held):
    producer, senders, running, _ = held
    closing = asyncio.create_task(producer.close())
    await asyncio.sleep(0.05)
    closing.cancel()
    await asyncio.wait_for(running, 60)
    unknown = Counter(error.outcome_unknown for error in senders.errors.values())
    assert unknown[True]
    assert unknown[False]
    assert sum(unknown.values()) <= SENDERS + MORE


async def test_a_message_cancelled_before_its_row_is_sent_is_not_stored(many, held):
    producer, _, running, answer = held
    sends = [asyncio.create_task(producer.send(Message(TOPICS[n], b"late"))) for n in range(40)]
    await asyncio.sleep(0.05)
    for send in sends[::2]:
        send.cancel()
    answer.set()
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    await asyncio.wait_for(running, 60)
    stored = Counter(many.brokers["broker-a"].bodies)[b"late"]
    assert stored == 20
    assert [isinstance(each, asyncio.CancelledError) for each in outcomes] == [True, False] * 20
    await producer.flush()
    assert producer._unsettled.size_bytes == 0


async def test_rows_whose_time_is_up_are_given_up(many, held, leaping_clock):
    producer, senders, running, answer = held
    leaping_clock.ahead_s += 200.0
    answer.set()
    await asyncio.wait_for(running, 60)
    assert senders.errors
    for error in senders.errors.values():
        assert (error.reason, error.outcome_unknown) == ("DEADLINE_PASSED", False)
    assert producer._unsettled.size_bytes == 0
    check_stored(many.brokers["broker-a"], senders)


@pytest.mark.parametrize("limit", ["batch_bytes_max", "request_bytes_max"])
async def test_large_bodies_fill_a_table(many, limit):
    broker = many.brokers["broker-a"]
    settings = ProducerSettings(**{limit: 100_000})
    await send_large_bodies(many, settings)
    assert max(len(call.rows) for call in broker.calls) > 8
    for call in broker.calls:
        sizes = [len(batch.records) for batch in call.rows]
        assert (sum(sizes) if limit == "request_bytes_max" else max(sizes)) <= 101_000


async def send_large_bodies(many, settings):
    async with Producer(many.name_servers, settings=settings) as producer:
        for topic in TOPICS:
            await producer.route(topic)
        left = iter(range(3000))

        async def send_on():
            for number in left:
                await producer.send(Message(TOPICS[number % len(TOPICS)], b"%d" % number * 700))

        await asyncio.gather(*(send_on() for _ in range(800)))
    bodies = many.brokers["broker-a"].bodies
    assert len(bodies) == len(set(bodies)) == 3000
