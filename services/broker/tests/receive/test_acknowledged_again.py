"""Acknowledging what is done already, by whomever: it is no error, and as safe as the first time.

Played with the machine of the model, in steps that it found, or that it has no rule for.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ariane_broker.errors.public_errors import flush_unconfirmed
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.receive.settling import DONE, Failed, Hidden, Kept
from ariane_record import ConsumerOffset
from ariane_servicekit.errors import ServiceError
from services.broker.tests.log_side import FlushedAtOnce, broker_log
from services.broker.tests.receive.test_receive_model import (
    GROUP,
    QUEUES,
    OrderedMachine,
    ReceiveMachine,
)

QUEUE = QUEUES[1]
MACHINES = [ReceiveMachine, OrderedMachine]
OTHERS = [Hidden(42_000), Kept("c"), Failed(), Failed(0, dead_letter=True)]


def lost_hand_out(machine, count):
    """A hand-out that a power loss took, with all that the log knew of the group in the queue."""
    machine.send(queue=QUEUE, groups=["a"] * count)
    (out,) = machine.take(count, 38, several=True)
    assert len(out.offsets) == count
    machine.lose_power(seed=39)
    machine.tick(seconds=1)  # No broker starts within the millisecond in which it died.
    assert machine.table.window(GROUP, QUEUE) is None
    return out


def answer(machine, out, places, outcome=DONE):
    _, result = machine.settle(out, places, outcome)
    assert not len(result.settled)
    assert not len(result.dead)
    return result.expired


@pytest.mark.parametrize("machine", MACHINES)
def test_messages_settled_by_owners_are_done_for_receipts_lost_with_power(machine):
    machine = machine()
    out = lost_hand_out(machine, 2)
    assert answer(machine, out, [0]), "it comes again"
    machine.own(queue=QUEUE, count=1)
    for _ in range(2):
        assert not answer(machine, out, [0])
        for places in [1], [0, 1]:
            assert answer(machine, out, places), "the second comes again"
        machine.die()
    machine.own(queue=QUEUE, count=1)
    assert not answer(machine, out, [0, 1])
    assert machine.take(8, 10) == []
    assert not answer(machine, out, [0, 1]), "the same as before somebody received"


@pytest.mark.parametrize("outcome", OTHERS)
@pytest.mark.parametrize("machine", MACHINES)
def test_a_receipt_that_power_took_does_nothing_else(machine, outcome):
    machine = machine()
    out = lost_hand_out(machine, 2)
    machine.own(queue=QUEUE, count=1)
    for place in range(2):
        assert answer(machine, out, [place], outcome)
    (again,) = machine.take(8, 10)
    assert (again.offsets.tolist(), again.attempts.tolist()) == ([1], [1])
    for place in range(2):
        assert answer(machine, out, [place], outcome)
    machine.settle_all(again)


def test_a_reset_settles_the_messages_before_it_and_no_others():
    machine = ReceiveMachine()
    machine.send(queue=QUEUE, groups=["a", "b"])
    (out,) = machine.take(2, 38)
    machine.offsets.reset(GROUP, QUEUE, ConsumerOffset(1))
    machine.model.unsure = True
    assert not answer(machine, out, [0])
    assert answer(machine, out, [1])
    machine.offsets.reset(GROUP, QUEUE, ConsumerOffset(0))
    assert answer(machine, out, [0])


def test_a_group_made_anew_knows_nothing_of_old_receipts():
    machine = ReceiveMachine()
    machine.send(queue=QUEUE, groups=["a"])
    (out,) = machine.take(1, 38)
    machine.log.forget(GROUP)
    machine.offsets.remove_group(GROUP)
    machine.model.unsure = True
    assert answer(machine, out, [0])


class UnconfirmedAtFirst(FlushedAtOnce):
    """The disk is too slow for the first who waits for it."""

    refusals = 1

    async def kept(self, end):
        if self.refusals:
            self.refusals -= 1
            raise flush_unconfirmed()
        return await super().kept(end)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_repeated_acknowledgement_waits_for_the_disk(machine):
    for seed in range(8):
        played = machine()
        played.send(queue=QUEUE, groups=["a"])
        (out,) = played.take(1, 38)
        slow = ReceiveLog(
            broker_log(played.store, UnconfirmedAtFirst(played.store)),
            played.table,
            played.offsets,
            draw_bytes=played.draw_bytes,
        )
        played.settling = replace(played.settling, log=slow)
        with pytest.raises(ServiceError, match="flush"):
            played.settle(out, [0], DONE)
        played.model.unsure = True
        assert not answer(played, out, [0])
        played.lose_power(seed=seed)
        played.tick(seconds=40)
        assert played.take(8, 10) == [], "it was acknowledged"
