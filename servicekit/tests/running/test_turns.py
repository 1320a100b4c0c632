"""Long work gives way to others after so many things, and after so much time."""

import asyncio

import pytest

from ariane_servicekit.running import turns
from ariane_servicekit.running.turns import EXAMINED_MAX, TURN_S_MAX, in_turns


@pytest.fixture
async def passes(monkeypatch):
    """Do work whose things take so long each, and return the things of each turn."""
    loop = asyncio.get_running_loop()
    now = 0.0
    monkeypatch.setattr(loop, "time", lambda: now)

    async def run(count, thing_s):
        seen, done = [0], asyncio.Event()

        async def watch():
            while not done.is_set():
                seen.append(0)
                await asyncio.sleep(0)

        def work():
            nonlocal now
            for number in range(count):
                now += thing_s
                seen[-1] += 1
                yield number

        watching = asyncio.create_task(watch())
        assert await in_turns(work()) == list(range(count))
        done.set()
        await watching
        return [each for each in seen if each]

    return run


async def test_work_gives_way_after_so_many_things_or_so_much_time(passes):
    assert await passes(EXAMINED_MAX * 2 + 1, 0) == [EXAMINED_MAX, EXAMINED_MAX, 1]
    assert await passes(6, TURN_S_MAX * 0.6) == [2, 2, 2]
    assert await passes(3, TURN_S_MAX * 100) == [1, 1, 1]
    assert turns.at_once(iter([1, None, 2])) == [1, 2]
