"""State files: replaced whole, two generations, never guessed."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_storage import OsDisk, StateFile, StateFileDamaged
from ariane_storage.disk.disk import is_exhausted
from ariane_storage.state_file import decode_state, encode_state
from ariane_storage.testing import FaultyDisk, PowerLost

PATH = Path("/config/consumerOffset.json")
OLD, NEW, NEWEST = ({"offsetTable": {"t@g": {"0": n}}} for n in (1, 2, 3))

FASTJSON = """{
\t"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1700000000000},
\t"offsetTable":{
\t\t"TopicTest@group:1":{0:12,1:30,-5 : 7
\t\t},
\t\t"%RETRY%g@g":{0:"a 1:2 b"}
\t}
}"""


def state_file(disk=None):
    return StateFile(PATH, disk or FaultyDisk())


def test_nothing_there_is_nothing():
    assert state_file().load() is None


def test_bare_integer_keys_are_read():
    state = decode_state(FASTJSON.encode())
    assert state["offsetTable"]["TopicTest@group:1"] == {"0": 12, "1": 30, "-5": 7}
    assert state["offsetTable"]["%RETRY%g@g"] == {"0": "a 1:2 b"}
    assert state["dataVersion"]["timestamp"] == 1_700_000_000_000


def test_what_is_nested_too_deeply_is_no_state():
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_state(b'{"offsetTable":' + b"[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_state(b'{"offsetTable":{0:' + b"[" * 100_000)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(state=st.dictionaries(st.text(), JSON, max_size=4))
def test_what_is_written_is_read(state):
    assert decode_state(encode_state(state)) == state
    assert json.loads(encode_state(state)) == state


def test_each_entry_has_a_line():
    state = {"version": 1, "table": {1: {"é": [0]}, "b": {}}, "rows": [(1, 2), [3]], "none": []}
    assert encode_state(state).decode().splitlines() == [
        "{",
        '\t"version": 1,',
        '\t"table": {',
        '\t\t"1": {"é": [0]},',
        '\t\t"b": {}',
        "\t},",
        '\t"rows": [',
        "\t\t[1, 2],",
        "\t\t[3]",
        "\t],",
        '\t"none": []',
        "}",
    ]


@given(table=st.dictionaries(st.integers(), st.text(), max_size=5))
def test_fastjson_tables_are_read(table):
    pairs = ",".join(f"{key}:{json.dumps(text)}" for key, text in table.items())
    assert decode_state(f'{{"t":{{{pairs}}}}}'.encode()) == {
        "t": {str(key): text for key, text in table.items()}
    }


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"null", b'{"a":1}x'])
def test_what_is_no_object_is_refused(content):
    disk = FaultyDisk()
    disk.make_folders(PATH.parent)
    disk.write(PATH, content)
    with pytest.raises(StateFileDamaged, match="restore it, or remove"):
        state_file(disk).load()


def test_the_generation_before_is_kept():
    disk = FaultyDisk()
    file = state_file(disk)
    for state in (OLD, NEW, NEWEST):
        file.save(state)
    assert file.load() == NEWEST
    assert not file.used_backup
    assert decode_state(disk.read(PATH.with_name(PATH.name + ".bak"))) == NEW
    disk.flip_bit(PATH, 30, 0)
    assert file.load() == NEW
    assert file.used_backup
    disk.remove(PATH)
    assert file.load() == NEW
    file.save(NEWEST)
    assert file.load() == NEWEST
    assert not file.used_backup


def test_both_generations_gone_is_an_error_not_emptiness():
    disk = FaultyDisk()
    file = state_file(disk)
    file.save(OLD)
    file.save(NEW)
    for name in ("", ".bak"):
        disk.remove(PATH.with_name(PATH.name + name))
    with pytest.raises(StateFileDamaged, match="is missing"):
        file.load()
    disk.remove(PATH.with_name(PATH.name + ".sums"))
    assert file.load() is None


def test_every_flipped_bit_is_noticed():
    disk = FaultyDisk()
    file = state_file(disk)
    file.save(OLD)
    content = disk.read(PATH)
    for position in range(len(content)):
        for bit in range(8):
            disk.flip_bit(PATH, position, bit)
            with pytest.raises(StateFileDamaged, match=r"differs from its checksum|is no JSON"):
                file.load()
            disk.write(PATH, content)
    assert file.load() == OLD


def test_a_file_of_another_program_is_believed_if_it_parses():
    disk = FaultyDisk()
    disk.make_folders(PATH.parent)
    disk.write(PATH, FASTJSON.encode())
    state = state_file(disk).load()
    assert state is not None
    assert "offsetTable" in state


def test_what_rocketmq_made_of_our_file_is_believed():
    disk = FaultyDisk()
    file = state_file(disk)
    file.save(OLD)
    file.save(NEW)
    disk.rename(PATH, PATH.with_name(PATH.name + ".bak"))
    disk.write(PATH, FASTJSON.encode())
    state = file.load()
    assert state is not None
    assert state["offsetTable"]["TopicTest@group:1"] == {"0": 12, "1": 30, "-5": 7}
    assert not file.used_backup
    file.save(NEWEST)
    assert file.load() == NEWEST
    assert decode_state(disk.read(PATH.with_name(PATH.name + ".bak"))) == state


def test_a_generation_that_was_not_believed_does_not_replace_a_sound_one():
    disk = FaultyDisk()
    file = state_file(disk)
    file.save(OLD)
    file.save(NEW)
    disk.flip_bit(PATH, 30, 0)
    assert file.load() == OLD
    file.save(NEWEST)
    assert file.load() == NEWEST
    assert decode_state(disk.read(PATH.with_name(PATH.name + ".bak"))) == OLD
    disk.remove(PATH)
    assert file.load() == OLD


def test_a_damaged_sidecar_leaves_the_file_to_speak_for_itself():
    disk = FaultyDisk()
    file = state_file(disk)
    file.save(OLD)
    disk.write(PATH.with_name(PATH.name + ".sums"), b"?")
    assert file.load() == OLD
    disk.remove(PATH)
    with pytest.raises(StateFileDamaged, match="sums is damaged"):
        file.load()


@pytest.mark.parametrize("saves", [1, 2, 3])
def test_power_lost_at_every_step_leaves_before_or_after(saves):
    states = [None, OLD, NEW, NEWEST]
    for step in range(1, 100):
        for seed in range(6):
            disk = FaultyDisk()
            file = state_file(disk)
            for state in states[1:saves]:
                file.save(state)
            disk.power_fails_at = disk.steps + step
            try:
                file.save(states[saves])
            except PowerLost:
                after = state_file(disk.lose_power(seed)).load()
                assert after in (states[saves - 1], states[saves]), (step, seed)
            else:
                assert state_file(disk.lose_power(seed)).load() == states[saves]
                assert step > 5
                return
    raise AssertionError("saving never ends")


@pytest.mark.parametrize("length", [1, 99], ids=["once", "for ever"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("saves", [1, 2, 3])
def test_an_error_at_every_step_leaves_before_or_after(saves, error, length):
    states = [None, OLD, NEW, NEWEST]
    outcomes = set()
    for step in range(1, 100):
        disk = FaultyDisk()
        file = state_file(disk)
        for state in states[1:saves]:
            file.save(state)
        disk.error, disk.failing = error, range(disk.steps + step, disk.steps + step + length)
        try:
            file.save(states[saves])
        except OSError as raised:
            refused = is_exhausted(raised)
            disk.failing = range(0)
            possible = [states[saves - 1]] if refused else states[saves - 1 : saves + 1]
            assert file.load() in possible, step
            after = state_file(disk.copy().kill())
            assert after.load() in possible, step
            assert state_file(disk.copy().lose_power(step)).load() in possible, step
            after.save({"on": step})
            outcomes.add(refused)
            file.save({"on": step})
            assert state_file(disk.lose_power(step)).load() == {"on": step}
        else:
            assert step > 5
            # Without space only what comes after the change is no refusal.
            assert outcomes == ({False} if error == errno.EIO else {True, False})
            return
    raise AssertionError("saving never ends")


def test_removed_means_removed():
    disk = FaultyDisk()
    file = state_file(disk)
    file.save(OLD)
    file.save(NEW)
    file.remove()
    assert state_file(disk.lose_power(0)).load() is None


def test_on_the_real_disk(tmp_path):
    file = StateFile(tmp_path / "config" / "topics.json", OsDisk())
    file.save(OLD)
    file.save(NEW)
    assert file.load() == NEW
    assert sorted(path.name for path in (tmp_path / "config").iterdir()) == [
        "topics.json",
        "topics.json.bak",
        "topics.json.sums",
    ]
