import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ariane_broker.durable.saved_state import SavedState
from ariane_storage.errors import StorePoisoned


class GatedFile:
    """A file whose saves wait for a gate."""

    def __init__(self):
        self.saved = []
        self.gate = threading.Semaphore(0)
        self.error = None

    def load(self):
        return None

    def save(self, document):
        assert self.gate.acquire(timeout=60)
        if self.error is not None:
            raise self.error
        self.saved.append(document)


@pytest.fixture
def file():
    return GatedFile()


@pytest.fixture
def state(file):
    values = {"number": 0}
    executor = ThreadPoolExecutor(1)
    saved = SavedState(file, lambda: [None, values.copy()], executor)
    saved.values = values
    yield saved
    file.gate.release(100)
    executor.shutdown()


async def test_an_unchanged_state_is_not_saved(state, file):
    await state.save()
    assert file.saved == []


async def test_one_save_serves_all_that_came_while_another_was_under_way(state, file):
    tasks = []
    for number in range(1, 20):
        state.values["number"] = number
        state.mark_changed()
        tasks.append(asyncio.create_task(state.save()))
        await asyncio.sleep(0)
    file.gate.release(2)
    await asyncio.gather(*tasks)
    assert [document["number"] for document in file.saved] == [1, 19]


async def test_a_failed_save_stays_to_be_done(state, file):
    state.values["number"] = 1
    state.mark_changed()
    file.error = OSError("full")
    file.gate.release()
    with pytest.raises(OSError, match="full"):
        await state.save()
    file.error = None
    file.gate.release()
    await state.save()
    assert file.saved == [{"number": 1}]


async def test_the_log_is_on_the_disk_before_what_speaks_of_it(file):
    steps, poison = [], []

    def flush_log():
        if poison:
            raise StorePoisoned("gone")
        steps.append("log")

    def snapshot():
        steps.append("snapshot")
        return [{"number": len(steps)}]

    file.gate.release(2)
    with ThreadPoolExecutor(1) as executor:
        saved = SavedState(file, snapshot, executor, flush_log=flush_log)
        saved.mark_changed()
        await saved.save()
        assert steps == ["snapshot", "log"]
        assert file.saved == [{"number": 1}]
        poison.append(True)
        saved.mark_changed()
        with pytest.raises(StorePoisoned):
            await saved.save()
        assert file.saved == [{"number": 1}]
