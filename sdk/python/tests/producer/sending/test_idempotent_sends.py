"""Every message stored once: lost answers, refusals, brokers that are killed."""

import asyncio
from collections import Counter
from contextlib import closing, suppress
from dataclasses import replace
from random import Random
from tempfile import TemporaryDirectory

import grpc
import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    QueueReader,
    errors,
)
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

QUICK = ProducerSettings(
    call_timeout_s=1, send_timeout_s=60, repeat_delay_s_min=0.01, repeat_delay_s_max=0.05
)
PATIENT = replace(QUICK, call_timeout_s=60.0, send_timeout_s=90.0)
STUBBORN = ProducerSettings(
    call_timeout_s=1.0,
    send_timeout_s=100.0,
    repeat_delay_s_min=0.01,
    repeat_delay_s_max=0.1,
    batch_bytes_max=20_000,
    calls_in_flight_max=3,
)
MESSAGE = Message("orders", b"one")


def places(broker):
    """Queue and sequence of all batches that a broker was sent, in order."""
    return [
        (
            batch.queue_id,
            batch.sequence.producer_epoch,
            batch.sequence.first_sequence,
        )
        for call in broker.calls
        for batch in call.rows
    ]


async def test_a_repeat_has_the_same_numbers_in_the_same_queue(world):
    broker = world.brokers["broker-a"]
    broker.script.extend(["store and hang", grpc.StatusCode.UNAVAILABLE])
    async with Producer(world.name_servers, settings=QUICK) as producer:
        result = await producer.send(MESSAGE, message_queue=MessageQueue("orders", "broker-a", 1))
    assert result.message_queue == MessageQueue("orders", "broker-a", 1)
    assert places(broker) == [(1, 0, 0)] * 3
    assert len({call.rows[0].sequence.producer_id for call in broker.calls}) == 1


async def test_a_row_that_may_be_stored_stays_at_its_broker(two_brokers):
    brokers = two_brokers.brokers.values()
    for broker in brokers:
        broker.script.append("store and hang")
    async with Producer(two_brokers.name_servers, settings=QUICK) as producer:
        await producer.send(MESSAGE)
    [asked] = [broker for broker in brokers if broker.calls]
    first, second = places(asked)
    assert first == second


async def test_a_row_surely_not_stored_goes_elsewhere_and_leaves_no_gap(two_brokers, make_status):
    busy = make_status(grpc.StatusCode.UNAVAILABLE, "SERVICE_BUSY")
    settings = replace(QUICK, avoid_broker_s=0.0)
    brokers = two_brokers.brokers
    for broker in brokers.values():
        broker.script.append([busy])
    async with Producer(two_brokers.name_servers, settings=settings) as producer:
        for _ in range(12):
            await producer.send(MESSAGE)
    for broker in brokers.values():
        numbers = {}
        # The refused batch is the first one of its queue; its number comes again.
        for queue_id, epoch, first_sequence in places(broker)[1:]:
            assert (epoch, first_sequence) == (0, numbers.get(queue_id, 0))
            numbers[queue_id] = first_sequence + 1
    assert sum(len(broker.messages) for broker in brokers.values()) == 12


async def test_after_an_unknown_outcome_the_stream_begins_anew(world, leaping_clock):
    broker = world.brokers["broker-a"]
    queue = MessageQueue("orders", "broker-a", 0)
    async with Producer(world.name_servers, settings=PATIENT, clock=leaping_clock) as producer:
        await producer.send(MESSAGE, message_queue=queue)
        broker.script.extend([grpc.StatusCode.UNAVAILABLE] * 200)
        send = producer.send_nowait(MESSAGE, message_queue=queue)
        await broker.wait_called(12)
        leaping_clock.ahead_s += PATIENT.send_timeout_s
        with pytest.raises(errors.SendError) as caught:
            await send
        assert caught.value.outcome_unknown
        broker.script.clear()
        await producer.send(MESSAGE, message_queue=queue)
        await producer.send(MESSAGE, message_queue=queue)
    assert set(places(broker)[1:-2]) == {(0, 0, 1)}
    assert places(broker)[-2:] == [(0, 1, 0), (0, 1, 1)]


async def test_a_forgotten_stream_begins_anew_by_itself(world, make_status):
    broker = world.brokers["broker-a"]
    gap = make_status(grpc.StatusCode.FAILED_PRECONDITION, "SEQUENCE_GAP", expected="0", actual="1")
    queue = MessageQueue("orders", "broker-a", 0)
    async with Producer(world.name_servers, settings=QUICK) as producer:
        await producer.send(MESSAGE, message_queue=queue)
        broker.script.append([gap])
        await producer.send(MESSAGE, message_queue=queue)
        assert places(broker) == [(0, 0, 0), (0, 0, 1), (0, 1, 0)]
        broker.script.extend([[gap]] * 10)
        with pytest.raises(errors.SendError) as caught:
            await producer.send(MESSAGE, message_queue=queue)
        assert (caught.value.reason, caught.value.outcome_unknown) == ("SEQUENCE_GAP", False)
        assert len(broker.calls) == 6


async def test_a_producer_whose_sequences_were_forgotten_sends_nevertheless(world, make_status):
    """A broker forgets a stream after an hour; elsewhere the message would find the same."""
    broker = world.brokers["broker-a"]
    gap = make_status(grpc.StatusCode.FAILED_PRECONDITION, "SEQUENCE_GAP", expected="0", actual="1")
    async with Producer(world.name_servers, settings=QUICK) as producer:
        for _ in range(8):
            await producer.send(MESSAGE)
        broker.script.append([gap])
        await producer.send(MESSAGE)
    (queue_id, *refused), anew = places(broker)[-2:]
    assert refused[1] > 0
    assert anew == (queue_id, 1, 0)


@pytest.mark.parametrize(
    ("metadata", "unknown"),
    [
        ({"expected": "0"}, True),
        ({"expected": "0", "known_for_ms": "900"}, True),
        # It was silent for long, and the connection broke meanwhile: nothing is stored.
        ({"expected": "0", "known_for_ms": "3600000"}, False),
        ({"expected": "1", "known_for_ms": "3600000"}, False),
        # The topic was deleted and made anew: the batch may have gone with the old one.
        ({"expected": "0", "known_for_ms": "0"}, True),
        ({"expected": "1", "known_for_ms": "0"}, True),
    ],
)
async def test_a_gap_after_an_unknown_outcome(world, make_status, metadata, unknown):
    broker = world.brokers["broker-a"]
    gap = make_status(grpc.StatusCode.FAILED_PRECONDITION, "SEQUENCE_GAP", **metadata)
    queue = MessageQueue("orders", "broker-a", 0)
    async with Producer(world.name_servers, settings=QUICK) as producer:
        for _ in range(2):
            await producer.send(MESSAGE, message_queue=queue)
        broker.script.extend([grpc.StatusCode.UNAVAILABLE, [gap]])
        sent = producer.send_nowait(MESSAGE, message_queue=queue)
        if unknown:
            # The batch may be stored and forgotten.
            with pytest.raises(errors.SendError) as caught:
                await sent
            assert caught.value.outcome_unknown
        else:
            # The broker has known all batches since it was sent, and it is not among them.
            await sent
            assert places(broker)[-1] == (0, 1, 0)


async def test_an_unconfirmed_flush_is_asked_for_again(world, make_status):
    unconfirmed = make_status(grpc.StatusCode.DEADLINE_EXCEEDED, "FLUSH_UNCONFIRMED")
    broker = world.brokers["broker-a"]
    broker.script.append([unconfirmed])
    async with Producer(world.name_servers, settings=QUICK) as producer:
        await producer.send(MESSAGE)
    first, second = places(broker)
    assert first == second


