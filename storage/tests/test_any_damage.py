"""One file of a closed store is damaged, any of them, anyhow.

Whatever it is: nothing false is served, no offset is used again, a second opening finds the same,
and what cannot be decided is refused with an error of the store.
"""

from __future__ import annotations

import random

import pytest

from ariane_storage import StorageError
from ariane_storage.testing import FaultyDisk, block_of

ROUNDS = 36


def damage(disk, paths, dice):
    path = dice.choice(paths)
    content = bytearray(disk.read(path))
    place, length = dice.randrange(len(content)), dice.choice([8, 50, 512, 2000])
    kind = dice.choice(
        ["flip", "zeros", "other bytes", "short", "missing", "another file", "lost pages"]
    )
    match kind:
        case "flip":
            content[dice.randrange(min(len(content), 12_000))] ^= 1 << dice.randrange(8)
        case "zeros":
            content[place : place + length] = bytes(len(content[place : place + length]))
        case "other bytes":
            old = content[place : place + length]
            content[place : place + length] = dice.randbytes(len(old))
        case "short":
            del content[place:]
        case "lost pages":
            disk.lose_pages(path, 1 + dice.randrange(2), dice.randrange(1 << 30))
            return f"{kind}: {path}"
        case "another file":
            content = bytearray(disk.read(dice.choice(paths)))
    if kind == "missing":
        disk.remove(path)
    else:
        disk.write(path, bytes(content))
    return f"{kind}: {path}"


SLOW = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8)]


@pytest.mark.parametrize("seed", [0, 1, *SLOW])
def test_any_damage(bench, fill, read_all, seed):
    store = bench.open()
    fill(store, blocks=30)
    ends = {queue: store.queue_bounds(*queue)[1] for queue in store.queues()}
    bodies = {m.commit_log_offset: m.body for queue in ends for m in read_all(store, *queue)}
    end = store.max_offset
    store.close()
    sound = {path: bench.disk.read(path) for path in sorted(bench.disk.paths())}
    # Without its checkpoint nobody knows what was durable; with it, nothing is given up.
    paths = [path for path in sound if sound[path] and path.name != "checkpoint"]
    dice = random.Random(seed)
    refused = 0
    for _ in range(ROUNDS):
        bench.disk = FaultyDisk()
        for path, content in sound.items():
            bench.disk.make_folders(path.parent)
            bench.disk.write(path, content)
        what = damage(bench.disk, paths, dice)
        for again in (False, True):
            try:
                store = bench.open(rebuild=not again and dice.random() < 0.2)
            except StorageError:
                refused += 1
                break
            assert store.max_offset >= end, what
            for queue, high in ends.items():
                assert store.queue_bounds(*queue)[1] >= high, what
                for message in read_all(store, *queue):
                    known = bodies.get(message.commit_log_offset, b"new")
                    assert message.body == known, what
                appended = store.append(block_of(queue[0], [b"new"]), queue[1])
                assert appended.first_queue_offset == high + again, what
            assert store.query_by_key("flights", "N1", max_count=1), what
            store.flush()
            bench.disk = bench.disk.kill()
    assert refused < ROUNDS // 2
