"""The life of a primary whose start is cut short."""

from __future__ import annotations

import pytest

from ariane_broker.app import compose_from, on_this_machine
from ariane_broker.replication.replica_set import ReplicaSet
from ariane_broker.replication.room import Elected
from ariane_servicekit import Address, StopRequest
from ariane_storage.testing import block_of


@pytest.fixture
def elected(settings_for):
    """A broker that was elected just now, and others in sync."""

    def elected(**changes):
        settings = settings_for(**changes)
        row = ReplicaSet(epoch=2, primary_id=0, in_sync=frozenset({0, 1}))
        environment = on_this_machine(settings, StopRequest())
        life = compose_from(environment, Elected(None, row, environment.clock.monotonic()))
        life.rooms.naming.announcement.listen_on(Address("127.0.0.1", 1))
        return life

    return elected


@pytest.mark.parametrize("acknowledge", ["replicated", "local"])
async def test_a_start_that_is_cut_short_confirms_nothing(elected, acknowledge):
    life = elected(acknowledge=acknowledge)
    store = life.rooms.log.store
    store.recover()
    store.append(block_of("orders", [b"a"]), 0)
    edge = int(store.max_offset)
    store.copying.confirm_up_to(edge)
    store.append(block_of("orders", [b"b"]), 0)
    end = int(store.max_offset)
    store.close()
    for _ in range(2):
        life = elected(acknowledge=acknowledge)
        life._open_store()
        confirmed = life.rooms.log.store.recovery.confirmed_offset
        life.rooms.log.store.close()
    # Where nobody waits for replicas, all that was readable is.
    assert confirmed == (edge if acknowledge == "replicated" else end)


async def test_one_that_is_stopped_while_it_recovers_does_not_look_into_its_store(elected):
    life = elected()
    await life.drain()
    assert not life.rooms.log.store.is_open
    assert not life.rooms.log.primary.reign.is_deposed
