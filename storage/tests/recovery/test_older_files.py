"""One file of a store goes back in time: an older copy of it, sound by itself, takes its place.

A disk that loses a write does that, and so does whoever restores a file. The log has all that was
acknowledged, so that nothing may be missing, or come from another time.
"""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from ariane_record import decode_record, tag_code
from ariane_storage.testing import Tagged, apply_retention, block_of

QUEUES = [("flights", 0), ("flights", 1), ("delays", 0)]
ROUNDS = 40


def queue_file(bench, queue, first_entry=0):
    folder = bench.root / "consumequeue" / queue[0] / str(queue[1])
    return folder / f"{20 * first_entry:020d}"


def leave(bench, store, how):
    if how == "kill":
        store.flush_derived()
        bench.disk = bench.disk.kill()
    else:
        store.close()


def bodies(messages):
    return [message.body for message in messages]


@pytest.fixture
def read_tagged(read_repaired):
    """All messages of a queue with a tag."""

    def read(store, queue, tag):
        queue_offset, high = store.queue_bounds(*queue)
        found = []
        while queue_offset < high:
            limits = {"max_count": 7, "max_bytes": 100_000, "wanted": Tagged(tag_code(tag))}
            some = read_repaired(store, *queue, queue_offset, **limits)
            records, begin = b"".join(some.chunks), 0
            for size in some.sizes.tolist():
                found.append(decode_record(records[begin : begin + size]))
                begin += size
            queue_offset = some.next_queue_offset
        return found

    return read


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("deleted_by", ["note", "retention"])
def test_a_queue_file_of_an_earlier_topic_with_as_many_entries(
    bench, fill, read_all, how, deleted_by
):
    store = bench.open()
    store.append(block_of("flights", [b"earlier"] * 5), 0)
    store.flush_derived()
    earlier = bench.disk.read(queue_file(bench, ("flights", 0)))
    store.keeping.delete_queues("flights")
    if deleted_by == "retention":
        for _ in range(40):
            store.append(block_of("delays", [b"." * 300] * 3), 0)
        bench.disk.used_ratio = 0.86
        apply_retention(store)
        bench.disk.used_ratio = None
        assert store.min_offset > 1000
    store.append(block_of("flights", [b"now"] * 5), 0)
    leave(bench, store, how)
    bench.disk.write(queue_file(bench, ("flights", 0)), earlier)
    with bench.open() as store:
        assert bodies(read_all(store, "flights", 0)) == [b"now"] * 5
        assert store.append(block_of("flights", [b"n"]), 0).first_queue_offset == 5


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_first_file_of_an_earlier_topic_hides_no_message(bench, read_all, how):
    store = bench.open()
    store.append(block_of("flights", [b"earlier"] * 8), 0)
    store.flush_derived()
    earlier = bench.disk.read(queue_file(bench, ("flights", 0)))
    store.keeping.delete_queues("flights")
    for _ in range(40):
        store.append(block_of("delays", [b"." * 300] * 3), 0)
    bench.disk.used_ratio = 0.86
    apply_retention(store)
    bench.disk.used_ratio = None
    store.append(block_of("flights", [b"now"] * 20), 0)
    leave(bench, store, how)
    bench.disk.write(queue_file(bench, ("flights", 0)), earlier)
    with bench.open() as store:
        assert bodies(read_all(store, "flights", 0)) == [b"now"] * 20


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("blocks", range(1, 40, 3))
def test_an_older_checkpoint_costs_no_message(bench, fill, read_all, how, blocks):
    store = bench.open()
    fill(store, blocks=blocks)
    store.flush_derived()
    older = bench.disk.read(bench.root / "checkpoint")
    fill(store, blocks=60)
    before = {queue: bodies(read_all(store, *queue)) for queue in QUEUES}
    leave(bench, store, how)
    bench.disk.write(bench.root / "checkpoint", older)
    for _ in range(2):
        store = bench.open()
        assert store.recovery.set_aside == ()
        assert {queue: bodies(read_all(store, *queue)) for queue in QUEUES} == before
        store.close()


