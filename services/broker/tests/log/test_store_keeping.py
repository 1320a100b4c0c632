"""What the loops beside a store say, against a scripted store."""

import asyncio
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from structlog.testing import capture_logs

import ariane_broker
from ariane_broker.log.store_keeping import DELETION_PAUSE_S, FILING_STEP_KEYS, StoreKeeping
from ariane_servicekit import SystemClock
from ariane_storage.errors import StoreFull, StorePoisoned
from ariane_storage.keeping.retention import RetentionPlan, RetentionReport
from ariane_storage.log.damage import Damage, DamageReason
from ariane_storage.recovery.queue_repair import QueueRepair
from ariane_storage.recovery.recovery import Progress


class ScriptedRepairs:
    def __init__(self):
        self.asked, self.is_stopped = [], threading.Event()

    @property
    def needed(self):
        return bool(self.asked)

    def run(self, progress):
        repairs, self.asked = self.asked, []
        if repairs == ["endless"]:
            self.is_stopped.wait(20)
            return []
        progress(Progress("repairing", 10, 10))
        return repairs

    def stop(self):
        self.is_stopped.set()


class ScriptedStore:
    """Does what it is told and counts its turns."""

    def __init__(self):
        self.turns = {"flush": 0, "prepare": 0, "file": 0}
        self.is_flush_due = True
        self.told = []
        self.waiting_keys = 0
        self.file_error = self.finish_error = None
        self.max_offset = 77
        self.disk_used_ratio = 0.1
        self.retention = []
        self.due = ()
        self.by_hand = []
        self.error = None
        self.prepare_error = None
        self.disk_ratio = 0.1
        self.damage = ()
        self.unreadable = ()
        self.is_poisoned = False
        self.repairs, self.repaired, self.keeping = ScriptedRepairs(), [], self
        self.repair_queues = self.repairs.run

    def flush_due(self):
        self.turns["flush"] += 1
        if self.error is not None:
            raise self.error

    def file_keys(self):
        self.turns["file"] += 1
        if self.file_error is not None:
            raise self.file_error
        self.waiting_keys = 0

    def prepare_next_segment(self):
        self.turns["prepare"] += 1
        if self.prepare_error is not None:
            raise self.prepare_error

    def plan_retention(self, keep_from, delete_to, by_hand):
        self.by_hand.append(by_hand)
        self.retention.append(("plan", keep_from, threading.get_ident()))
        if self.error is not None:
            raise self.error
        return RetentionPlan(self.due, None, keep_from)

    def let_go(self, plan):
        self.retention.append(("let go", plan.min_offset, threading.get_ident()))

    def delete_segment(self, segment):
        self.retention.append(("delete", segment, threading.get_ident()))

    def finish_retention(self, plan):
        self.retention.append(("finish", plan.min_offset, threading.get_ident()))
        if self.finish_error is not None:
            raise self.finish_error
        return RetentionReport((), None, self.disk_ratio, plan.min_offset)


@pytest.fixture
def store():
    return ScriptedStore()


@pytest.fixture
async def keeping(store):
    failures = []
    executor = ThreadPoolExecutor(1)
    keeping = StoreKeeping(
        store,
        executor,
        SystemClock(),
        flush_tick_seconds=0.001,
        disk_refuse_ratio=0.9,
        on_flushed=partial(store.told.append, "flushed"),
        on_repaired=store.repaired.extend,
        on_failed=failures.append,
    )
    keeping.failures = failures
    yield keeping
    await keeping.stop()
    executor.shutdown()


async def turns(store, count):
    wanted = store.turns["flush"] + count
    async with asyncio.timeout(60):
        while store.turns["flush"] < wanted:  # noqa: ASYNC110 - another thread
            await asyncio.sleep(0.001)


def events(lines, event):
    return [line for line in lines if line["event"] == event]


async def test_damage_that_a_read_finds_is_told_once_a_range(store, keeping):
    known = Damage(0, 10, DamageReason.CHECKSUM)
    store.damage = (known,)
    with capture_logs() as lines:
        keeping.start()
        await turns(store, 3)
        store.damage = (known, Damage(20, 30, DamageReason.CHECKSUM))
        await turns(store, 3)
        store.damage = (*store.damage, Damage(40, 50, DamageReason.SIZE))
        await keeping.stop()
    first, second = events(lines, "damage_found")
    assert (first["begin_commit_log_offset"], first["end_commit_log_offset"]) == (20, 30)
    assert (second["begin_commit_log_offset"], second["end_commit_log_offset"]) == (40, 50)
    assert {first["log_level"], second["log_level"]} == {"warning"}


