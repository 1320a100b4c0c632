"""Messages that consumers may have died of: told to the broker first, and alone in work."""

import asyncio

import pytest

from ariane_record.names import retry_topic
from ariane_sdk import MessageQueue, PushSettings
from ariane_sdk.client.caution import NO_CAUTION, Caution
from ariane_sdk.consumer.delivery.hand_out import DeliveryCare, DeliveryGate, HandOut
from ariane_sdk.consumer.delivery.holding import Holding
from ariane_sdk.consumer.delivery.queue_work import ListenerParts, QueueWork
from ariane_sdk.consumer.delivery.window import QueueWindow
from ariane_sdk.errors import ServiceUnavailable

QUEUE = MessageQueue("orders", "broker-a", 0)


class Stub:
    """A message with nothing but a place, and what is said of it."""

    def __init__(self, queue_offset, properties=()):
        self.queue_offset = queue_offset
        self.size_bytes = 1
        self.properties = dict(properties)
        self.topic = "orders"


class Scene:
    """A listener and a broker that write down what they are told, in one list."""

    def __init__(self):
        self.happened = []
        self.deaf = 0
        self.gate = DeliveryGate()
        self.changed = asyncio.Condition()

    async def deliver(self, messages):
        offsets = tuple(message.queue_offset for message in messages)
        await self.note("given", *offsets)

    async def tell(self, queue, consumer_offset, in_work):
        assert queue.topic
        if self.deaf:
            self.deaf -= 1
            raise ServiceUnavailable("not now", retriable=True)
        await self.note("told", consumer_offset, *in_work)

    async def note(self, *what):
        async with self.changed:
            self.happened.append(what)
            self.changed.notify_all()

    async def wait(self, condition):
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(condition)

    def given(self):
        return [offset for kind, *offsets in self.happened if kind == "given" for offset in offsets]

    def work(self, caution=NO_CAUTION, *, queue=QUEUE, batch_size=4, begin=0, **settings):
        return QueueWork(
            queue,
            begin,
            ListenerParts(
                deliver=self.deliver,
                batch_size=batch_size,
                settings=PushSettings(**settings),
                holding=Holding("g"),
            ),
            on_room=lambda: None,
            care=DeliveryCare(self.gate, caution, self.tell),
        )


@pytest.fixture
def scene():
    return Scene()


@pytest.fixture(autouse=True)
def _brisk(monkeypatch):
    monkeypatch.setattr("ariane_sdk.consumer.delivery.hand_out.REPORT_DELAY_S", 0.01)


async def run(work, scene, *messages):
    """Have all messages delivered."""
    work.window.put(messages, messages[-1].queue_offset + 1)
    work.start()
    work.wake()
    await scene.wait(lambda: len(scene.given()) >= len(messages))
    return await work.release(5)


def stubs(*queue_offsets):
    return [Stub(queue_offset) for queue_offset in queue_offsets]


async def test_without_deaths_nobody_is_told_anything(scene):
    assert await run(scene.work(), scene, *stubs(*range(6))) == 6
    assert scene.happened == [("given", 0, 1, 2, 3), ("given", 4, 5)]


async def test_where_members_died_the_broker_is_told_what_is_in_work(scene):
    assert await run(scene.work(Caution(watched_end=5)), scene, *stubs(*range(10))) == 10
    assert scene.happened == [
        ("told", 0, 4, False),
        ("given", 0, 1, 2, 3),
        ("told", 4, 8, False),
        ("given", 4, 5, 6, 7),
        ("given", 8, 9),
    ]


async def test_suspects_are_given_one_at_a_time_and_told_before_and_after(scene):
    caution = Caution(watched_end=6, alone_end=3)
    assert await run(scene.work(caution, begin=1), scene, *stubs(1, 2, 3, 4)) == 5
    assert scene.happened == [
        *(("told", 1, 2, True), ("given", 1), ("told", 2, 2, False)),
        *(("told", 2, 3, True), ("given", 2), ("told", 3, 3, False)),
        *(("told", 3, 5, False), ("given", 3, 4)),
    ]


async def test_a_message_of_a_dead_consumer_is_delivered_alone(scene):
    queue = MessageQueue(retry_topic("billing"), "broker-a", 0)
    poison = Stub(1, {"CONSUMER_DEATHS": "1"})
    assert await run(scene.work(queue=queue), scene, Stub(0), poison, Stub(2), Stub(3)) == 4
    assert scene.happened == [
        ("given", 0),
        *(("told", 1, 2, True), ("given", 1), ("told", 2, 2, False)),
        ("given", 2, 3),
    ]