class Past:
    """A store with a past: its messages, and what its files were like at some moments."""

    def __init__(self, bench, dice):
        self.bench, self.dice = bench, dice
        self.store = bench.open()
        self.messages = defaultdict(list)
        self.copies = defaultdict(list)
        self.count = 0

    def live(self, steps):
        deeds = [self.append] * 12 + [self.look] * 4
        deeds += [self.lose_power, self.delete, self.retain, self.restart]
        for _ in range(steps):
            self.dice.choice(deeds)()

    def append(self):
        topic, queue_id = queue = self.dice.choice(QUEUES)
        sent = []
        for _ in range(self.dice.randrange(1, 6)):
            self.count += 1
            sent.append((b"%d;" % self.count + b"." * self.dice.randrange(300), self.tag()))
        block = block_of(topic, [body for body, _ in sent], tags=[tag for _, tag in sent])
        appended = self.store.append(block, queue_id)
        places = appended.commit_log_offsets.tolist()
        self.messages[queue] += [(*each, place) for each, place in zip(sent, places, strict=True)]

    def tag(self):
        return self.dice.choice(["wanted", "other", ""])

    def look(self):
        """Remember what the files of queues and the checkpoint are like now."""
        self.store.flush_derived()
        for path in self.bench.disk.paths():
            if {"consumequeue", "checkpoint"} & {*path.parts}:
                self.copies[path].append(self.bench.disk.read(path))

    def lose_power(self):
        self.bench.disk = self.bench.disk.lose_power(self.dice.randrange(1 << 30))
        self.store = self.bench.open()
        self.keep(0, self.store.max_offset)

    def delete(self):
        topic = self.dice.choice(["flights", "delays"])
        self.store.keeping.delete_queues(topic)
        self.store.flush_derived()
        for queue in QUEUES:
            if queue[0] == topic:
                self.messages[queue].clear()

    def retain(self):
        self.bench.disk.used_ratio = 0.86
        apply_retention(self.store)
        self.bench.disk.used_ratio = 0.1
        apply_retention(self.store)
        self.keep(self.store.min_offset, self.store.max_offset)

    def restart(self):
        self.store.close()
        self.store = self.bench.open()

    def keep(self, begin, end):
        for queue in QUEUES:
            self.messages[queue] = [m for m in self.messages[queue] if begin <= m[2] < end]

    def go_back(self):
        """One file becomes an earlier one of its name; returns which and how, or None."""
        self.look()
        disk = self.bench.disk
        paths = [path for path, copies in self.copies.items() if disk.size_of(path) is not None]
        path = self.dice.choice(paths)
        how = self.dice.choice(["stop", "kill", "beside us"])
        if how != "beside us":
            leave(self.bench, self.store, how)
        self.bench.disk.write(path, self.dice.choice(self.copies[path]))
        if how != "beside us":
            self.store = self.bench.open()
        return f"{how}: {path}"


@pytest.mark.parametrize("seed", range(4))
def test_any_file_of_the_past_hides_no_message(bench_class, read_all, read_tagged, seed):
    dice = random.Random(seed)
    for _ in range(ROUNDS):
        past = Past(bench_class(), dice)
        past.live(dice.randrange(10, 60))
        ends = {queue: past.store.queue_bounds(*queue)[1] for queue in past.store.queues()}
        what, store = past.go_back(), past.store
        for queue, end in ends.items():
            wanted = [body for body, tag, _ in past.messages[queue] if tag == "wanted"]
            assert bodies(read_tagged(store, queue, "wanted")) == wanted, what
            sent = [body for body, _, _ in past.messages[queue]]
            assert bodies(read_all(store, *queue)) == sent, what
            appended = store.append(block_of(queue[0], [b"new"]), queue[1])
            assert appended.first_queue_offset >= end, what
        store.close()