async def test_no_thread_is_asked_to_flush_what_is_not_due_but_flushes_of_others_are_told(
    store, keeping
):
    store.is_flush_due = False
    await keeping._flush()
    assert (store.turns["flush"], store.told) == (0, ["flushed"])
    store.is_flush_due = True
    await keeping._flush()
    assert (store.turns["flush"], store.told) == (1, ["flushed", "flushed"])


async def test_crossing_the_refusing_ratio_is_told_once_each_way(store, keeping):
    keeping_turn = keeping._apply_retention
    with capture_logs() as lines:
        for ratio, refuses in ((0.5, False), (0.9, True), (0.95, True), (0.8, False)):
            store.disk_ratio = ratio
            await keeping_turn()
            assert bool(keeping.refusal) is refuses
    (refused,) = events(lines, "writes_refused")
    assert (refused["log_level"], refused["disk_used_ratio"]) == ("warning", 0.9)
    (accepted,) = events(lines, "writes_accepted")
    assert accepted["log_level"] == "info"


async def test_only_letting_go_of_what_retention_deletes_is_done_on_the_loop(store, keeping):
    await keeping._apply_retention()
    steps = [(step, offset) for step, offset, _ in store.retention]
    assert steps == [("plan", 77), ("let go", 77), ("finish", 77)]
    on_loop = [thread == threading.get_ident() for _, _, thread in store.retention]
    assert on_loop == [False, True, False]
    assert keeping.last_retention.min_offset == 77


async def test_between_two_deletions_disk_and_keeper_are_free_for_others(
    store, keeping, monkeypatch
):
    async def pause(seconds):
        store.retention.append(("pause", seconds, None))
        await keeping._flush()

    monkeypatch.setattr(keeping._clock, "sleep", pause)
    store.due = ("first", "second")
    await keeping._apply_retention()
    assert [(step, what) for step, what, _ in store.retention] == [
        ("plan", 77),
        ("let go", 77),
        ("delete", "first"),
        ("pause", DELETION_PAUSE_S),
        ("delete", "second"),
        ("pause", DELETION_PAUSE_S),
        ("finish", 77),
    ]
    assert store.turns["flush"] == 2


async def test_what_is_deleted_by_hand_is_let_go_at_once_and_deleted_by_the_loop(
    store, keeping, monkeypatch
):
    async def pause(seconds):
        store.retention.append(("pause", seconds, None))

    monkeypatch.setattr(keeping._clock, "sleep", pause)
    store.due = ("first", "second")
    plan = await keeping.clean(dry_run=True)
    assert plan.segments == store.due
    assert [step for step, _, _ in store.retention] == ["plan"]
    assert await keeping.clean(dry_run=False) == plan
    assert [step for step, _, _ in store.retention] == ["plan", "plan", "let go"]
    assert store.by_hand == [True, True]
    store.due = ()
    await keeping._apply_retention()
    steps = [step for step, _, _ in store.retention[3:]]
    assert steps == ["plan", "let go", "delete", "pause", "delete", "pause", "finish", "finish"]
    assert store.by_hand[2:] == [False]


async def test_what_a_full_disk_has_not_deleted_by_hand_is_deleted_later(store, keeping):
    store.due = ("first",)
    await keeping.clean(dry_run=False)
    store.due, store.finish_error = (), StoreFull(Path("s"), "no space")
    await keeping._apply_retention()
    store.finish_error = None
    await keeping._apply_retention()
    assert [what for step, what, _ in store.retention if step == "delete"] == ["first", "first"]


@pytest.mark.parametrize("step", ["error", "finish_error"])
async def test_retention_that_fails_is_told(store, keeping, step):
    setattr(store, step, StoreFull(Path("s"), "no space to note"))
    with capture_logs() as lines:
        await keeping._apply_retention()
        await keeping._apply_retention()
    assert len(events(lines, "store_full")) == 1
    assert keeping.last_retention is None
    setattr(store, step, StorePoisoned(OSError("no")))
    await keeping._apply_retention()
    assert len(keeping.failures) == 1
    assert ("let go" in [name for name, _, _ in store.retention]) is (step == "finish_error")


