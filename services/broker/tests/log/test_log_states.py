"""State machines over the log: one walk for all of them, each from its own snapshot."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from ariane_broker.log.derived import log_states
from ariane_broker.log.derived.log_states import LogStates
from ariane_broker.queue_key import QueueKey
from ariane_storage import Store
from ariane_storage.disk.os_disk import OsDisk
from ariane_storage.errors import StorePoisoned
from ariane_storage.state_file import StateFile
from ariane_storage.testing import block_of, small_config


class SeenOffsets:
    """Remembers where every record lies that it was shown."""

    def __init__(self, name="seen", matters_since_ms=None):
        self.name = name
        self.matters_since_ms = matters_since_ms
        self.change_count = 0
        self.offsets = []
        self.known_topics = self.end = None

    def replay(self, stretch):
        self.offsets += stretch.commit_log_offsets.tolist()
        self.change_count += 1

    def snapshot(self, commit_log_offset):
        offsets = list(self.offsets)
        return lambda: {"offsets": offsets, "commitLogOffset": commit_log_offset}

    def load(self, document):
        self.offsets = list(document["offsets"])
        return document["commitLogOffset"]

    def clear(self):
        self.offsets = []

    def forget_lost(self, end_of):
        assert self.known_topics is None
        self.end = end_of(QueueKey("flights", 0))

    def keep_topics(self, is_known_topic):
        self.known_topics = is_known_topic("flights")


@pytest.fixture
def executor():
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store", small_config()) as store:
        yield store


class Files:
    """The snapshots of the states."""

    def __init__(self, root):
        self.root = root

    def __call__(self, name):
        return StateFile(self.root / f"{name}.json", OsDisk())


@pytest.fixture
def file(tmp_path, store):
    return Files(tmp_path)


def append(store, count=7):
    return store.append(block_of("flights", [b"x" * 50] * count), 0).commit_log_offsets


def states_of(store, executor, file, *machines):
    states = LogStates(store, executor, file.root, OsDisk())
    for machine in machines:
        states.keep(machine, f"{machine.name}.json")
    return states


async def restored(store, executor, file, *machines):
    states = states_of(store, executor, file, *machines)
    await states.restore(lambda topic: topic == "flights")
    return states


async def test_nothing_is_saved_of_a_store_that_another_process_has_open(tmp_path, executor, file):
    store = Store(tmp_path / "store", small_config())
    states = states_of(store, executor, file, SeenOffsets("one"))
    await states.save()
    assert file("one").load() is None


async def test_each_snapshot_has_a_turn_of_its_own_and_its_own_place(
    store, executor, file, monkeypatch
):
    append(store)
    one, two = SeenOffsets("one"), SeenOffsets("two")
    states = await restored(store, executor, file, one, two)
    for machine in (one, two):
        machine.change_count += 1
    made = []
    snapshot_as_it_is = SeenOffsets.snapshot

    def snapshot(self, commit_log_offset):
        made.append((self.name, commit_log_offset))
        return snapshot_as_it_is(self, commit_log_offset)

    monkeypatch.setattr(SeenOffsets, "snapshot", snapshot)
    saving = asyncio.create_task(states.save())
    while not made:  # noqa: ASYNC110 - nobody tells of a turn.
        await asyncio.sleep(0)
    # Both are shown it; only the second snapshot has it.
    begin = store.max_offset
    found = append(store).tolist()
    for machine in (one, two):
        machine.offsets += found
    await saving
    assert made == [("one", begin), ("two", store.max_offset)]
    later = [SeenOffsets("one"), SeenOffsets("two")]
    await restored(store, executor, file, *later)
    assert [machine.offsets for machine in later] == [one.offsets, two.offsets]
    assert states.needed_from == begin


async def test_each_is_shown_what_came_after_its_snapshot_and_nothing_twice(store, executor, file):
    first = append(store).tolist()
    one = SeenOffsets("one")
    await (await restored(store, executor, file, one)).save()
    second = append(store).tolist()
    two = SeenOffsets("two")
    await (await restored(store, executor, file, two)).save()
    third = append(store).tolist()

    one, two, three = SeenOffsets("one"), SeenOffsets("two"), SeenOffsets("three")
    await restored(store, executor, file, one, two, three)
    assert one.offsets == two.offsets == three.offsets == first + second + third
    assert one.known_topics is True
    assert one.end == 21


async def test_only_what_changed_is_saved_and_never_before_it_is_restored(store, executor, file):
    append(store)
    one = SeenOffsets("one")
    states = states_of(store, executor, file, one)
    await states.save()
    assert file("one").load() is None
    await states.restore(lambda _: True)
    saved = file("one").load()
    append(store)
    await states.save()
    assert file("one").load() == saved
    one.change_count += 1
    await states.save()
    assert file("one").load()["commitLogOffset"] == store.max_offset


@pytest.mark.parametrize("wrong", [{"offsets": []}, {"offsets": [1], "commitLogOffset": 1 << 40}])
async def test_a_snapshot_that_cannot_be_believed_is_as_good_as_none(store, executor, file, wrong):
    offsets = append(store).tolist()
    file("one").save(wrong)
    one = SeenOffsets("one")
    await restored(store, executor, file, one)
    assert one.offsets == offsets
    # Nor is it believed once the log has grown beyond its place.
    assert file("one").load() == {"offsets": offsets, "commitLogOffset": store.max_offset}


async def test_a_machine_that_needs_little_does_not_shorten_the_walk_of_another(
    store, executor, file
):
    offsets = [offset for _ in range(6) for offset in append(store, 20).tolist()]
    recent, all_of_it = SeenOffsets("recent", matters_since_ms=1 << 60), SeenOffsets("all")
    await restored(store, executor, file, recent, all_of_it)
    assert store.max_offset > store.config.segment_bytes
    assert all_of_it.offsets == offsets
    assert recent.offsets == offsets[-len(recent.offsets) :]
    assert len(recent.offsets) < len(offsets)


async def test_a_log_that_cannot_be_flushed_gets_no_snapshot(store, executor, file, monkeypatch):
    append(store)
    one = SeenOffsets("one")

    def poisoned():
        raise StorePoisoned("gone")

    monkeypatch.setattr(store, "flush", poisoned)
    states = await restored(store, executor, file, one)
    await states.save()
    assert file("one").load() is None


async def test_what_changes_while_a_snapshot_is_saved_is_saved_with_the_next(
    store, executor, file, monkeypatch
):
    append(store)
    one = SeenOffsets("one")
    states = await restored(store, executor, file, one)
    flush = store.flush

    def change_meanwhile():
        one.offsets = [*one.offsets, 1]
        one.change_count += 1
        return flush()

    monkeypatch.setattr(store, "flush", change_meanwhile)
    before = list(one.offsets)
    one.change_count += 1
    await states.save()
    assert file("one").load()["offsets"] == before
    monkeypatch.setattr(store, "flush", flush)
    await states.save()
    assert file("one").load()["offsets"] == [*before, 1]


async def test_the_log_keeps_what_came_after_the_oldest_snapshot(store, file, executor):
    states = LogStates(store, executor, file.root, OsDisk())
    changing, resting = SeenOffsets(), SeenOffsets("resting")
    states.keep(changing, "changing.json")
    states.keep(resting, "resting.json")
    append(store)
    await states.restore(lambda topic: True)
    saved = store.max_offset
    assert states.needed_from == saved
    append(store)
    assert states.needed_from == saved
    # Whose state did not change needs nothing of what came since.
    await states.save()
    assert states.needed_from == store.max_offset


async def test_a_state_that_rests_is_not_shown_what_it_was_shown_before(store, executor, file):
    append(store)
    resting, other = SeenOffsets("resting"), SeenOffsets("other")
    states = await restored(store, executor, file, resting, other)
    offsets = append(store).tolist()
    await states.save()
    later = append(store).tolist()

    resting, other = SeenOffsets("resting"), SeenOffsets("other")
    resting.offsets = None
    states = await restored(store, executor, file, resting, other)
    assert resting.offsets[-7:] == other.offsets[-7:] == later
    assert not set(resting.offsets) & set(offsets)


@pytest.mark.parametrize("wrong", [{}, {"commitLogOffset": 1 << 40, "snapshots": {"one.json": 0}}])
async def test_without_a_common_place_each_state_begins_at_its_own(store, executor, file, wrong):
    one = SeenOffsets("one")
    states = await restored(store, executor, file, one)
    offsets = append(store).tolist()
    await states.save()
    file("config/logStates").save(wrong)

    one = SeenOffsets("one")
    await restored(store, executor, file, one)
    assert one.offsets == offsets


async def test_the_common_place_is_not_that_of_an_older_generation(store, executor, file):
    one = SeenOffsets("one")
    states = await restored(store, executor, file, one)
    older = file("one").load()
    offsets = append(store).tolist()
    one.offsets = offsets
    one.change_count += 1
    await states.save()
    append(store)
    await states.save()
    file("one").save(older)

    one = SeenOffsets("one")
    await restored(store, executor, file, one)
    assert one.offsets[:7] == offsets
    assert len(one.offsets) == 14


async def test_a_snapshot_is_taken_after_much_whatever_the_clock_says(store, executor, file):
    one = SeenOffsets("one")
    states = await restored(store, executor, file, one)
    append(store)
    await states.save_after_much()
    common = StateFile(file.root / log_states.COMMON_FILE_NAME, OsDisk())
    assert common.load()["commitLogOffset"] == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_states, "UNSAVED_BYTES_MAX", 500)
        await states.save_after_much()
        end = store.max_offset
        assert common.load()["commitLogOffset"] == end
        append(store, count=1)
        await states.save_after_much()
        assert common.load()["commitLogOffset"] == end
