"""Queues in order always find a new owner, and never have two: minutes of faults in a second.

What is drawn by chance comes from the seed, and from the order of sets: to see a failure again, set
PYTHONHASHSEED too.
"""

import asyncio

import pytest
from played_brokers import Calls, Stream
from simulated_group import Pulls, World
from virtual_loop import VirtualLoop

from ariane_sdk import Averaging, Sticky
from ariane_sdk.consumer import consumer_life
from ariane_sdk.consumer.group import attachments
from ariane_sdk.consumer.pulling import pull_loops

MEMBERS = 4
DISTURBED_S = 200.0
RECOVERY_S = 60.0
"""How long after the last fault every queue is consumed again: 40 s for locks of who is gone, 20 s
until queues are shared anew."""


@pytest.fixture
def played(monkeypatch):
    """Put the played parts between consumers and brokers."""

    async def agree(*_):
        pass

    def lock_calls(session, plan):
        return Calls(session.connections, client_id=plan.client_id)

    monkeypatch.setattr(consumer_life, "Session", lambda addresses, **_: addresses[0].session())
    monkeypatch.setattr(consumer_life, "QueueLockCalls", lock_calls)
    monkeypatch.setattr(
        consumer_life, "BrokerOffsets", lambda calls, **said: Calls(calls.member, **said)
    )
    monkeypatch.setattr(attachments, "Attachment", Stream)
    monkeypatch.setattr(consumer_life, "check_agreement", agree)
    monkeypatch.setattr(pull_loops, "PullLoop", Pulls)


class Chaos:
    """Draws faults, one after the other; at most one broker is down at a time."""

    def __init__(self, world):
        self.world, self.chance = world, world.chance
        self.tasks = asyncio.TaskGroup()
        self._broker_away = asyncio.Lock()

    async def run(self, duration_s):
        until_s = self.world.clock.monotonic_s() + duration_s
        self.world.loss = 0.02
        async with self.tasks:
            while self.world.clock.monotonic_s() < until_s:
                await asyncio.sleep(self.chance.uniform(0.5, 5.0))
                fault = self.chance.choice((self.bounce, self.replace, self.cut_off))
                self.tasks.create_task(fault())
        self.world.loss = 0.0

    async def bounce(self):
        """A broker stops in order, or is killed, and comes back."""
        world, broker = self.world, self.chance.choice(list(self.world.brokers.values()))
        async with self._broker_away:
            if self.chance.random() < 0.5:
                world.known.discard(broker.name)
                world.tell_routes()
                broker.saved_offsets = dict(broker.offsets)
            broker.end()
            await asyncio.sleep(self.chance.choice((0.1, 2.0, 4.0, 15.0)))
            broker.start()
            world.known.add(broker.name)
            world.tell_routes()

    async def replace(self):
        """A member stops in order, or is killed, and another one starts."""
        world = self.world
        member = self.chance.choice(world.members)
        world.members.remove(member)
        if self.chance.random() < 0.5:
            member.disconnect(dead=True)
        else:
            await member.life.close()
        await asyncio.sleep(self.chance.uniform(0.0, 4.0))
        await world.add_member()

    async def cut_off(self):
        """A member cannot reach its brokers for a while."""
        member = self.chance.choice(self.world.members)
        member.disconnect()
        await asyncio.sleep(self.chance.choice((1.0, 10.0, 35.0, 70.0)))
        member.cut_off = False


async def prove_recovery(world):
    """After some time without faults, every queue has one owner, and is being consumed."""
    await asyncio.sleep(RECOVERY_S)
    now_s = world.clock.monotonic_s()
    await asyncio.sleep(5.0)
    still = {queue for queue in world.queues if world.last_time.get(queue, 0.0) < now_s}
    assert not still, f"nobody consumes {sorted(map(str, still))}"
    owned = [queue for member in world.members for queue in member.life.assignment]
    assert sorted(owned) == list(world.queues)


def simulate(scenario, *arguments):
    """Run a scenario of a world in virtual time."""

    async def from_start_to_end():
        world = World(*arguments)
        saving = asyncio.create_task(world.save_offsets())
        try:
            await scenario(world)
        finally:
            saving.cancel()
            world.over.set()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(from_start_to_end())


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))]


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize("strategy", [pytest.param(Averaging, marks=pytest.mark.slow), Sticky])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_queue_finds_one_owner_after_faults_of_all_kinds(strategy, seed):
    async def scenario(world):
        for _ in range(MEMBERS):
            await world.add_member()
        await Chaos(world).run(DISTURBED_S)
        await prove_recovery(world)
        assert not world.faults

    simulate(scenario, seed, strategy)