async def test_passed_numbers_are_an_unknown_outcome(world, make_status):
    passed = make_status(grpc.StatusCode.ALREADY_EXISTS, "SEQUENCE_PASSED")
    world.brokers["broker-a"].script.append([passed])
    async with Producer(world.name_servers, settings=QUICK) as producer:
        with pytest.raises(errors.SendError) as caught:
            await producer.send(MESSAGE)
    assert caught.value.outcome_unknown


async def test_without_it_nothing_is_numbered(world):
    async with Producer(
        world.name_servers, settings=ProducerSettings(idempotent=False)
    ) as producer:
        await producer.send(MESSAGE)
    [call] = world.brokers["broker-a"].calls
    assert call.rows[0].sequence is None
    [stored] = world.brokers["broker-a"].messages
    assert "__PSEQ#" not in stored.properties


async def test_closing_tells_refused_from_unknown(world, make_status):
    busy = make_status(grpc.StatusCode.UNAVAILABLE, "SERVICE_BUSY")
    broker = world.brokers["broker-a"]
    zero, one = (MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1))
    settings = replace(QUICK, send_timeout_s=60.0, repeat_delay_s_min=30.0, repeat_delay_s_max=60.0)
    producer = Producer(world.name_servers, settings=settings)
    await producer.start()
    broker.script.extend([[busy], "hang"])
    refused = producer.send_nowait(MESSAGE, message_queue=zero)
    await broker.wait_called(1)
    hanging = producer.send_nowait(MESSAGE, message_queue=one)
    await broker.wait_called(2)
    closing = asyncio.create_task(producer.close())
    await asyncio.sleep(0)
    await producer._sending.close()
    for sent, unknown in ((refused, False), (hanging, True)):
        with pytest.raises(errors.SendError) as caught:
            await sent
        assert caught.value.outcome_unknown is unknown
    await closing


