"""One settlement is settled in the turn in which it comes, and means what it means among others."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from ariane_broker.receive.settling import Settled
from services.broker.tests.receive.test_receive_model import OrderedMachine, ReceiveMachine


class OneByOne:
    """Settles each by itself."""

    def __init__(self, settling):
        self._settling = settling
        self.dead_letters = settling.dead_letters

    async def settle(self, group, settlements):
        results = []
        for each in settlements:
            settled = self._settling.settle_one(group, each)
            results += [settled] if isinstance(settled, Settled) else await settled
        return results


class OneByOneMachine(ReceiveMachine):
    def start(self):
        super().start()
        self.settling = OneByOne(self.settling)


class OrderedOneByOneMachine(OrderedMachine):
    def start(self):
        super().start()
        self.settling = OneByOne(self.settling)


@pytest.mark.parametrize("machine", [OneByOneMachine, OrderedOneByOneMachine])
def test_no_message_that_is_settled_alone_is_lost_or_comes_twice(machine):
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=12,
            stateful_step_count=40,
            deadline=None,
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )
