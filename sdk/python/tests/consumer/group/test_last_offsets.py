"""The offsets at which the next owner of a queue begins are stored, whoever is away meanwhile."""

import asyncio

import pytest

from ariane_sdk import errors
from ariane_sdk.client.queue_position import QueuePosition
from sdk.python.tests.consumer.group.owned_place import Q0, wait_until


async def test_the_last_offset_of_a_queue_waits_for_a_broker_that_has_none_to_take_it(make_owned):
    """Or the next owner would begin where this one was seconds ago."""
    place = make_owned()
    store, failures = place.keeping.store, [errors.ServiceUnavailable("away", retriable=True)] * 3

    async def fail_thrice(broker, offsets, **how):
        if failures:
            raise failures.pop()
        return await store(broker, offsets, **how)

    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    place.keeping.store = fail_thrice
    place.works[0].begin_offset = 9
    place.works[0].finish.set()
    place.owned.change_to((), handover_s=0)
    await wait_until(lambda: not place.owned.uses(Q0))

    assert place.keeping.offsets[Q0] == QueuePosition(9)


async def test_the_last_offset_of_a_queue_waits_for_replicas(make_owned):
    """The primary may die before the next owner has asked for it."""
    place = make_owned()
    store, unconfirmed = place.keeping.store, errors.CallError("unconfirmed", outcome_unknown=True)
    failures, asked_for_last = [unconfirmed] * 2, []

    async def confirm_late(broker, offsets, *, last=False, **how):
        asked_for_last.append(last)
        if failures:
            raise failures.pop()
        return await store(broker, offsets, **how)

    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    place.keeping.store = confirm_late
    place.works[0].begin_offset = 9
    place.works[0].finish.set()
    place.owned.change_to((), handover_s=0)
    await wait_until(lambda: not place.owned.uses(Q0))

    assert asked_for_last == [True] * 3
    assert place.keeping.offsets[Q0] == QueuePosition(9)


async def test_a_full_disk_holds_no_queue_up(make_owned):
    """The primary has the offset in memory, where its next owner finds it."""
    place, tries = make_owned(), []

    async def refuse(_broker, offsets, **_):
        tries.append(offsets)
        raise errors.ServiceUnavailable("full", reason="STORE_FULL", retriable=True)

    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    place.keeping.store = refuse
    place.works[0].begin_offset = 9
    place.works[0].finish.set()
    place.owned.change_to((), handover_s=0)
    await wait_until(lambda: not place.owned.uses(Q0))

    assert tries == [{Q0: QueuePosition(9)}]


@pytest.mark.parametrize("closes", [False, True], ids=["gives up", "closes"])
async def test_an_offset_that_was_stored_by_and_by_is_stored_as_the_last_one_too(
    make_owned, closes
):
    """Or only the primary may have it."""
    place = make_owned()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    place.works[0].begin_offset = 9
    await place.owned.store(durable=False)
    place.works[0].finish.set()
    if closes:
        await place.owned.close()
    else:
        place.owned.change_to((), handover_s=0)
        await wait_until(lambda: not place.owned.uses(Q0))

    assert place.keeping.stored == [{Q0: QueuePosition(9)}] * 2
    assert place.keeping.lasts == [False, True]


async def test_a_queue_of_which_nothing_came_is_given_up_without_a_word(make_owned):
    place = make_owned()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    place.works[0].finish.set()
    place.owned.change_to((), handover_s=0)
    await wait_until(lambda: not place.owned.uses(Q0))

    assert place.keeping.stored == []


async def test_a_consumer_that_closes_waits_for_no_primary(make_owned):
    place = make_owned()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    tried = asyncio.Event()

    async def fail(_broker, _offsets, **_):
        tried.set()
        raise errors.ServiceUnavailable("away", retriable=True)

    place.keeping.store = fail
    place.works[0].begin_offset = 9
    place.works[0].finish.set()
    place.owned.change_to((), handover_s=0)
    await tried.wait()
    async with asyncio.timeout(10):
        await place.owned.close()


async def test_what_a_replica_gave_is_stored_for_the_next_owner_too(make_owned):
    """Once the primary has found that its log has what was before that."""
    place = make_owned()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    work = place.works[0]
    work.log_epoch, work.replica_begin, work.begin_offset = 11, 7, 9
    work.finish.set()
    place.owned.change_to((), handover_s=0)
    await wait_until(lambda: not place.owned.uses(Q0))

    assert place.keeping.stored == [{Q0: QueuePosition(7, 11)}, {Q0: QueuePosition(9, 0)}]


async def test_what_a_replica_gave_is_stored_by_who_closes_too(make_owned):
    place = make_owned()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    work = place.works[0]
    work.log_epoch, work.replica_begin, work.begin_offset = 11, 7, 9
    work.finish.set()
    await place.owned.close()

    assert place.keeping.stored[0] == {Q0: QueuePosition(7, 11)}
    assert place.keeping.offsets[Q0] == QueuePosition(9, 0)


async def test_what_a_replica_gave_is_stored_although_another_broker_is_away(make_owned):
    place = make_owned()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    work = place.works[0]
    work.log_epoch, work.replica_begin, work.begin_offset = 11, 7, 9
    work.finish.set()
    store = place.keeping.store

    async def fail_together(broker, offsets, *, durable=False, **how):
        if durable:
            raise errors.ServiceUnavailable("away", retriable=True)
        return await store(broker, offsets, **how)

    place.keeping.store = fail_together
    await place.owned.close()

    assert place.keeping.offsets[Q0] == QueuePosition(9, 0)


async def test_nothing_that_a_replica_gave_is_stored_where_the_primary_has_lost_what_was_before(
    make_owned,
):
    place = make_owned()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    work = place.works[0]
    work.log_epoch, work.replica_begin, work.begin_offset = 11, 7, 9
    work.finish.set()
    stored = []

    async def refuse(_broker, offsets, **_):
        stored.append(offsets)
        return {Q0: errors.CallError("cut", reason="QUEUE_CUT")}

    place.keeping.store = refuse
    place.owned.change_to((), handover_s=0)
    await wait_until(lambda: not place.owned.uses(Q0))

    assert stored == [{Q0: QueuePosition(7, 11)}]


@pytest.mark.parametrize("refused", [False, True])
async def test_an_answer_for_a_queue_that_was_given_up_meanwhile_is_not_for_its_next_taking(
    make_owned, refused
):
    place = make_owned()
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    asked, answer = asyncio.Event(), asyncio.Event()

    async def store(_broker, offsets, **_):
        asked.set()
        await answer.wait()
        fenced = errors.CallError("replaced", reason="QUEUE_LOCK_FENCED")
        return dict.fromkeys(offsets, fenced) if refused else {}

    place.keeping.store, usual = store, place.keeping.store
    place.works[0].begin_offset = 9
    storing = asyncio.create_task(place.owned.store(durable=True))
    await asked.wait()
    place.works[0].finish.set()
    place.owned.forget({Q0})
    place.owned.change_to((), handover_s=0)
    await wait_until(lambda: not place.owned.uses(Q0))
    place.owned.change_to({Q0}, handover_s=0)
    await wait_until(lambda: place.owned.queues == {Q0})
    answer.set()
    await asyncio.gather(storing, return_exceptions=True)
    place.keeping.store = usual

    assert place.owned.queues == {Q0}
    assert place.works[1].stored_offset == 5
