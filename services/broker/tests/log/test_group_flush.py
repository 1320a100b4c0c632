import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ariane_broker.log.group_flush import GroupFlush
from ariane_broker.log.held_requests import Arrivals
from ariane_broker.queue_key import QueueKey
from ariane_servicekit import ServiceError
from ariane_storage.errors import StorePoisoned
from services.broker.tests.log_side import flushed_promise


class GatedLog:
    """A log whose flushes wait for a gate."""

    def __init__(self):
        self.written = 0
        self.flushed_offset = 0
        self.flushes = 0
        self.gate = threading.Semaphore(0)
        self.error = None

    @property
    def confirmed_offset(self):
        return self.flushed_offset

    def flush(self):
        end = self.written
        self.flushes += 1
        assert self.gate.acquire(timeout=60)
        if self.error is not None:
            raise self.error
        self.flushed_offset = end
        return end


@pytest.fixture
def log():
    return GatedLog()


@pytest.fixture
def make_flush(log):
    executor = ThreadPoolExecutor(1)
    failures = []

    def make(timeout_seconds=10, on_flushed=lambda: None):
        flush = GroupFlush(
            log,
            executor,
            timeout_seconds=timeout_seconds,
            on_flushed=on_flushed,
            on_failed=failures.append,
        )
        flush.failures = failures
        flush.kept = flushed_promise(flush.when_flushed).kept
        return flush

    yield make
    log.gate.release(100)
    executor.shutdown()


async def wait_flushes(log, count):
    async with asyncio.timeout(60):
        while log.flushes < count:  # noqa: ASYNC110 - another thread
            await asyncio.sleep(0.001)


async def test_one_flush_serves_all_that_came_while_another_was_under_way(log, make_flush):
    flush = make_flush()
    log.written = 10
    first = asyncio.create_task(flush.kept(10))
    await wait_flushes(log, 1)
    log.written = 1000
    others = [asyncio.create_task(flush.kept(10 + step)) for step in range(1, 100)]
    await asyncio.sleep(0)
    log.gate.release()
    await first
    assert not any(task.done() for task in others)
    log.gate.release()
    await asyncio.gather(*others)
    assert log.flushes == 2


async def test_a_flushed_append_does_not_wait(log, make_flush):
    log.flushed_offset = 10
    await make_flush().kept(10)
    assert log.flushes == 0


async def test_a_slow_flush_is_unconfirmed_and_goes_on(log, make_flush):
    flush = make_flush(timeout_seconds=0.01)
    log.written = 10
    with pytest.raises(ServiceError) as raised:
        await flush.kept(10)
    assert raised.value.row.name == "FLUSH_UNCONFIRMED"
    log.gate.release()
    await flush.finish()
    assert log.flushed_offset == 10


@pytest.mark.parametrize("error", [StorePoisoned(OSError("no")), OSError("no"), ValueError("no")])
async def test_a_failed_flush_tells_all_and_is_not_repeated(log, make_flush, error):
    flush = make_flush()
    log.error = error
    log.written = 10
    tasks = [asyncio.create_task(flush.kept(10)) for _ in range(3)]
    await wait_flushes(log, 1)
    log.gate.release()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert {result.row.name for result in results} == {"FLUSH_UNCONFIRMED"}
    assert flush.failures == [error]
    assert log.flushes == 1


async def test_the_next_flush_begins_before_anybody_is_told_of_the_last(log):
    seen = []

    class Flusher:
        """Flushes at once, in the thread of who asks."""

        def submit(self, flush, loop):
            seen.append("begins")
            flush(loop)

    flush = GroupFlush(
        log,
        Flusher(),
        timeout_seconds=10,
        on_flushed=lambda: seen.append("flushed"),
        on_failed=lambda error: pytest.fail(str(error)),
    )
    log.gate.release(2)
    log.written = 10
    flush.when_flushed(10, lambda error: seen.append(10))
    log.written = 20
    flush.when_flushed(20, lambda error: seen.append(20))
    await flush.finish()
    await asyncio.sleep(0)
    assert seen == ["begins", "begins", 10, "flushed", 20, "flushed"]


async def test_who_is_served_by_the_flush_under_way_asks_for_no_other(log, make_flush):
    flush = make_flush()
    log.written = 30
    first = asyncio.ensure_future(flush.kept(10))
    await wait_flushes(log, 1)
    # Appended before the flush had looked where the log ends.
    second = asyncio.ensure_future(flush.kept(30))
    await asyncio.sleep(0)
    log.gate.release(5)
    await asyncio.gather(first, second)
    await flush.finish()
    assert log.flushes == 1


async def test_each_waits_for_its_own_time_and_is_told_once(log, make_flush):
    flush = make_flush(timeout_seconds=0.01)
    told = []
    log.written = 20
    flush.when_flushed(10, lambda error: told.append((10, error.row.name)))
    flush._waits._seconds_max = 3600
    flush.when_flushed(20, lambda error: told.append((20, error)))
    async with asyncio.timeout(60):
        while not told:  # noqa: ASYNC110 - a timer of the loop
            await asyncio.sleep(0.001)
    assert told == [(10, "FLUSH_UNCONFIRMED")]
    log.gate.release()
    await flush.finish()
    assert told[1:] == [(20, None)]


async def test_a_flusher_that_was_shut_down_leaves_nobody_waiting(log):
    failures = []
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    flush = GroupFlush(
        log,
        executor,
        timeout_seconds=3600,
        on_flushed=lambda: pytest.fail("nothing was flushed"),
        on_failed=failures.append,
    )
    log.written = 10
    async with asyncio.timeout(60):
        with pytest.raises(ServiceError) as raised:
            await flushed_promise(flush.when_flushed).kept(10)
        await flush.finish()
    assert raised.value.row.name == "FLUSH_UNCONFIRMED"
    assert [type(failure) for failure in failures] == [RuntimeError]


async def test_a_cancelled_waiter_is_not_notified(log, make_flush):
    flush = make_flush()
    log.written = 10
    gone = asyncio.ensure_future(flush.kept(10))
    await wait_flushes(log, 1)
    gone.cancel()
    stays = asyncio.ensure_future(flush.kept(10))
    await asyncio.sleep(0)
    log.gate.release(5)
    await stays
    assert gone.cancelled()


async def test_queues_are_woken_when_they_are_confirmed_and_not_before(log, make_flush):
    woken = []

    class Held:
        def arrived(self, key, _tag_codes=None):
            woken.append(key)

        def arrived_in(self, arrivals):
            woken.extend(key for key, _ in arrivals)

    arrivals = Arrivals(log, Held())
    flush = make_flush(on_flushed=arrivals.confirm)
    log.written = 30
    for place, end in enumerate((10, 20, 40)):
        arrivals.appended([QueueKey("t", place)], [end])
    assert woken == []
    task = asyncio.create_task(flush.kept(30))
    await wait_flushes(log, 1)
    log.gate.release()
    await task
    assert woken == [QueueKey("t", 0), QueueKey("t", 1)]
    log.flushed_offset = 40
    arrivals.appended([QueueKey("t", 3)], [40])
    assert len(woken) == 2, "order is kept: the one before waits still"
    arrivals.confirm()
    assert woken[2:] == [QueueKey("t", 2), QueueKey("t", 3)]