async def test_a_count_of_deaths_that_a_producer_sets_is_ignored(scene):
    liar = Stub(1, {"CONSUMER_DEATHS": "1"})
    await run(scene.work(), scene, Stub(0), liar)
    assert scene.happened == [("given", 0, 1)]


async def test_a_suspected_message_is_delivered_while_no_other_is_in_work(scene):
    other = MessageQueue("other", "broker-b", 0)
    ordinary = scene.work(queue=other, batch_size=1, queue_concurrency=4)
    suspect = scene.work(Caution(alone_end=8), queue_concurrency=4)
    suspects = stubs(*range(8))
    for each in suspects:
        each.size_bytes = 2  # So that they are told apart.
    beside = []
    in_work = 0

    async def watched(messages):
        nonlocal in_work
        in_work += 1
        beside.append((messages[0].size_bytes, in_work))
        await asyncio.sleep(0.001)
        beside.append((messages[0].size_bytes, in_work))
        in_work -= 1
        await scene.note("given", *(message.queue_offset for message in messages))

    for work, messages in ((ordinary, stubs(*range(40))), (suspect, suspects)):
        work.hand_out._deliver = watched
        work.window.put(messages, len(messages))
        work.start()
        work.wake()
    await scene.wait(lambda: len(scene.given()) == 48)
    assert [await work.release(5) for work in (ordinary, suspect)] == [40, 8]
    assert {count for size, count in beside if size == 2} == {1}
    assert max(count for _, count in beside) > 1
    assert sorted(scene.given()) == sorted([*range(40), *range(8)])


async def test_a_suspect_waits_until_all_before_it_in_its_queue_is_done(scene):
    work = scene.work(queue_concurrency=3, batch_size=1)
    gate = asyncio.Event()

    async def slow_first(messages):
        if messages[0].queue_offset == 0:
            await gate.wait()
        await scene.deliver(messages)

    work.hand_out = HandOut(
        QUEUE,
        work.window,
        slow_first,
        care=DeliveryCare(scene.gate, NO_CAUTION, scene.tell),
        is_released=lambda: work.released,
    )
    work.hand_out._is_suspect = lambda message: message.queue_offset == 1
    running = asyncio.create_task(run(work, scene, *stubs(0, 1, 2)))
    await scene.wait(lambda: 2 in scene.given())
    assert 1 not in scene.given()
    gate.set()
    assert await running == 3
    assert scene.happened[-4:] == [
        ("given", 0),
        ("told", 1, 2, True),
        ("given", 1),
        ("told", 2, 2, False),
    ]


async def test_a_suspect_is_not_given_before_its_broker_has_heard_of_it(scene):
    scene.deaf = 3
    assert await run(scene.work(Caution(alone_end=1)), scene, *stubs(0)) == 1
    assert scene.happened == [("told", 0, 1, True), ("given", 0), ("told", 1, 1, False)]


async def test_a_queue_that_is_given_up_meanwhile_is_not_gone_past(scene):
    scene.deaf = 10**9
    work = scene.work(Caution(watched_end=4, alone_end=2))
    work.window.put(stubs(0, 1, 2), 3)
    work.start()
    work.wake()
    await asyncio.sleep(0.03)
    assert await work.release(5) == 0
    assert scene.happened == []


async def test_one_that_waits_to_be_alone_and_is_cancelled_holds_up_nobody():
    gate = DeliveryGate()
    await gate.enter()

    async def alone():
        async with gate.alone():
            pass

    waiting = asyncio.create_task(alone())
    await asyncio.sleep(0)
    other = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    assert not other.done()
    waiting.cancel()
    async with asyncio.timeout(60):
        await other


def test_messages_that_must_be_alone_are_taken_so():
    window = QueueWindow(0)
    window.put(stubs(0, 1, 2), 3)
    window.put(stubs(3, 4, 5, 6), 7)

    def is_single(message):
        return message.queue_offset in {2, 3}

    taken = []
    while (delivery := window.take(3, is_single)) is not None:
        taken.append([message.queue_offset for message in delivery.messages])
        assert window.taken_end == taken[-1][-1] + 1
    assert taken == [[0, 1], [2], [3], [4, 5, 6]]
