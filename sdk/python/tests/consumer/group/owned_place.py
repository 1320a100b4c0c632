"""What tests give owned queues: offsets and locks of a broker, and work that ends when told to."""

import asyncio

from ariane_sdk import MessageQueue
from ariane_sdk.client.caution import NO_CAUTION
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.consumer.delivery.window import QueueWindow

Q0, Q1, Q2 = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3))
GONE = MessageQueue("gone", "broker-a", 0)


class QuickClock:
    """Sleeps for a moment, however long it is asked to; an event holds up the first sleep."""

    def monotonic_s(self):
        return asyncio.get_running_loop().time()

    def now_ms(self):
        return 0

    async def sleep(self, _seconds):
        await asyncio.sleep(0.01)


class Keeping:
    """Keeps offsets; ``loads`` are held up while ``gate`` is closed."""

    def __init__(self):
        self.offsets = dict.fromkeys((Q0, Q1, Q2, GONE), QueuePosition(5))
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked, self.stored, self.lasts = [], [], []

    async def load(self, _broker, queues):
        found = {queue: self.offsets[queue] for queue in queues if queue in self.offsets}
        self.asked.append(set(queues))
        await self.gate.wait()
        return found

    async def store(self, _broker, offsets, *, durable=False, last=False, **_):
        self.stored.append(offsets)
        self.lasts.append(last)
        self.offsets |= offsets
        return {}

    def caution_of(self, _queue):
        return NO_CAUTION


class Work:
    """A queue whose listener is at work until ``finish`` is set."""

    alive = 0

    def __init__(self, queue, begin_offset):
        self.queue = queue
        self.window = QueueWindow(begin_offset)
        self.first_offset = self.begin_offset = begin_offset
        self.log_epoch, self.replica_begin = 0, None
        self.stored_offset = None
        self.is_doubted = False
        self.not_before_s = 0.0
        self.released = False
        self.wants_records = False
        self.finish = asyncio.Event()

    @property
    def done_offset(self):
        return self.begin_offset

    def start(self):
        pass

    def wake(self):
        pass

    def deliver_nothing_new(self):
        self.released = True

    async def release(self, _timeout_s):
        await self.finish.wait()
        return self.begin_offset


class Locks:
    """Gives locks; giving back is held up while ``gate`` is closed."""

    def __init__(self):
        self.foreign = set()
        self.lost = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.giving_back = asyncio.Event()
        self.held = set()

    async def acquire(self, _broker, queues):
        self.held.update(set(queues) - self.foreign)
        return [queue for queue in queues if queue not in self.foreign]

    async def give_back(self, queues):
        self.held.difference_update(queues)
        self.giving_back.set()
        await self.gate.wait()

    async def give_back_all(self):
        self.held.clear()

    def epoch_of(self, _queue):
        return None

    def holds(self, queue):
        return queue not in self.lost


async def wait_until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - there is nothing to be told by.
            await asyncio.sleep(0.005)
