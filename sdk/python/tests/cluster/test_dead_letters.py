"""Dead letters read and sent back, by both clients."""

import asyncio
import itertools
from collections import Counter

import pytest

from ariane_sdk import (
    ClusterClient,
    DeadLetterFilter,
    DeadLetters,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
    sync,
)
from ariane_sdk.cluster import dead_letters as _dead_letters
from ariane_sdk.errors import MessagesFailed

_numbers = itertools.count()
BRISK = PushSettings(rebalance_gap_s_min=0.05, handover_s=0.1, offset_store_interval_s=0.2)


@pytest.fixture
async def died(cluster):
    """A topic and a group that has given up 60 messages of it."""
    name = f"dying-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name, queue_count=2)
    async with Producer(cluster.name_servers) as producer:
        await producer.send_batch(
            [Message(name, b"%d" % number, keys=(f"k{number}",)) for number in range(60)]
        )
    count, done = 0, asyncio.Event()

    async def reject(messages):
        nonlocal count
        count += len(messages)
        if count >= 60:
            done.set()
        raise MessagesFailed(messages, "broken", rejected=True)

    async with PushConsumer(
        cluster.name_servers,
        group=name,
        subscriptions={name: "*"},
        listener=reject,
        start="earliest",
        settings=BRISK,
    ) as consumer:
        await asyncio.wait_for(done.wait(), 60)
        async with DeadLetters(cluster.name_servers) as letters:
            async with asyncio.timeout(60):
                while True:
                    if len([letter async for letter in letters.read(name)]) == 60:
                        break
                    await asyncio.sleep(0.02)
        await consumer.store_offsets()
    return name


async def bodies_of(cluster, topic):
    async with _dead_letters.QueueReader(cluster.name_servers) as reader:
        found = Counter()
        for queue, (begin, end) in (await reader.bounds(topic)).items():
            async for columns in reader.read_range(queue, begin, end):
                found.update(view.body for view in columns.iter_messages())
        return found


async def test_what_a_dead_letter_says(cluster, died):
    async with DeadLetters(cluster.name_servers) as letters:
        [letter] = [one async for one in letters.read(died, DeadLetterFilter(key="k7"))]
        assert (letter.topic, letter.reason, letter.last_error) == (died, "REJECTED", "broken")
        assert letter.message.body == b"7"
        origin = await letters.find_message(letter.origin_message_id, topic=died)
        assert (origin.queue_id, origin.queue_offset) == (letter.queue_id, letter.queue_offset)
        assert origin.body == b"7"
        assert [one async for one in letters.read("nobody-at-all")] == []


async def test_chunks_tell_how_far_a_search_has_come_that_finds_nothing(cluster, died):
    rare, whole = DeadLetterFilter(key="nobody has it"), DeadLetterFilter()
    async with DeadLetters(cluster.name_servers) as letters:
        found = [one async for one in letters.chunks(died, whole)]
        nothing = [one async for one in letters.chunks(died, rare)]
        assert sum(len(chunk.letters) for chunk in found) == 60
        assert sum(len(chunk.letters) for chunk in nothing) == 0
        assert [(one.queue, one.last) for one in nothing] == [
            (one.queue, one.last) for one in found
        ]
        behind = DeadLetterFilter(behind=(nothing[0].queue, nothing[0].last))
        rest = [one async for one in letters.chunks(died, behind)]
        assert [chunk.queue for chunk in rest] == [chunk.queue for chunk in found[1:]]


@pytest.mark.parametrize("word", ["topic", "key", "reason"])
def test_records_that_say_a_word_nowhere_hold_none_that_is_meant(word):
    records = b"...KEYS\x01k7 k8\x02DLQ_REASON\x01REJECTED\x02DLQ_ORIGIN_TOPIC\x01orders\x02"
    said = {"topic": "orders", "key": "k8", "reason": "REJECTED"}[word]
    assert DeadLetterFilter().may_be_among(records)
    assert DeadLetterFilter(**{word: said}).may_be_among(records)
    assert not DeadLetterFilter(**{word: said + "x"}).may_be_among(records)


async def test_sent_back_in_parts_and_interrupted_each_comes_once(cluster, died, monkeypatch):
    monkeypatch.setattr(_dead_letters, "REDRIVE_COUNT", 7)
    told = []

    def tell(progress):
        told.append(progress.redriven_count)
        if progress.redriven_count >= 20:
            raise KeyError("interrupted")

    async with DeadLetters(cluster.name_servers) as letters:
        with pytest.raises(KeyError):
            await letters.redrive(died, to_topic=True, on_progress=tell)
        first = told[-1]
        done = await letters.redrive(died, to_topic=True)
    assert (done.redriven_count, done.duplicate_count) == (60 - first, first)
    assert told == sorted(told)
    assert await bodies_of(cluster, died) == {b"%d" % number: 2 for number in range(60)}


async def test_who_is_interrupted_goes_on_behind_what_was_reached(cluster, died, monkeypatch):
    monkeypatch.setattr(_dead_letters, "REDRIVE_COUNT", 7)
    now = None

    def stop(progress):
        nonlocal now
        now = progress
        raise KeyError("interrupted")

    async with DeadLetters(cluster.name_servers) as letters:
        places = [(one.message_queue, one.message.queue_offset) async for one in letters.read(died)]
        await letters.redrive(died)
        behind, seen = None, 0
        for _ in range(100):
            try:
                await letters.redrive(died, DeadLetterFilter(behind=behind), on_progress=stop)
            except KeyError:
                seen += now.duplicate_count
                behind = now.reached
            else:
                break
            rest = [
                (one.message_queue, one.message.queue_offset)
                async for one in letters.read(died, DeadLetterFilter(behind=behind))
            ]
            assert rest == places[seen:]
        assert (seen, behind) == (60, places[-1])


async def test_without_a_loop(cluster, died):
    def work():
        with sync.DeadLetters(cluster.name_servers) as letters:
            key7 = DeadLetterFilter(key="k7")
            keys = [letter.message.keys for letter in letters.read(died, key7)]
            return keys, letters.redrive(died, key7, to_topic=True).redriven_count

    assert await asyncio.to_thread(work) == ([("k7",)], 1)
    assert (await bodies_of(cluster, died))[b"7"] == 2
