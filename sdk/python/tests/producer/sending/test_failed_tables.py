"""Tables that fail or are answered strangely: nobody is told what is not so."""

import asyncio
from itertools import cycle

import grpc
import pytest

from ariane_sdk import Message, Producer, ProducerSettings, errors
from ariane_sdk.producer.sending import append_calls
from ariane_sdk.routing.route import Route

TOPICS = [f"topic-{number}" for number in range(80)]
SENDERS = 640
MORE = 80
"""So many wait behind a call with the messages of all others, and are not half as many."""


@pytest.fixture
def leap(monkeypatch):
    """Put the loop's clock forward: what was to time out by then does so at once."""

    def leap(seconds):
        loop = asyncio.get_running_loop()
        ahead_of = loop.time
        monkeypatch.setattr(loop, "time", lambda: ahead_of() + seconds)

    return leap


@pytest.fixture
def travelled(monkeypatch):
    """The tables that have travelled."""
    seen = []
    encode = append_calls.encode_rows

    def encode_seen(rows, unique_ids):
        seen.append(rows)
        return encode(rows, unique_ids)

    monkeypatch.setattr(append_calls, "encode_rows", encode_seen)
    return seen


def arrived(broker):
    """The records that a broker was sent, stored or not."""
    return b"".join(batch.records for call in broker.calls for batch in call.rows)


async def test_waiting_messages_are_withdrawn_but_not_those_of_repeated_rows(
    many, make_status, leap
):
    broker = many.brokers["broker-a"]
    busy = make_status(grpc.StatusCode.UNAVAILABLE, "SERVICE_BUSY")
    settings = ProducerSettings(call_timeout_s=60.0, send_timeout_s=60.0)
    async with Producer(many.name_servers, settings=settings) as producer:
        for topic in TOPICS:
            await producer.route(topic)
        numbers, topics = iter(range(1 << 30)), cycle(TOPICS)
        late = {}
        answer = asyncio.Event()

        async def send_on():
            for number in numbers:
                try:
                    body = b"<%d>" % number
                    await producer.send(Message(next(topics), body), timeout_s=20.0)
                except errors.SendError as error:
                    late[number] = error
                    return

        senders = [asyncio.create_task(send_on()) for _ in range(SENDERS)]
        await broker.wait_called(8)
        broker.script.extend([busy, *[answer] * 10])
        calls = len(broker.calls)
        # Not before all that may leave has left: what was refused is under way again.
        await broker.wait_called(calls + 2)
        senders += [asyncio.create_task(send_on()) for _ in range(MORE)]
        await asyncio.sleep(0.05)
        leap(20.0)
        await asyncio.wait(senders)
        seen = arrived(broker)
        answer.set()
        await producer.flush()
        assert producer._unsettled.size_bytes == 0
        assert not producer._sending.unsettled
    ever_seen = arrived(broker)
    for number, error in late.items():
        body = b"<%d>" % number
        assert error.outcome_unknown == (body in seen)
        assert error.outcome_unknown or body not in ever_seen
    assert 0 < sum(error.outcome_unknown for error in late.values()) < SENDERS + MORE == len(late)


async def test_of_an_answer_with_too_few_results_nobody_knows_more(many, travelled, monkeypatch):
    broker = many.brokers["broker-a"]
    results_of, cut = broker._results, []

    async def results_with_some_missing(request, step, context):
        results = await results_of(request, step, context)
        if len(travelled) >= 10 and len(results) > 1 and not cut:
            # Of a table they are said together, and none of them is believed.
            cut.append(results)
            return results[:1]
        return results

    monkeypatch.setattr(broker, "_results", results_with_some_missing)
    async with Producer(many.name_servers) as producer:
        for topic in TOPICS:
            await producer.route(topic)
        sends = []
        topics = cycle(TOPICS)

        async def send_on():
            while not cut:
                sends.append(producer.send_nowait(Message(next(topics), b"%d" % len(sends))))
                await asyncio.wait(sends[-1:])

        await asyncio.gather(*(send_on() for _ in range(SENDERS)))
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert (await producer.send(Message(TOPICS[0], b"one more"))).unique_id
        assert producer._unsettled.size_bytes == 0
        assert not producer._sending.unsettled
    failed = [each for each in outcomes if isinstance(each, errors.SendError)]
    assert all(error.outcome_unknown for error in failed)
    assert len(failed) == sum(result.record_count for [*missing] in cut for result in missing)


async def test_waiting_rows_keep_their_order_when_a_call_fails(many, make_status):
    """Who has waited longest for a broker that was away is the first to go to it again."""
    broker = many.brokers["broker-a"]
    busy = make_status(grpc.StatusCode.UNAVAILABLE, "SERVICE_BUSY")
    again = asyncio.Event()
    settings = ProducerSettings(calls_in_flight_max=1, large_calls_in_flight_max=1)
    async with Producer(many.name_servers, settings=settings) as producer:
        for topic in TOPICS:
            await producer.route(topic)
        broker.script.extend([busy, again])
        sends = [producer.send_nowait(Message("topic-0", b"first"))]
        await broker.wait_called(1)
        sends += [producer.send_nowait(Message(topic, b"more")) for topic in TOPICS[1:]]
        await broker.wait_called(2)
        again.set()
        await asyncio.gather(*sends)
    waited = [batch.topic for call in broker.calls for batch in call.rows]
    assert [topic for topic in waited if topic != "topic-0"] == TOPICS[1:]


async def test_withdrawn_messages_do_not_count_when_a_call_fails(many):
    many.brokers["broker-a"].script.append("hang")
    settings = ProducerSettings(call_timeout_s=1.0, large_calls_in_flight_max=1)
    async with asyncio.timeout(60), Producer(many.name_servers, settings=settings) as producer:
        for topic in TOPICS[:3]:
            await producer.route(topic)
        sends = [producer.send_nowait(Message("topic-0", b"hangs"))]
        await asyncio.sleep(0)
        withdrawn = producer.send(Message("topic-1", b"withdrawn"), timeout_s=0.1)
        sends.append(producer.send_nowait(Message("topic-2", b"waits")))
        with pytest.raises(errors.SendError):
            await withdrawn
        # Nobody takes the topic any more.
        producer._intake._topics["topic-1"].follow(Route("topic-1", ()))
        await asyncio.gather(*sends)
    assert sorted(many.brokers["broker-a"].bodies) == [b"hangs", b"waits"]
