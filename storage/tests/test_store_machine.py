"""The store against the model: any order of appends, reads, flushes, crashes and restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ariane_record import decode_record, tag_code
from ariane_storage import (
    FlushMode,
    QueueOffsetOutOfRange,
    QueueReadStatus,
    Store,
    TimeBoundary,
)
from ariane_storage.testing import (
    FaultyDisk,
    FixedClock,
    ModelMessage,
    ModelStore,
    Tagged,
    apply_retention,
    block_of,
    small_config,
)

ROOT = Path("/store")
QUEUES = [("flights", 0), ("flights", 1), ("delays", 0)]
TAGS = ["", "arrived", "departed"]
KEYS = [(), ("N1",), ("N1", "N2"), ("N3",)]
MESSAGES = st.tuples(
    st.integers(0, 900), st.sampled_from(TAGS), st.sampled_from(KEYS), st.booleans()
)


def records_of(read) -> list[Any]:
    joined = b"".join(read.chunks)
    records, begin = [], 0
    for size in read.sizes.tolist():
        records.append(decode_record(joined[begin : begin + size]))
        begin += size
    assert begin == len(joined)
    return records


class StoreMachine(RuleBasedStateMachine):
    flush_mode: FlushMode

    def __init__(self) -> None:
        super().__init__()
        self.disk = FaultyDisk()
        self.clock = FixedClock()
        self.model = ModelStore()
        self.counter = 0
        self.acknowledged = 0
        self.config = small_config(flush_mode=self.flush_mode)
        self.store = self.open()

    def open(self) -> Store:
        return Store.open(ROOT, self.config, disk=self.disk, clock=self.clock)

    @property
    def readable_end(self) -> int:
        if self.flush_mode is FlushMode.SYNC:
            return self.store.flushed_offset
        return self.store.max_offset

    @initialize()
    def begin(self) -> None:
        assert self.store.recovery.records == 0

    @rule(queue=st.sampled_from(QUEUES), messages=st.lists(MESSAGES, min_size=1, max_size=6))
    def append(self, queue, messages) -> None:
        topic, queue_id = queue
        bodies, tags, keys, unique_ids = [], [], [], []
        for length, tag, message_keys, has_id in messages:
            self.counter += 1
            body = f"{self.counter};".encode()
            bodies.append(body + b"\0" * length)
            tags.append(tag)
            keys.append(message_keys)
            unique_ids.append(f"U{self.counter}" if has_id else "")
        block = block_of(topic, bodies, tags=tags, keys=keys, unique_ids=unique_ids)
        appended = self.store.append(block, queue_id)
        assert appended.first_queue_offset == self.model.next_queue_offsets.get(queue, 0)
        assert appended.next_commit_log_offset == self.store.max_offset
        for place, commit_log_offset in enumerate(appended.commit_log_offsets.tolist()):
            unique_id = (unique_ids[place],) if unique_ids[place] else ()
            self.model.append(
                ModelMessage(
                    topic=topic,
                    queue_id=queue_id,
                    queue_offset=appended.first_queue_offset + place,
                    commit_log_offset=commit_log_offset,
                    size=int(block.sizes[place]),
                    body=bodies[place],
                    tag=tags[place],
                    keys=(*unique_id, *keys[place]),
                    store_timestamp_ms=appended.store_timestamp_ms,
                )
            )

    @rule()
    def flush(self) -> None:
        self.acknowledged = max(self.acknowledged, self.store.flush())
        assert self.acknowledged == self.store.max_offset

    @rule()
    def flush_derived(self) -> None:
        self.store.flush_derived()
        self.acknowledged = self.store.flushed_offset

    @rule()
    def prepare(self) -> None:
        self.store.keeping.prepare_next_segment()

    @rule(milliseconds=st.integers(-500, 3000))
    def pass_time(self, milliseconds) -> None:
        self.clock.advance(milliseconds)

    @rule(
        queue=st.sampled_from(QUEUES),
        place=st.integers(0, 40),
        limits=st.tuples(st.integers(1, 20), st.integers(1, 5000)),
        tag=st.sampled_from([None, "arrived", "departed", "never"]),
        lowered=st.booleans(),
    )
    def read(self, queue, place, limits, tag, lowered) -> None:
        max_count, max_bytes = limits
        limit = self.readable_end * 2 // 3 if lowered else None
        end = self.readable_end if limit is None else limit
        messages = self.model.queue(*queue, end)
        low, high = self.store.queue_bounds(*queue, readable_end=limit)
        if messages:
            assert (low, high) == (messages[0].queue_offset, messages[-1].queue_offset + 1)
        else:
            assert low == high
        queue_offset = low + place
        arguments = {
            "max_count": max_count,
            "max_bytes": max_bytes,
            "wanted": None if tag is None else Tagged(tag_code(tag)),
            "readable_end": limit,
        }
        if queue_offset > high:
            with pytest.raises(QueueOffsetOutOfRange) as caught:
                self.store.read_queue(*queue, queue_offset, **arguments)
            assert (caught.value.min_queue_offset, caught.value.max_queue_offset) == (low, high)
            return
        read = self.store.read_queue(*queue, queue_offset, **arguments)
        got = records_of(read)
        assert queue_offset <= read.next_queue_offset <= high
        assert (read.status is QueueReadStatus.EMPTY) == (queue_offset == high)
        assert (read.status is QueueReadStatus.FOUND) == bool(got)
        if queue_offset < high:
            assert read.next_queue_offset > queue_offset
        # Exactly what was looked at and is wanted, in order, nothing missing in between.
        wanted = [
            message
            for message in messages
            if queue_offset <= message.queue_offset < read.next_queue_offset
            and tag in (None, message.tag)
        ]
        assert [(r.queue_offset, r.body, r.tag) for r in got] == [
            (m.queue_offset, m.body, m.tag) for m in wanted
        ]
        assert len(got) <= max_count
        assert len(got) <= 1 or read.size_bytes <= max_bytes

    @rule(topic=st.sampled_from(["flights", "delays"]), key=st.sampled_from(["N1", "N2", "N9"]))
    def query(self, topic, key) -> None:
        found = self.store.query_by_key(topic, key, max_count=10_000)
        expected = self.model.with_key(topic, key, self.readable_end)
        assert [m.commit_log_offset for m in found] == [m.commit_log_offset for m in expected]
        assert [m.body for m in found] == [m.body for m in expected]

    @rule(queue=st.sampled_from(QUEUES), shift=st.integers(-3000, 3000), share=st.floats(0, 1))
    def look_up_time(self, queue, shift, share) -> None:
        messages = self.model.queue(*queue, self.readable_end)
        if not messages:
            return
        near = messages[int(share * (len(messages) - 1))]
        timestamp = near.store_timestamp_ms + shift
        later = [m.queue_offset for m in messages if m.store_timestamp_ms >= timestamp]
        earlier = [m.queue_offset for m in messages if m.store_timestamp_ms <= timestamp]
        found = self.store.queue_offset_at_time(*queue, timestamp)
        assert found == (later[0] if later else messages[-1].queue_offset + 1)
        found = self.store.queue_offset_at_time(*queue, timestamp, boundary=TimeBoundary.UPPER)
        assert found == (earlier[-1] if earlier else messages[0].queue_offset)

    @rule(topic=st.sampled_from(["flights", "delays"]))
    def delete_topic(self, topic) -> None:
        if self.store.keeping.delete_queues(topic):
            self.acknowledged = self.store.flushed_offset
        self.model.delete_topic(topic)
        assert all(queue[0] != topic for queue in self.store.queues())

    @rule()
    def retain(self) -> None:
        self.disk.used_ratio = 0.86
        report = apply_retention(self.store)
        self.disk.used_ratio = 0.1
        apply_retention(self.store)
        assert report.min_offset == self.store.min_offset
        self.acknowledged = max(self.acknowledged, self.store.flushed_offset)
        self.model.lose_head(self.store.min_offset)

    @rule()
    def restart(self) -> None:
        end = self.store.max_offset
        self.store.close()
        self.store = self.open()
        assert not self.store.recovery.crashed
        assert self.store.recovery.records == 0
        assert self.store.recovery.rebuilt == ()
        assert self.store.max_offset == end
        self.acknowledged = end

    @rule()
    def kill(self) -> None:
        written = self.store.max_offset
        self.disk = self.disk.kill()
        self.store = self.open()
        assert self.store.recovery.crashed
        assert self.store.recovery.cut_reason is None
        assert self.store.max_offset >= written
        self.acknowledged = self.store.flushed_offset

    @rule(seed=st.integers(0, 1 << 30))
    def lose_power(self, seed) -> None:
        self.disk = self.disk.lose_power(seed)
        self.store = self.open()
        end = self.store.max_offset
        assert end >= self.acknowledged
        assert self.store.damage == ()
        self.model.lose_tail(end)
        self.acknowledged = end

    @precondition(lambda self: self.model.messages)
    @rule(what=st.sampled_from(["consumequeue", "index", "checkpoint"]))
    def lose_derived(self, what) -> None:
        self.store.close()
        lost = [path for path in self.disk.paths() if what in path.parts]
        for path in lost:
            self.disk.remove(path)
        self.store = self.open()
        assert bool(self.store.recovery.rebuilt) == bool(lost)

    @invariant()
    def queues_are_dense(self) -> None:
        for queue in QUEUES:
            messages = self.model.queue(*queue, self.readable_end)
            offsets = [message.queue_offset for message in messages]
            low, high = self.store.queue_bounds(*queue)
            if offsets:
                assert offsets == list(range(low, high))


@pytest.mark.parametrize("flush_mode", list(FlushMode))
def test_store_is_the_model(flush_mode: FlushMode) -> None:
    machine = type("Machine", (StoreMachine,), {"flush_mode": flush_mode})
    run_state_machine_as_test(
        machine,
        settings=settings(
            stateful_step_count=30,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
