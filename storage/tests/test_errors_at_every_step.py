"""An error, or a kill, at each step of what a store does: nothing acknowledged is lost.

Each kind of work is done again and again, each time with the fault at another step. It ends in one
of three ways: as if nothing had happened, with a refusal for which there is an error of its own, or
with a store that accepts nothing more. Then the store is opened again, after a kill or a loss of
power, and works on; in the end the power is lost.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from ariane_record import RecordTable
from ariane_storage import FlushMode, Store, StoreFull, StorePoisoned
from ariane_storage.testing import FaultyDisk, PowerLost, apply_retention, block_of, small_config

FOR_EVER = 1 << 40
QUEUES = [("flights", 0), ("flights", 1), ("delays", 0)]
Queue = tuple[str, int]


@dataclass
class Notes:
    """What a store has promised, by queue and queue offset."""

    store: Store
    mode: FlushMode
    sent: dict[bytes, Queue] = field(default_factory=dict)
    written: dict[tuple[Queue, int], tuple[bytes, int]] = field(default_factory=dict)
    flushed: int = 0
    begins: dict[Queue, int] = field(default_factory=dict)
    deleted: set[bytes] = field(default_factory=set)
    in_doubt: set[bytes] = field(default_factory=set)
    refused: int = 0

    def attempt(self, step: Callable[[], object]) -> None:
        """Do something that a full disk may refuse."""
        try:
            step()
        except StoreFull:
            self.refused += 1

    def bodies(self, topic: str, queue_id: int, count: int = 3) -> list[bytes]:
        bodies = [b"%d;" % (len(self.sent) + place) * 60 for place in range(count)]
        self.sent.update(dict.fromkeys(bodies, (topic, queue_id)))
        return bodies

    def append(self, topic: str, queue_id: int, count: int = 3) -> None:
        bodies = self.bodies(topic, queue_id, count)
        block = block_of(topic, bodies, keys=[("K",)] * count)

        def step() -> None:
            appended = self.store.append(block, queue_id)
            end = appended.next_commit_log_offset
            for place, body in enumerate(bodies):
                place_in_queue = (topic, queue_id), appended.first_queue_offset + place
                assert place_in_queue not in self.written, "an offset is given twice"
                self.written[place_in_queue] = body, end

        self.attempt(step)

    def append_table(self) -> None:
        bodies = [self.bodies(*queue, 1)[0] for queue in QUEUES]
        blocks = [
            block_of(topic, [body], keys=[("K",)])
            for (topic, _), body in zip(QUEUES, bodies, strict=True)
        ]
        table = RecordTable.joined(blocks)

        def step() -> None:
            appended = self.store.append(table, *[queue_id for _, queue_id in QUEUES])
            firsts = appended.first_queue_offsets
            for queue, first, body in zip(QUEUES, firsts, bodies, strict=True):
                assert (queue, first) not in self.written
                self.written[queue, first] = body, self.store.max_offset

        self.attempt(step)

    def flush(self) -> None:
        self.flushed = max(self.flushed, self.store.flush())

    def delete(self, topic: str) -> None:
        old = {place: note for place, note in self.written.items() if place[0][0] == topic}
        bodies = {body for body, _ in old.values()}
        try:
            self.store.keeping.delete_queues(topic)
        except StoreFull:
            self.refused += 1
            return
        except (StorePoisoned, PowerLost):
            self.in_doubt |= bodies
            raise
        self.deleted |= bodies
        for place in old:
            del self.written[place]

    def retain(self) -> None:
        try:
            self.attempt(lambda: apply_retention(self.store))
        finally:
            for queue in QUEUES:
                with contextlib.suppress(PowerLost):
                    self.begins[queue] = self.store.queue_bounds(*queue)[0]

    def promised(self, *, in_memory: bool) -> dict[tuple[Queue, int], bytes]:
        """What must be there, after the process or the machine has ended."""
        survives = in_memory and self.mode is FlushMode.ASYNC
        return {
            (queue, queue_offset): body
            for (queue, queue_offset), (body, end) in self.written.items()
            if (survives or end <= self.flushed)
            and queue_offset >= self.begins.get(queue, 0)
            and body not in self.in_doubt
        }


def appends(notes, bench):
    for number in range(7):
        notes.append(*QUEUES[number % 3])
        if number % 2:
            notes.flush()
        if number == 3:
            notes.append_table()
    notes.flush()


def checkpoints(notes, bench):
    for number in range(4):
        notes.append(*QUEUES[number % 3], 5)
        notes.attempt(notes.store.flush_derived)
        notes.flush()


def prepared_segments(notes, bench):
    for number in range(4):
        notes.append(*QUEUES[number % 3], 9)
        notes.attempt(notes.store.keeping.prepare_next_segment)
        notes.attempt(notes.store.keeping.file_keys)
        notes.flush()


def deletions(notes, bench):
    for queue in QUEUES:
        notes.append(*queue)
    notes.flush()
    notes.delete("flights")
    notes.append("flights", 0)
    notes.flush()
    notes.attempt(notes.store.flush_derived)
    notes.append("flights", 1)
    notes.delete("delays")
    notes.flush()


def retentions(notes, bench):
    for number in range(6):
        notes.append(*QUEUES[number % 3], 9)
    notes.flush()
    notes.attempt(notes.store.flush_derived)
    bench.disk.used_ratio = 0.86
    notes.retain()
    notes.append("flights", 0)
    notes.flush()
    notes.retain()


WORK = [appends, checkpoints, prepared_segments, deletions, retentions]
FAULTS = {
    "one EIO": (errno.EIO, 1),
    "EIO for ever": (errno.EIO, FOR_EVER),
    "one ENOSPC": (errno.ENOSPC, 1),
    "ENOSPC for ever": (errno.ENOSPC, FOR_EVER),
    "a kill": (0, 0),
}


def begun(bench, mode) -> tuple[object, Notes]:
    """A store with some messages, without faults so far."""
    fresh = replace(bench, disk=FaultyDisk(), config=small_config(flush_mode=mode))
    notes = Notes(fresh.open(), mode)
    for queue in QUEUES:
        notes.append(*queue)
    notes.store.flush_derived()
    notes.flush()
    return fresh, notes


def steps_of(bench, work, mode) -> range:
    fresh, notes = begun(bench, mode)
    first = fresh.disk.steps + 1
    work(notes, fresh)
    assert not notes.refused
    notes.store.close()
    return range(first, fresh.disk.steps + 1)


def all_bodies(store, read_all) -> dict[tuple[Queue, int], bytes]:
    found = {}
    for queue in QUEUES:
        low, high = store.queue_bounds(*queue)
        messages = read_all(store, *queue)
        assert [m.queue_offset for m in messages] == list(range(low, high))
        found.update({(queue, m.queue_offset): m.body for m in messages})
    return found


def check(store, read_all, notes, promised) -> dict[tuple[Queue, int], bytes]:
    """Nothing promised is lost, nothing is there twice, and nothing that nobody has sent."""
    found = all_bodies(store, read_all)
    assert {place: found.get(place) for place in promised} == promised
    assert len(set(found.values())) == len(found)
    assert all(notes.sent[body] == queue for (queue, _), body in found.items())
    assert not notes.deleted.intersection(found.values())
    for topic in ("flights", "delays"):
        by_key = [m.body for m in store.query_by_key(topic, "K", max_count=999)]
        there = [body for (queue, _), body in found.items() if queue[0] == topic]
        assert sorted(by_key) == sorted(there)
    return found


def with_a_fault(bench, read_all, work, mode, fault, step, ends):
    error, length = FAULTS[fault]
    fresh, notes = begun(bench, mode)
    disk = fresh.disk
    if error:
        disk.error, disk.failing = error, range(step, step + length)
    else:
        disk.power_fails_at = step
    store = notes.store
    try:
        work(notes, fresh)
    except StorePoisoned:
        assert store.is_poisoned
    except PowerLost:
        assert not error
    if error:
        if store.is_poisoned:
            with pytest.raises(StorePoisoned):
                store.append(block_of("flights", [b"never"]), 0)
        if not notes.in_doubt:
            check(store, read_all, notes, notes.promised(in_memory=True))
        with contextlib.suppress(StorePoisoned, StoreFull):
            store.close()
    killed = ends == "a kill"
    promised = notes.promised(in_memory=killed)
    survivor = replace(fresh, disk=disk.kill() if killed else disk.lose_power(step))
    again = survivor.open()
    found = check(again, read_all, notes, promised)
    doubtful = notes.in_doubt.intersection(found.values())
    assert doubtful in (set(), notes.in_doubt & {body for body, _ in notes.written.values()})

    # It goes on, and everything that it hands out from now on is as safe as it says.
    notes.store, notes.begins = again, {}
    notes.written = {place: (body, 0) for place, body in found.items()}
    for queue in QUEUES:
        notes.append(*queue, 4)
    notes.flush()
    found = check(again, read_all, notes, notes.promised(in_memory=True))
    after = replace(survivor, disk=survivor.disk.lose_power(step))
    last = after.open()
    check(last, read_all, notes, found)
    last.close()


@pytest.mark.parametrize("every", [37, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("ends", ["a kill", "a loss of power"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("mode", list(FlushMode))
@pytest.mark.parametrize("work", WORK)
def test_nothing_acknowledged_is_lost(bench, read_all, work, mode, fault, ends, every):
    steps = steps_of(bench, work, mode)
    every = min(every, len(steps))
    for step in steps[sum(map(ord, fault)) % every :: every]:
        try:
            with_a_fault(bench, read_all, work, mode, fault, step, ends)
        except BaseException as error:
            error.add_note(f"at step {step - steps.start} of {len(steps)}")
            raise
