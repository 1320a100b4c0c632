"""One budget of memory for answers, shared between callers."""

import asyncio

import pytest

from ariane_servicekit.rpc.answer_budget import LEAST_BYTES, AnswerBudget

MIB = 1 << 20


@pytest.fixture
def budget():
    return AnswerBudget(64 * MIB)


async def test_a_caller_may_hold_what_it_leaves_free(budget):
    greedy = [budget.lease("greedy") for _ in range(100)]
    taken = [lease.take_at_once(32 * MIB) for lease in greedy]
    assert taken == [32 * MIB] + [0] * 99
    assert budget.lease("next").take_at_once(32 * MIB) == 16 * MIB
    assert budget.held_bytes == 48 * MIB


async def test_many_callers_share_and_the_next_finds_room(budget):
    for number in range(5):
        while budget.lease(f"greedy-{number}").take_at_once(MIB):
            pass
    assert budget.held_bytes < 64 * MIB
    assert budget.lease("next").take_at_once(MIB) >= LEAST_BYTES


async def test_waiting_leases_are_granted_in_turn_when_memory_is_released(budget):
    first = budget.lease("a")
    granted = await first.take(40 * MIB)
    assert granted == 32 * MIB, "half of what is free"
    leases = [budget.lease("a") for _ in range(3)]
    waiting = [asyncio.create_task(lease.take(20 * MIB)) for lease in leases]
    await asyncio.sleep(0)
    assert budget.waiting_count == 3
    first.settle(granted, 10 * MIB)
    await asyncio.sleep(0)
    assert [task.done() for task in waiting] == [True, True, False]
    assert waiting[0].result() == 20 * MIB
    assert waiting[1].result() == 2 * MIB
    assert budget.lease("a").take_at_once(1) == 0, "nobody overtakes those who wait"
    for lease in (first, *leases[:2]):
        lease.release()
        lease.release()
    assert LEAST_BYTES <= await waiting[2] <= 20 * MIB
    leases[2].release()
    assert (budget.held_bytes, budget.waiting_count) == (0, 0)


async def test_a_cancelled_wait_for_memory_holds_none(budget):
    first = budget.lease("a")
    await first.take(64 * MIB)
    second, third = budget.lease("a"), budget.lease("a")
    gone, stays = (asyncio.create_task(one.take(MIB)) for one in (second, third))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait([gone])
    first.release()
    assert await stays == MIB
    third.release()
    assert (budget.held_bytes, budget.waiting_count) == (0, 0)


async def test_one_large_message_may_be_more_than_was_granted(budget):
    lease = budget.lease("a")
    granted = await lease.take(MIB)
    lease.settle(granted, 100 * MIB)
    assert lease.take_at_once(1) == 0
    lease.release()
    assert lease.take_at_once(1) == 1


async def test_a_connection_that_holds_nothing_is_granted_the_least_amount(budget):
    stalled = budget.lease("ipv4:10.0.0.1:1")
    stalled.settle(await stalled.take(MIB), 500 * MIB)
    modest = budget.lease("ipv4:10.0.0.2:1")
    for _ in range(3):
        assert modest.take_at_once(MIB) == LEAST_BYTES
        assert modest.take_at_once(MIB) == 0
        modest.release()


async def test_a_host_of_many_connections_that_read_nothing_holds_twice_the_budget(budget):
    def lease(number, host="10.0.0.1"):
        return budget.lease(f"ipv4:{host}:{number}")

    stuck = [lease(number) for number in range(1000)]
    for each in stuck:
        granted = each.take_at_once(MIB)
        if granted:
            each.settle(granted, 4 * MIB)  # One large message may be more.
    assert budget.held_bytes <= 132 * MIB
    # Whoever comes from elsewhere is served, and the host again once it reads.
    assert lease(1, "10.0.0.2").take_at_once(MIB) == LEAST_BYTES
    waiting = asyncio.create_task(stuck[-1].take(MIB))
    await asyncio.sleep(0)
    assert not waiting.done()
    for each in stuck[:-1]:
        each.release()
    assert LEAST_BYTES <= await waiting <= MIB


async def test_cancelled_after_the_grant(budget):
    first, second = budget.lease("a"), budget.lease("a")
    await first.take(64 * MIB)
    waiting = asyncio.create_task(second.take(MIB))
    await asyncio.sleep(0)
    first.release()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert (budget.held_bytes, budget.waiting_count) == (0, 0)
