"""Dead letters that are refused: their receivers hear that they are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ariane_broker.errors.public_errors import message_illegal
from ariane_broker.receive.dead_letters import AGAIN_MS
from ariane_broker.receive.settling import Failed
from services.broker.tests.receive.test_receive_model import QUEUES, Buried, ReceiveMachine


class RefusesOdd(Buried):
    """Takes no message of an odd offset."""

    async def take_back(self, failure, places):
        return [
            message_illegal(0, "it is too long")
            if place.queue_offset % 2
            else (await super(RefusesOdd, self).take_back(failure, [place]))[0]
            for place in places
        ]


@pytest.fixture
def machine():
    machine = ReceiveMachine()
    letters = replace(machine.settling.dead_letters, returns=RefusesOdd(machine.model))
    machine.settling = replace(machine.settling, dead_letters=letters)
    return machine


def test_a_letter_that_is_refused_is_none_and_comes_again(machine):
    machine.send(queue=QUEUES[0], groups=["a", "b", "c", "d"])
    (out,) = machine.take(4, 30)
    done, result = machine.settle(out, [0, 1, 2, 3], Failed(0, dead_letter=True))
    assert result.dead.tolist() == [0, 2]
    assert len(done) == 4, "their receipt is used up"
    machine.model.held.clear()
    machine.tick(seconds=AGAIN_MS // 1000)
    (again,) = machine.take(4, 30)
    assert again.offsets.tolist() == [1, 3]
