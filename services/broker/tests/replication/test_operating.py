"""What operators order of a broker of a set."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ariane_broker.replication.operating import PrimaryOperations
from ariane_broker.replication.replica_set import ReplicaSet
from ariane_servicekit import ServiceError


async def nothing():
    pass


async def test_an_election_is_ordered_only_where_there_is_no_primary(rows):
    row, _ = rows
    begun = ReplicaSet().begun(0, "a", set_id="s")
    for one in (begun, begun.at(1, "b")):
        await row.change(one)
    reign = SimpleNamespace(holds=True)
    operations = PrimaryOperations(
        ("c", "broker-a"),
        SimpleNamespace(reign=reign),
        row,
        monotonic=lambda: 0.0,
        save_state=nothing,
        say_farewell=nothing,
        on_resigned=lambda: None,
    )
    with pytest.raises(ServiceError, match="while there is a primary"):
        await operations.elect(1, unclean=True)
    assert (await row.read()).wanted_id is None
    reign.holds = False
    ordered = await operations.elect(1, unclean=True)
    assert (ordered.wanted_id, ordered.unclean) == (1, True)
    assert await row.read() == ordered