class LossyProxy:
    """Between clients and one broker: passes requests on, and now and then no answer."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.target = ""
        self.lost = 0
        self.lossy = True
        self._server = None
        self._tasks = set()

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    async def stop(self):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        with closing(writer), suppress(OSError):
            host, _, port = self.target.rpartition(":")
            upstream, to_broker = await asyncio.open_connection(host, int(port))
            with closing(to_broker):
                await self._pass_on(reader, writer, upstream, to_broker)

    async def _pass_on(self, reader, writer, upstream, to_broker):
        answers_left = self.random.randint(4, 12)

        async def pass_answers():
            nonlocal answers_left
            while octets := await upstream.read(1 << 16):
                answers_left -= 1
                if answers_left < 0 and self.lossy:
                    # The broker has done what it was asked; the client never learns it.
                    self.lost += 1
                    return
                writer.write(octets)
                await writer.drain()

        async def pass_requests():
            while octets := await reader.read(1 << 16):
                to_broker.write(octets)
                await to_broker.drain()

        passing = [asyncio.create_task(pass_answers()), asyncio.create_task(pass_requests())]
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)


@pytest.fixture
async def lossy(tmp_path):
    """A cluster of one broker that clients reach through a proxy that loses answers."""
    proxy = LossyProxy(seed=7)
    address = await proxy.start()
    try:
        with TemporaryDirectory() as folder:
            async with LocalCluster(
                tmp_path / folder,
                extra_broker_args=(*SMALL_STORE, "--advertised-address", address),
            ) as cluster:
                proxy.target = cluster.brokers[0].address
                yield cluster, proxy
    finally:
        await proxy.stop()


async def stored(cluster, topics=("orders",)):
    """All bodies, queue by queue."""
    found = {}
    async with QueueReader(cluster.name_servers) as reader:
        for topic in topics:
            for queue, (begin, end) in (await reader.bounds(topic)).items():
                found[queue] = []
                async for columns in reader.read_range(queue, begin, end):
                    found[queue] += [columns.message(row).body for row in range(len(columns))]
    return found


def check_exactly_once(found, count, groups):
    counts = Counter(body for bodies in found.values() for body in bodies)
    expected = {b"%d" % number for number in range(count)}
    assert set(counts) == expected
    assert max(counts.values()) == 1
    for bodies in found.values():
        for group in range(groups):
            numbers = [int(body) for body in bodies if int(body) % groups == group]
            assert numbers == sorted(numbers)


def grouped(number, groups):
    """The first groups keep their order, the last ones go anywhere."""
    group = number % groups
    return Message("orders", b"%d" % number, message_group=f"g{group}" if group < 3 else "")


async def test_lost_answers_store_nothing_twice(lossy):
    cluster, proxy = lossy
    count = 3000
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic("orders")
    async with Producer(cluster.name_servers, settings=STUBBORN) as producer:
        results = []
        for start in range(0, count, 30):
            sends = [producer.send_nowait(grouped(n, 6)) for n in range(start, start + 30)]
            results += await asyncio.gather(*sends)
    proxy.lossy = False
    found = await stored(cluster)
    assert proxy.lost >= LOST_MIN
    assert any(result.duplicate for result in results)
    counts = Counter(body for bodies in found.values() for body in bodies)
    assert (len(counts), max(counts.values())) == (count, 1)
    for number, result in enumerate(results):
        assert found[result.message_queue][result.queue_offset] == b"%d" % number
    for bodies in found.values():
        for group in range(3):
            numbers = [int(body) for body in bodies if int(body) % 6 == group]
            assert numbers == sorted(numbers)


@pytest.mark.slow
async def test_a_killed_broker_stores_nothing_twice(lossy):
    cluster, proxy = lossy
    [broker] = cluster.brokers
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic("orders")
    async with Producer(cluster.name_servers, settings=STUBBORN) as producer:
        sends = []

        async def send_on():
            for number in range(4000):
                sends.append(producer.send_nowait(grouped(number, 3)))
                if number % 40 == 39:
                    await asyncio.sleep(0.01)

        sending = asyncio.create_task(send_on())
        for _ in range(3):
            await asyncio.sleep(0.15)
            broker.kill()
            await broker.wait()
            await broker.restart()
        await sending
        await asyncio.gather(*sends)
    proxy.lossy = False
    check_exactly_once(await stored(cluster), 4000, 3)


LOST_MIN = 2
"""Of some twenty calls, each with the messages of all senders."""


@pytest.mark.slow
async def test_tables_whose_answers_are_lost_or_whose_broker_is_killed_are_stored_once(lossy):
    cluster, proxy = lossy
    proxy.lossy = False
    [broker] = cluster.brokers
    topics = [f"topic-{number}" for number in range(80)]
    async with ClusterClient(cluster.name_servers) as client:
        for topic in topics:
            await client.create_topic(topic)
    random = Random(7)
    results, failures, numbers = {}, {}, iter(range(12_000))

    async def send_on(producer):
        for number in numbers:
            message = Message(random.choice(topics), b"%d" % number)
            timeout_s = 0.02 if random.random() < 0.05 else None
            try:
                results[number] = await producer.send(message, timeout_s=timeout_s)
            except errors.SendError as error:
                failures[number] = error

    settings = replace(STUBBORN, batch_bytes_max=2 << 20, calls_in_flight_max=1)
    async with Producer(cluster.name_servers, settings=settings) as producer:
        for topic in topics:
            await producer.route(topic)
        proxy.lossy = True
        sending = asyncio.gather(*(send_on(producer) for _ in range(700)))
        while proxy.lost < LOST_MIN and not sending.done():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
        broker.kill()
        await broker.wait()
        await broker.restart()
        await sending
        proxy.lossy = False
        await producer.flush()
        assert producer._unsettled.size_bytes == 0
    found = await stored(cluster, topics)
    counts = Counter(body for bodies in found.values() for body in bodies)
    assert max(counts.values()) == 1
    for number, result in results.items():
        assert found[result.message_queue][result.queue_offset] == b"%d" % number
    for number, error in failures.items():
        assert error.outcome_unknown or b"%d" % number not in counts
    assert proxy.lost >= LOST_MIN
    assert any(result.duplicate for result in results.values())
