"""A store can be composed before it is open; what is asked of it too early says so."""

import pytest

from ariane_storage import Store
from ariane_storage.errors import StoreClosed
from ariane_storage.testing import block_of, small_config


def test_a_store_that_is_not_open_yet_says_so_and_touches_nothing(tmp_path):
    store = Store(tmp_path / "store", small_config())
    asked = (
        lambda: store.append(block_of("orders", [b"a"]), 0),
        lambda: store.queue_bounds("orders", 0),
        lambda: store.max_offset,
        lambda: store.config,
        lambda: store.keeping,
        lambda: store.recovery,
    )
    for ask in asked:
        with pytest.raises(StoreClosed, match="not open yet"):
            ask()
    assert not store.is_open
    store.close()
    assert not (tmp_path / "store").exists()
    with pytest.raises(AttributeError):
        store.no_such_thing  # noqa: B018


def test_it_is_open_once_it_has_recovered_under_the_host_that_is_known_by_then(tmp_path):
    store = Store(tmp_path / "store", small_config())
    store.recover(("10.0.0.7", 10911))
    store.append(block_of("orders", [b"a"]), 0)
    assert store.is_open
    assert store.message_at(0).store_host == ("10.0.0.7", 10911)
    store.close()
    assert not store.is_open
