from __future__ import annotations

import asyncio
import json

import pytest

from ariane_namesrv.operator_state import OperatorState
from ariane_servicekit import ServiceError, StartRefused


@pytest.fixture
def shown():
    """What the route table was told to be wiped."""
    return []


@pytest.fixture
async def opened(tmp_path, shown):
    """Open states of the same folder one after another, as restarts do."""
    states = []

    async def opened(bytes_max=10_000):
        for state in states:
            state.close()
        state = OperatorState(
            tmp_path / "namesrv", key_values_bytes_max=bytes_max, show_wiped=shown.append
        )
        states.append(state)
        await state.open()
        return state

    yield opened
    for state in states:
        state.close()


def refused(caught) -> str:
    return caught.value.row.name


async def test_key_values_outlive_a_restart(opened):
    state = await opened()
    await state.put("ORDER_TOPIC_CONFIG", "trades", "broker-a:4")
    await state.put("ORDER_TOPIC_CONFIG", "bids", "ü")
    await state.put("other", "trades", "x")
    await state.put("ORDER_TOPIC_CONFIG", "trades", "broker-b:4")
    assert await state.delete("other", "trades")
    assert not await state.delete("other", "trades")
    for one in (state, await opened()):
        assert one.pairs("ORDER_TOPIC_CONFIG") == [("bids", "ü"), ("trades", "broker-b:4")]
        assert one.value("ORDER_TOPIC_CONFIG", "trades") == "broker-b:4"
        assert one.value("ORDER_TOPIC_CONFIG", "none") == ""
        assert one.pairs("other") == []


async def test_wipes_outlive_a_restart(opened, shown):
    state = await opened()
    assert await state.wipe("broker-a")
    assert await state.wipe("broker-b")
    assert not await state.wipe("broker-b")
    assert await state.restore("broker-a")
    assert not await state.restore("never")
    assert shown == [set(), {"broker-a"}, {"broker-a", "broker-b"}, {"broker-b"}]
    assert (await opened()).wiped_brokers == {"broker-b"}
    assert shown[-1] == {"broker-b"}


async def test_changes_at_the_same_time_are_all_kept(opened):
    state = await opened()
    await asyncio.gather(
        *(state.put("n", f"key-{number}", str(number)) for number in range(20)),
        *(state.wipe(f"broker-{number}") for number in range(5)),
    )
    reopened = await opened()
    assert len(reopened.pairs("n")) == 20
    assert len(reopened.wiped_brokers) == 5


async def test_a_caller_that_gives_up_leaves_disk_and_memory_equal(opened):
    state = await opened()
    putting = asyncio.ensure_future(state.put("n", "k", "v"))
    await asyncio.sleep(0)
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    await state.put("n", "k2", "v2")
    assert (await opened()).pairs("n") == state.pairs("n")


@pytest.mark.parametrize(
    ("namespace", "key", "value", "field"),
    [
        ("", "k", "v", "namespace"),
        ("n", "", "v", "key"),
        ("n" * 256, "k", "v", "namespace"),
        ("n", "k" * 256, "v", "key"),
        ("n", "k", "ü" * 40_000, "value"),
        ("ARIANE_WIPED_BROKERS", "k", "v", "namespace"),
    ],
)
async def test_limits(opened, namespace, key, value, field):
    state = await opened(bytes_max=1_000_000)
    with pytest.raises(ServiceError) as caught:
        await state.put(namespace, key, value)
    assert refused(caught) == "FIELD_INVALID"
    assert caught.value.metadata["field"] == field


async def test_all_values_together_have_a_limit(opened):
    state = await opened(bytes_max=100)
    await state.put("n", "k", "v" * 90)
    with pytest.raises(ServiceError) as caught:
        await state.put("n", "l", "v" * 20)
    assert refused(caught) == "FIELD_INVALID"
    await state.put("n", "k", "v")
    await state.put("n", "l", "v" * 20)


async def test_without_a_folder_changes_are_refused_not_lost(shown):
    state = OperatorState(None, key_values_bytes_max=100, show_wiped=shown.append)
    await state.open()
    for change in (state.put("n", "k", "v"), state.wipe("broker-a")):
        with pytest.raises(ServiceError) as caught:
            await change
        assert refused(caught) == "FEATURE_NOT_AVAILABLE"
    assert state.pairs("n") == []
    assert state.wiped_brokers == frozenset()
    assert shown == []
    assert not await state.delete("n", "k")
    state.close()


async def test_a_folder_is_for_one_name_server(opened, tmp_path, shown):
    await opened()
    second = OperatorState(tmp_path / "namesrv", key_values_bytes_max=1, show_wiped=shown.append)
    with pytest.raises(StartRefused, match="in use by another process"):
        await second.open()


@pytest.mark.parametrize(
    "content",
    [{"configTable": 7}, {"configTable": {"n": 7}}, {"configTable": {"ARIANE_WIPED_BROKERS": [7]}}],
)
async def test_a_file_of_something_else_refuses_the_start(opened, tmp_path, content):
    (tmp_path / "namesrv").mkdir()
    (tmp_path / "namesrv" / "kvConfig.json").write_text(json.dumps(content))
    with pytest.raises(StartRefused, match=r"kvConfig\.json does not hold"):
        await opened()


async def test_a_damaged_file_refuses_the_start(opened, tmp_path):
    (tmp_path / "namesrv").mkdir()
    (tmp_path / "namesrv" / "kvConfig.json").write_text("{")
    with pytest.raises(StartRefused, match="are damaged"):
        await opened()


async def test_the_file_is_rocketmqs(opened, tmp_path):
    path = tmp_path / "namesrv" / "kvConfig.json"
    path.parent.mkdir()
    path.write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"trades":"broker-a:4"},"empty":{}}}')
    state = await opened()
    assert state.value("ORDER_TOPIC_CONFIG", "trades") == "broker-a:4"
    await state.put("other", "k", "v")
    await state.wipe("broker-b")
    assert json.loads(path.read_text()) == {
        "configTable": {
            "ORDER_TOPIC_CONFIG": {"trades": "broker-a:4"},
            "other": {"k": "v"},
            "ARIANE_WIPED_BROKERS": {"broker-b": "true"},
        }
    }
    assert state.pairs("ARIANE_WIPED_BROKERS") == []