async def test_a_disk_that_is_full_from_the_start_takes_nothing(store, keeping):
    store.disk_used_ratio = store.disk_ratio = 0.95
    with capture_logs() as lines:
        keeping.start()
        assert keeping.refusal == "the disk is 95% full"
        await turns(store, 1)
        assert keeping.refusal == "the disk is 95% full"
    assert len(events(lines, "writes_refused")) == 1


async def test_a_full_disk_is_told_once_although_flushes_go_well(store, keeping):
    store.prepare_error = StoreFull(Path("s"), "no space")
    with capture_logs() as lines:
        for _ in range(3):
            await keeping._prepare()
            await keeping._flush()
    assert len(events(lines, "store_full")) == 1


async def test_keys_that_wait_are_filed_beside_the_loop(store, keeping):
    await keeping._file_keys()
    assert store.turns["file"] == 0  # Nothing waits: no hop to another thread.
    keeping.start()
    store.waiting_keys = FILING_STEP_KEYS - 1
    keeping.appended(1)
    assert not keeping._filing._woken.is_set()
    store.waiting_keys = FILING_STEP_KEYS
    keeping.appended(2)
    assert keeping._filing._woken.is_set()
    async with asyncio.timeout(60):
        while store.waiting_keys:  # noqa: ASYNC110 - another thread
            await asyncio.sleep(0.001)
    assert store.turns["file"] >= 1


async def test_a_disk_that_fails_while_keys_are_filed_ends_the_broker(store, keeping):
    store.waiting_keys = 1
    store.file_error = StorePoisoned(OSError("no"))
    await keeping._file_keys()
    assert keeping.failures == [store.file_error]


@pytest.mark.parametrize("way", ["append", "prepare"])
async def test_a_store_without_room_is_not_writable_until_there_is_some(store, keeping, way):
    assert not keeping.refusal
    keeping.refused("no space left on device")
    store.prepare_error = StoreFull(Path("s"), "no space left on device")
    await keeping._prepare()
    assert keeping.refusal == "no space left on device"
    store.prepare_error = None
    if way == "append":
        keeping.appended(1)
    else:
        await keeping._prepare()
    assert not keeping.refusal


@pytest.mark.parametrize(
    ("needed", "keep_from"), [([], 77), ([None], 77), ([None, 30, 80], 30), ([900], 77)]
)
async def test_retention_keeps_what_is_needed_and_what_comes_while_it_chooses(
    keeping, needed, keep_from
):
    for offset in needed:
        keeping.keep_needed(lambda offset=offset: offset)
    assert keeping.needed_from == keep_from


async def test_a_poisoned_store_refuses_and_ends_the_broker(store, keeping):
    store.error, store.is_poisoned = StorePoisoned(OSError("no")), True
    await keeping._flush()
    assert keeping.failures == [store.error]
    assert "flush failed" in keeping.refusal


def test_every_line_of_the_broker_names_its_component():
    names = [found.name for found in walk_packages(ariane_broker.__path__, "ariane_broker.")]
    modules = [import_module(name) for name in names if not name.endswith("__main__")]
    logging = [module for module in modules if "_log" in vars(module)]
    assert len(logging) > 3
    for module in logging:
        with capture_logs() as lines:
            module._log.info("line")
        assert lines[0]["component"] == module.__name__
    assert not [module for module in modules if "structlog" in inspect.getsource(module)]


async def test_queues_that_are_mended_are_told_and_woken(store, keeping):
    store.repairs.asked = [QueueRepair("orders", 3, 10, 20, restored=9, lost=1)]
    with capture_logs() as lines:
        keeping.start()
        async with asyncio.timeout(60):
            while not store.repaired:  # noqa: ASYNC110 - another thread
                await asyncio.sleep(0.001)
    assert store.repaired == [("orders", 3)]
    (line,) = events(lines, "queue_repaired")
    assert (line["begin_queue_offset"], line["end_queue_offset"]) == (10, 20)
    assert (line["restored_count"], line["lost_count"]) == (9, 1)
    assert events(lines, "queue_repair_progress")[-1]["percent"] == 100


async def test_a_repair_holds_up_neither_the_other_loops_nor_the_stop(store, keeping):
    store.repairs.asked = ["endless"]
    keeping.start()
    await turns(store, 3)
    async with asyncio.timeout(60):
        while store.repairs.asked:  # noqa: ASYNC110 - another thread
            await asyncio.sleep(0.001)
        await keeping.stop()
    assert store.repairs.is_stopped.is_set()
