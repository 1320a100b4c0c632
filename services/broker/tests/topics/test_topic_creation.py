"""Creating topics: those that are wanted at the same time are made in one turn."""

import asyncio

import pytest

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_broker.topics.system_topics import system_topics
from ariane_broker.topics.topic_changes import TopicChanges, TopicEffects
from ariane_broker.topics.topic_limits import TopicLimits
from ariane_broker.topics.topic_table import TopicChange, TopicTable
from ariane_broker.topics.unread_queues import UnreadQueues
from ariane_servicekit import ServiceError
from ariane_storage.state_file import StateFile

OWN_COUNT = len(system_topics(auto_create_topics=True, default_queue_count=4))
NAMES = [f"topic-{number:03}" for number in range(300)]


class Creations:
    """Topics whose file is only counted."""

    def __init__(self):
        self.table = TopicTable(now_ms=lambda: 1, default_queue_count=4)
        self.saved, self.settled = [], 0
        self.error = None
        self.begun, self.copies = asyncio.Event(), asyncio.Event()
        self.copies.set()
        self.changes = TopicChanges(
            self.table,
            TopicLimits(topics_max=400, queues_max=1500, group_topics_max=2),
            UnreadQueues(None, self.table, None),
            TopicEffects(
                save=self.save,
                announce=self.announce,
                copied=self.copied,
                reserve_epoch=self.announce,
                delete_queues=self.announce,
                forget=self.announce,
                save_forgotten=self.settle,
                save_offsets=self.announce,
                wake_queue=lambda queue: None,
            ),
            auto_create_queue_count=2,
        )

    async def save(self, document):
        self.begun.set()
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        self.saved.append(list(document["topicConfigTable"]))

    async def announce(self, *_):
        pass

    async def copied(self):
        await self.copies.wait()

    async def settle(self):
        self.settled += 1

    def create(self, topic, **settings):
        return self.changes.create(topic, TopicChange(**settings))


@pytest.fixture
async def creations():
    return Creations()


def reason_of(outcome):
    return ErrorReason.Name(outcome.reason).removeprefix("ERROR_REASON_")


async def test_creations_that_wait_have_their_turn_together(creations):
    first = asyncio.create_task(creations.create(NAMES[0]))
    await creations.begun.wait()
    made = await asyncio.gather(first, *map(creations.changes.create_for_send, NAMES[1:]))
    assert [config.topic for config in made] == NAMES
    assert {config.write_queue_count for config in made[1:]} == {2}
    assert creations.saved == [NAMES[:1], NAMES]
    assert [config.topic for config in creations.table.all()] == NAMES


async def test_creations_of_one_turn_are_told_apart(creations):
    await creations.create("old", read_queue_count=7, write_queue_count=7)
    creations.saved.clear()
    outcomes = await asyncio.gather(
        creations.create("a", write_queue_count=3),
        creations.create("a"),
        creations.changes.create_for_send("a"),
        creations.create("b", write_queue_count=-1),
        creations.create("old"),
        creations.changes.create_for_send("old"),
        creations.changes.create_for_group("%RETRY%g"),
        return_exceptions=True,
    )
    a, again, sent, illegal, stands, found, retry = outcomes
    assert a == sent
    assert (a.topic, a.write_queue_count) == ("a", 3)
    assert [reason_of(each) for each in (again, illegal, stands)] == [
        *("TOPIC_EXISTS", "FIELD_INVALID", "TOPIC_EXISTS"),
    ]
    assert found.write_queue_count == 7
    assert (retry.topic, retry.write_queue_count) == ("%RETRY%g", 1)
    assert creations.saved == [["%RETRY%g", "a", "old"]]


async def test_a_turn_that_fails_fails_for_all_of_it_and_makes_nothing(creations):
    await creations.create("old")
    creations.error = OSError(28, "No space left on device")
    outcomes = await asyncio.gather(
        creations.create("a"),
        creations.changes.create_for_send("b"),
        creations.changes.create_for_send("old"),
        return_exceptions=True,
    )
    assert outcomes[:2] == [creations.error, creations.error]
    assert outcomes[2].topic == "old"
    assert [config.topic for config in creations.table.all()] == ["old"]
    creations.error = None
    assert (await creations.create("a")).topic == "a"


