"""Pages of consume queues, index and checkpoint that the disk cannot read: all is built again."""

from __future__ import annotations

import pytest

from ariane_storage.state_file import StateFile
from ariane_storage.testing import block_of

QUEUES = (("flights", 0), ("flights", 1), ("delays", 0))


def contents(store, read_all):
    return {queue: [m.body for m in read_all(store, *queue)] for queue in QUEUES}


def keys_found(store):
    return [len(store.query_by_key("flights", f"N{number}", max_count=999)) for number in range(4)]


def lose(bench, folder):
    """Let the disk lose every page of the files below a folder of the store."""
    paths = [path for path in bench.disk.paths() if bench.root / folder in path.parents]
    assert paths
    for path in paths:
        bench.disk.make_unreadable(path, 0, bench.disk.size_of(path))
    return paths


@pytest.mark.parametrize("folder", ["consumequeue", "index"])
@pytest.mark.parametrize("known", ["clean stop", "crash"])
def test_lost_files_are_built_again_at_the_start(bench, fill, read_all, folder, known):
    store = bench.open()
    fill(store, blocks=40)
    before, keys = contents(store, read_all), keys_found(store)
    store.flush_derived()
    if known == "clean stop":
        store.close()
    bench.disk = bench.disk.kill()
    lose(bench, folder)
    for _ in range(2):
        store = bench.open()
        assert contents(store, read_all) == before
        assert keys_found(store) == keys
        store.append(block_of("flights", [b"goes on"]), 0)
        assert read_all(store, "flights", 0)[-1].body == b"goes on"
        before["flights", 0].append(b"goes on")
        store.close()
    assert store.damage == ()


def test_a_queue_file_that_is_lost_while_the_store_is_open(bench, store, fill, read_all):
    fill(store, blocks=40)
    before = contents(store, read_all)
    store.flush_derived()
    paths = lose(bench, "consumequeue/flights/1")

    assert contents(store, read_all) == before

    assert {(place.path, place.position) for place in store.unreadable} == {
        (path, 0) for path in paths
    }
    assert "Input/output error" in str(store.unreadable[0])
    # The files hold it again, and nothing else is there.
    assert set(lose(bench, "consumequeue/flights/1")) == set(paths)
    assert contents(store, read_all) == before


def test_entries_are_written_to_a_queue_file_that_is_lost(bench, store, fill, read_all):
    fill(store, blocks=3)
    store.flush_derived()
    lose(bench, "consumequeue")
    fill(store, blocks=3)
    store.flush_derived()
    assert [len(bodies) for bodies in contents(store, read_all).values()] == [6, 6, 6]


def test_an_index_file_that_is_lost_while_the_store_is_open(bench, fill, read_all):
    store = bench.open()
    fill(store, blocks=40)
    keys = keys_found(store)
    store.flush_derived()
    assert len(store._parts.index.files) > 2
    first = store._parts.index.files[0].path
    bench.disk.make_unreadable(first, 0, 1)

    fewer = keys_found(store)

    assert all(0 < found <= there for found, there in zip(fewer, keys, strict=True))
    assert fewer != keys
    assert {place.path for place in store.unreadable} == {first}
    store.append(block_of("flights", [b"x"], keys=[["N0"]]), 0)
    store.close()
    store = bench.open()
    assert store.recovery.rebuilt == ("index",)
    assert keys_found(store) == [keys[0] + 1, *keys[1:]]
    store.close()
    store = bench.open()
    assert (store.recovery.rebuilt, store.unreadable) == ((), ())
    store.close()


def test_a_lost_checkpoint_is_none(bench, fill, read_all):
    store = bench.open()
    fill(store)
    before = contents(store, read_all)
    store.close()
    bench.disk.make_unreadable(bench.root / "checkpoint", 0, 1)
    store = bench.open()
    assert store.recovery.rebuilt == ("consume queues", "index")
    assert contents(store, read_all) == before
    store.close()
    store = bench.open()
    assert store.recovery.rebuilt == ()
    store.close()


def test_a_lost_generation_of_a_state_file_is_passed_over(bench):
    path = bench.root / "topics.json"
    file = StateFile(path, bench.disk)
    file.save({"a": 1})
    file.save({"a": 2})
    bench.disk.make_unreadable(path, 0, 1)
    assert file.load() == {"a": 1}
    assert file.used_backup
    file.save({"a": 3})
    assert StateFile(path, bench.disk).load() == {"a": 3}
    bench.disk.make_unreadable(path.with_name("topics.json.sums"), 0, 1)
    assert StateFile(path, bench.disk).load() == {"a": 3}
