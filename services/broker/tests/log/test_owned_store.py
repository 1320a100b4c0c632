from pathlib import Path
from types import SimpleNamespace

import pytest

from ariane_broker.log.owned_store import OwnedStore
from ariane_storage.errors import StoreFull


class FullStore:
    """A store that has room or not."""

    full = True

    def append_block(self, block, queue_id, *, born_host):
        if self.full:
            raise StoreFull(Path("s"), "no space left on device")

    def append_table(self, table, *, born_host):
        return None if self.full else [table]

    def prepare_next_segment(self):
        if self.full:
            raise StoreFull(Path("s"), "no space left on device")


@pytest.mark.parametrize("way", ["append", "table", "prepare"])
def test_room_that_is_there_again_is_told(way):
    opened = FullStore()
    store = OwnedStore(lambda _host: opened)
    store.open(("127.0.0.1", 1))
    assert store.append_refusal == ""
    with pytest.raises(StoreFull):
        store.append_block(None, 0)
    assert store.append_refusal == "no space left on device"
    with pytest.raises(StoreFull):
        store.prepare_next_segment()
    assert store.append_table("none", born_host=("127.0.0.1", 1)) is None
    assert store.append_refusal
    opened.full = False
    if way == "append":
        store.append_block(None, 0)
    elif way == "table":
        assert store.append_table("some", born_host=("127.0.0.1", 1)) == ["some"]
    else:
        store.prepare_next_segment()
    assert store.append_refusal == ""


@pytest.mark.parametrize(
    ("needed", "keep_from"), [([], 500), ([None], 500), ([None, 30, 80], 30), ([900], 500)]
)
def test_retention_keeps_what_is_needed_and_what_comes_while_it_chooses(needed, keep_from):
    store = OwnedStore(lambda _host: SimpleNamespace(max_offset=500))
    store.open(("127.0.0.1", 1))
    for offset in needed:
        store.keep_needed(lambda offset=offset: offset)
    assert store.needed_from == keep_from