async def test_nobody_hears_of_a_topic_that_a_failed_turn_did_not_make(creations):
    creations.error = OSError(28, "No space left on device")
    outcomes = await asyncio.gather(
        creations.create("a"), creations.create("a"), return_exceptions=True
    )
    assert outcomes == [creations.error] * 2


async def test_nobody_hears_that_a_topic_is_gone_that_a_failed_turn_did_not_delete(creations):
    await creations.create("a")
    creations.error = OSError(28, "No space left on device")
    delete = creations.changes.delete
    outcomes = await asyncio.gather(delete("a"), delete("a"), delete("b"), return_exceptions=True)
    assert outcomes[:2] == [creations.error] * 2
    assert reason_of(outcomes[2]) == "TOPIC_NOT_FOUND"
    creations.error = None
    outcomes = await asyncio.gather(delete("a"), delete("a"), return_exceptions=True)
    assert outcomes[0] is None
    assert reason_of(outcomes[1]) == "TOPIC_NOT_FOUND"


@pytest.mark.parametrize("reason", ["TOPIC_EXISTS", "TOPIC_NOT_FOUND"])
async def test_a_repeated_call_hears_that_it_is_done_once_replicas_have_it(creations, reason):
    if reason == "TOPIC_EXISTS":
        await creations.create("a")
    creations.copies.clear()
    repeated = creations.create("a") if reason == "TOPIC_EXISTS" else creations.changes.delete("a")
    call = asyncio.create_task(repeated)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not call.done()
    creations.copies.set()
    with pytest.raises(ServiceError) as caught:
        await call
    assert reason_of(caught.value) == reason


async def test_who_stops_waiting_stops_no_creation(creations):
    call = asyncio.create_task(creations.create("a"))
    await creations.begun.wait()
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()
    assert (await creations.changes.create_for_send("a")).topic == "a"
    assert creations.saved == [["a"]]


async def test_who_stops_waiting_stops_no_update(creations):
    await creations.changes.create("orders", TopicChange(read_queue_count=1, write_queue_count=1))
    creations.begun.clear()
    change = TopicChange(read_queue_count=3, write_queue_count=3)
    call = asyncio.create_task(creations.changes.update("orders", change))
    await creations.begun.wait()
    call.cancel()
    await asyncio.wait([call])
    await creations.changes.create("others", change)
    assert creations.table.get("orders").read_queue_count == 3


async def test_topics_made_again_have_what_others_had_in_them_settled_once(creations):
    for name in NAMES[:9]:
        await creations.create(name)
    await asyncio.gather(*map(creations.changes.delete, NAMES[:9]))
    assert not creations.settled
    await asyncio.gather(*map(creations.create, NAMES[:9]))
    assert creations.settled == 1


async def test_a_topic_of_an_illegal_name_is_refused_before_its_turn(creations):
    with pytest.raises(ServiceError):
        await creations.changes.create_for_send("no/topic")
    assert not creations.begun.is_set()


async def test_unknown_topics_of_one_request_are_made_at_once(running, monkeypatch):
    saves, save = [], StateFile.save

    def counted(file, state):
        if "topicConfigTable" in state:
            saves.append(len(state["topicConfigTable"]))
        save(file, state)

    async with running(auto_create_topics=True) as broker:
        monkeypatch.setattr(StateFile, "save", counted)
        broken = broker.batch("broken", [b"x"])
        broken.records = broken.records.replace(b"x", b"y", 1)
        beyond = broker.batch("beyond", [b"x"], queue_id=1 << 20)
        sound = [broker.batch(name, [name.encode()] * 2) for name in NAMES]
        again = [broker.batch(name, [b"more"]) for name in NAMES[:5]]
        results = await broker.append(broken, *sound, beyond, *again)
        errors = [result.error.message for result in results if result.error is not None]
        assert len(errors) == 2
        assert 1 <= len(saves) <= 2
        assert saves[-1] - len(NAMES) == saves[0] - len(NAMES) <= OWN_COUNT
        for name in (NAMES[0], NAMES[-1]):
            assert (await broker.bodies(name))[:2] == [name.encode()] * 2
        assert (await broker.bodies(NAMES[4]))[-1] == b"more"
