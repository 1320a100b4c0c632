"""A receive looks at the queues of its topics some at a time, however many there are."""

import asyncio

import pytest

from ariane_broker.receive.handing_out.open_windows import OpenWindows
from ariane_servicekit import EXAMINED_MAX
from services.broker.tests.receive.receive_calls import Receiver, bodies, held

QUEUE_COUNT = 4 * EXAMINED_MAX + 1


class Examined:
    """The queues that each turn of the loop examined, of turns that examined some."""

    def __init__(self, patch):
        self.turns = []
        self._now = []
        run, look = asyncio.events.Handle._run, OpenWindows.open
        own = asyncio.get_running_loop()

        def counted_run(handle):
            if handle._loop is not own:  # That of a blocking client, in another thread.
                run(handle)
                return
            self._now = []
            run(handle)
            if self._now:
                self.turns.append(self._now)

        def counted_look(windows, order, queue):
            self._now.append(queue)
            return look(windows, order, queue)

        patch.setattr(asyncio.events.Handle, "_run", counted_run)
        patch.setattr(OpenWindows, "open", counted_look)

    @property
    def most(self):
        return max(map(len, self.turns))

    def take(self):
        turns, self.turns = self.turns, []
        return turns


@pytest.fixture
async def examined(broker, monkeypatch):
    await broker.create_topic("orders", QUEUE_COUNT)
    return Examined(monkeypatch)


@pytest.mark.parametrize(
    "wanted", [{}, {"tag": "paid"}, {"sql": "shop = 'south'"}, {"by_priority": True}]
)
async def test_no_turn_examines_more_queues_than_the_bound(broker, examined, wanted):
    receiver = Receiver(broker)
    assert await receiver.receive(**wanted) == []
    assert examined.most == EXAMINED_MAX
    (turns := examined.take()).sort(key=len)
    # Each queue once, and the next turn goes on where the last one stopped.
    assert len({queue for turn in turns for queue in turn}) == QUEUE_COUNT
    assert sum(map(len, turns)) == QUEUE_COUNT
    waiting = asyncio.create_task(receiver.receive(hold_s=30, **wanted))
    await held(broker, 1)
    examined.take()
    # Who waits looks where something has come, and nowhere else.
    await broker.store("orders", [b"x"], 77, tags=["paid"], properties={"shop": "south"})
    assert bodies(await waiting) == ["x"]
    assert {queue.queue_id for turn in examined.take() for queue in turn} == {77}
