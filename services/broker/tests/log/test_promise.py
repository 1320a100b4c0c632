import asyncio

import pytest

from ariane_broker.errors.public_errors import flush_unconfirmed
from ariane_broker.log.promise import AcknowledgedLevel, Condition, Promise
from ariane_servicekit import ServiceError


class ManualCondition:
    """A condition that holds, or fails, when it is told to."""

    def __init__(self):
        self.waiting = []

    def when(self, end, on_done):
        self.waiting.append((end, on_done))

    def say(self, error=None):
        for _, on_done in self.waiting:
            on_done(error)


def promise_of_two():
    flushed, replicated = ManualCondition(), ManualCondition()
    conditions = [Condition(AcknowledgedLevel.FLUSHED, each.when) for each in (flushed, replicated)]
    return Promise(conditions), flushed, replicated


async def test_a_promise_without_conditions_is_kept_as_soon_as_it_is_written():
    promise = Promise()
    assert not promise.waits
    assert await promise.kept(5) is AcknowledgedLevel.MEMORY
    assert await promise.then(5, lambda level, error: (level, error)) == ("memory", None)


async def test_a_promise_is_kept_once_all_its_conditions_hold():
    promise, flushed, replicated = promise_of_two()
    kept = asyncio.ensure_future(promise.kept(5))
    await asyncio.sleep(0)
    assert [end for end, _ in flushed.waiting + replicated.waiting] == [5, 5]
    replicated.say()
    await asyncio.sleep(0)
    assert not kept.done()
    flushed.say()
    assert await kept is AcknowledgedLevel.FLUSHED


async def test_the_first_condition_that_fails_is_told_and_no_other():
    promise, flushed, replicated = promise_of_two()
    told = []
    promise.when_kept(5, told.append)
    error = flush_unconfirmed()
    flushed.say(error)
    replicated.say(flush_unconfirmed())
    replicated.say()
    assert told == [error]


async def test_of_a_broken_promise_only_what_is_written_is_sure():
    promise, flushed, _ = promise_of_two()
    said = promise.then(5, lambda level, error: (level, error.row.name))
    kept = asyncio.ensure_future(promise.kept(5))
    await asyncio.sleep(0)
    flushed.say(flush_unconfirmed())
    assert await said == (AcknowledgedLevel.MEMORY, "FLUSH_UNCONFIRMED")
    with pytest.raises(ServiceError):
        await kept
