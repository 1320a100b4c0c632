"""Sizes of index files that no file says: stores of Java have whatever their broker was told."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from ariane_storage import Store
from ariane_storage.commands import store as store_group
from ariane_storage.disk.os_disk import OsDisk
from ariane_storage.layout import sizes_in
from ariane_storage.testing import small_config

SIZES = [(1000, 3000), (7, 5000), (400, 333), (5, 20)]


def store_of_java(root, fill, slots, items, blocks=10):
    """A closed store that does not say its sizes."""
    config = replace(small_config(), index_slots=slots, index_items=items)
    with Store.open(root, config) as store:
        fill(store, blocks=blocks)
    for name in ("layout.json", "layout.json.sums", "checkpoint"):
        (root / name).unlink(missing_ok=True)
    return sorted((root / "index").iterdir())


@pytest.mark.parametrize(("slots", "items"), SIZES)
def test_a_sound_store_with_unusual_index_sizes_is_sound(tmp_path, fill, slots, items):
    root = tmp_path / "store"
    files = store_of_java(root, fill, slots, items)
    assert {sizes_in(OsDisk(), path) for path in files} == {(slots, items)}

    said = CliRunner().invoke(store_group, ["verify", str(root), "-o", "json"])

    figures = json.loads(said.stdout)
    assert (said.exit_code, figures["findings"], figures["to_repair"]) == (0, 0, 0), said.output


def test_a_file_whose_content_does_not_tell_its_sizes(tmp_path, fill):
    root = tmp_path / "store"
    [path] = store_of_java(root, fill, 1000, 3000)
    whole = path.read_bytes()
    for content in (b"", whole[:30], bytes(len(whole)), whole[:40] + bytes(len(whole) - 40)):
        path.write_bytes(content)
        assert sizes_in(OsDisk(), path) is None
    # An item that is not the newest of its slot proves nothing.
    path.write_bytes(whole[:40] + bytes(4000) + whole[4040:])
    assert sizes_in(OsDisk(), path) is None
