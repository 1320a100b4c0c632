"""A store with IPv6 hosts in it, as all who read one see it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from ariane_record.decoding.arrow import to_arrow
from ariane_record.decoding.columns import decode_columns
from ariane_record.single.message_id import encode_offset_message_id
from ariane_storage import Store
from ariane_storage.commands import store as store_group
from ariane_storage.testing import block_of, small_config

STORE_HOST = ("2001:db8::7", 10911)
BORN_HOSTS = [("10.0.0.1", 1), ("::1", 2)]
COUNT = 20


@pytest.fixture
def root(tmp_path):
    """A closed store of blocks from IPv4 and IPv6 producers in turn, over several segments."""
    config = replace(small_config(), store_host=STORE_HOST)
    with Store.open(tmp_path / "store", config) as store:
        for turn in range(6):
            bodies = [b"%d-%d" % (turn, place) for place in range(COUNT)]
            block = block_of("flights", bodies, tags=["t"] * COUNT, keys=[["k"]] * COUNT)
            store.append(block, 0, born_host=BORN_HOSTS[turn % 2])
    return tmp_path / "store"


def test_commands_find_nothing_wrong(root):
    findings = CliRunner().invoke(store_group, ["fsck", str(root), "-o", "json"])
    assert (findings.exit_code, json.loads(findings.stdout)) == (0, [])
    verified = CliRunner().invoke(store_group, ["verify", str(root), "-o", "json"])
    assert verified.exit_code == 0, verified.output
    figures = json.loads(verified.stdout)
    assert (figures["records"], figures["damaged"]) == (6 * COUNT, 0)


def test_rebuilt_queues_are_the_same(root):
    before = sorted((root / "consumequeue").rglob("0*"))
    contents = [path.read_bytes() for path in before if path.is_file()]
    result = CliRunner().invoke(store_group, ["rebuild", str(root)])
    assert result.exit_code == 0, result.output
    after = sorted((root / "consumequeue").rglob("0*"))
    assert [path.read_bytes() for path in after if path.is_file()] == contents


def test_columns_and_message_ids_are_right(root):
    with Store.open(root, small_config()) as store:
        read = store.read_queue("flights", 0, 0, max_count=6 * COUNT, max_bytes=1 << 20)
        columns = decode_columns(b"".join(read.chunks), read.sizes)
        offsets = columns.commit_log_offset.tolist()
        found = [store.message_at(place) for place in offsets]
    expected = [b"%d-%d" % (turn, place) for turn in range(6) for place in range(COUNT)]
    assert columns.bodies() == [message.body for message in found] == expected
    assert [message.born_host for message in found[::COUNT]] == BORN_HOSTS * 3
    rows = to_arrow(columns, ["messageId", "body", "queueOffset", "tag"]).to_pydict()
    assert rows["messageId"] == [encode_offset_message_id(STORE_HOST, o) for o in offsets]
    assert rows["body"] == expected
    assert rows["queueOffset"] == list(range(6 * COUNT))
    assert set(rows["tag"]) == {"t"}
