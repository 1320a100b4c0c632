"""What a replica does about the row that it has read."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest
from google.protobuf.message import DecodeError

from ariane_broker.following.replica_life import ReplicaLife, ReplicaParts
from ariane_broker.replication.replica_set import ReplicaSet
from ariane_broker.replication.shared_row import RowUnreachable
from ariane_servicekit import Address, SystemClock
from ariane_storage import Store
from ariane_storage.testing import block_of, small_config


class Following:
    """Follows until it is stopped, and notes whom."""

    def __init__(self):
        self.whom = []

    async def follow(self, address, epoch, on_following):
        self.whom.append((address, epoch))
        on_following()
        try:
            await asyncio.Event().wait()
        finally:
            self.whom.append("nobody")


@pytest.fixture
async def life():
    async def nothing(*_):
        pass

    settings = SimpleNamespace(listen="h:1", primary_lease_s=5.0, broker_id=1)
    life = ReplicaLife(
        SimpleNamespace(settings=settings, clock=SystemClock()),
        None,
        ReplicaParts(
            make_standing=None,
            client=Following(),
            registration=SimpleNamespace(end=nothing),
            rpc_services=(),
            may_lack_end=None,
            open_row=nothing,
            close_row=None,
            on_elected=None,
            read_state=nothing,
            hide=nothing,
            hiding=None,
            checking=None,
        ),
    )
    row = ReplicaSet().begun(0, "h:0", set_id="s").at(1, "h:1").elected(0, 1)
    life._standing = SimpleNamespace(
        turn=nothing, replica_set=row, may_follow=False, has_primary=True, trouble=""
    )
    yield life
    await life._stop_following()


async def test_it_follows_only_while_its_standing_allows_that(life):
    followed = life._parts.client.whom
    for may_follow, whom in (
        (False, []),
        (True, [("h:0", 1)]),
        (True, [("h:0", 1)]),
        (False, [("h:0", 1), "nobody"]),
    ):
        life._standing.may_follow = may_follow
        await life._turn()
        await asyncio.sleep(0)
        assert followed == whom


@pytest.mark.parametrize("error", [ValueError("an epoch that cannot be"), DecodeError("no piece")])
async def test_it_follows_again_after_an_error_that_nobody_has_foreseen(life, error):
    """Until then it tells of its trouble: it is not in the set."""
    troubles = []

    async def sleep(_):
        troubles.append(life._trouble)

    follow = life._parts.client.follow

    async def fail_once(address, epoch, on_following):
        life._parts.client.follow = follow
        on_following()
        raise error

    life._parts.client.follow = fail_once
    life._environment.clock = SimpleNamespace(sleep=sleep)
    life._standing.may_follow = True
    await life._turn()
    for _ in range(5):
        await asyncio.sleep(0)
    assert troubles == [str(error)]
    assert life._parts.client.whom == [("h:0", 1)]
    assert not life._trouble
    await life._turn()


async def test_it_stands_in_routes_also_while_the_database_is_away(life):
    """The primary has died as well: nobody else lists this replica."""
    told = []

    async def away():
        raise RowUnreachable("it is away")

    async def end():
        told.append("left")

    registration = SimpleNamespace(begin=lambda *where: told.append(where), end=end)
    life._parts = replace(life._parts, registration=registration)
    life._standing.may_follow = True
    await life._turn()
    await asyncio.sleep(0)
    life._standing.turn, life._standing.has_primary = away, False
    await life._turn()  # It follows: its primary is alive, and lists it.
    assert told == ["left", "left"]
    life._trouble = "the primary is silent"
    await life._turn()
    assert told[2:] == [(1, "h:1")]


async def test_a_start_that_is_cut_short_confirms_nothing(life, tmp_path):
    path, config = tmp_path / "store", small_config()
    with Store.open(path, config) as store:
        store.append(block_of("orders", [b"a"]), 0)
        edge = int(store.max_offset)
        store.copying.confirm_up_to(edge)
        store.append(block_of("orders", [b"b"]), 0)

    def fail(_):
        raise OSError("disk")

    store = Store(path, config)
    life._log, life._parts = (
        SimpleNamespace(store=store),
        replace(life._parts, may_lack_end=fail),
    )
    with pytest.raises(OSError, match="disk"):
        life._open_store(Address("127.0.0.1", 1))
    store.close()
    with Store.open(path, config) as store:
        assert store.recovery.confirmed_offset == edge
