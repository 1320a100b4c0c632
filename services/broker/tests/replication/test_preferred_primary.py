"""Who follows on a dead primary, and when a preferred broker gets its role back."""

from types import SimpleNamespace

import pytest

from ariane_broker.following.standing import PATIENCE, Candidacy
from ariane_broker.replication.heirs import PreferredReturn, preferred_heir
from ariane_broker.replication.replica_set import BrokerWish, ReplicaSet

LEASE_S = 10.0


def row(*, primary_id=0, in_sync=(0, 1, 2), **wishes):
    wishes = {int(key.removeprefix("of_")): BrokerWish(*wish) for key, wish in wishes.items()}
    return ReplicaSet(
        version=3, epoch=1, primary_id=primary_id, in_sync=frozenset(in_sync), wishes=wishes
    )


@pytest.mark.parametrize(
    ("found", "first"),
    [
        (row(of_2=(1,)), {2}),
        (row(of_1=(3,), of_2=(1,)), {1}),
        (row(), {1, 2}),
        # The dead primary is not waited for, nor who is not in sync.
        (row(of_0=(9,)), {1, 2}),
        (row(in_sync=(0, 1), of_2=(9,)), {1}),
        # Of equal ones, who is elsewhere than the dead one; preference goes before.
        (row(of_0=(0, "a"), of_1=(0, "a"), of_2=(0, "b")), {2}),
        (row(of_0=(0, "a"), of_1=(1, "a"), of_2=(0, "b")), {1}),
        (row(of_0=(0, "a"), of_1=(0, "a"), of_2=(0, "a")), {1, 2}),
        (row(of_1=(0, "a"), of_2=(0, "b")), {1, 2}),
        # An id of a zone that nobody knows is elsewhere.
        (row(of_0=(0, "a"), of_1=(0, "a")), {2}),
    ],
)
def test_a_better_broker_follows_on_a_dead_primary_and_else_the_others_a_little_later(found, first):
    others = found.in_sync - {0}
    stands = {1.01: first, 1.45: first, 1.55: others}
    for leases, expected in stands.items():
        able = set()
        for broker_id in others:
            candidacy = Candidacy(broker_id, lease_s=LEASE_S)
            candidacy.observe(found, 0.0)
            if candidacy.may_stand(found, leases * LEASE_S * PATIENCE):
                able.add(broker_id)
        assert able == expected, leases


def test_after_an_orderly_end_nobody_is_waited_for():
    found = row(primary_id=None, of_2=(5,))
    candidacy = Candidacy(1, lease_s=LEASE_S)
    candidacy.observe(found, 0.0)
    assert candidacy.may_stand(found, 0.0)


def test_wishes_survive_the_database_and_leave_with_their_broker():
    found = row(of_1=(2, "a")).at(2, "h:2", BrokerWish(7, "b"))
    again = ReplicaSet.of(found.version, found.document())
    assert again == found
    assert again.preference(2) == 7
    assert again.removed(2).preference(2) == 0


def heir_of(found, attached, *, me=0):
    """The preferred heir of a primary with these replicas."""
    copies = SimpleNamespace(
        waited_for=found.in_sync - {me},
        members={one: SimpleNamespace(attached=one in attached) for one in (0, 1, 2)},
    )
    reign = SimpleNamespace(replica_set=found, broker_id=me)
    primary = SimpleNamespace(reign=reign, copies=copies, has_begun=True)
    return preferred_heir(primary)


def test_an_heir_is_in_sync_attached_and_preferred():
    assert heir_of(row(of_1=(1,), of_2=(2,)), {1, 2}) == 2
    assert heir_of(row(of_1=(1,), of_2=(2,)), {1}) == 1
    assert heir_of(row(in_sync=(0, 1), of_2=(2,)), {1, 2}) is None
    assert heir_of(row(of_0=(2,), of_2=(2,)), {1, 2}) is None
    assert heir_of(row(in_sync=(0,)), set()) is None


def test_the_role_goes_back_once_its_heir_has_been_in_sync_for_a_while():
    heirs = {}
    returning = PreferredReturn(lambda: heirs.get("now"), after_s=10)
    assert returning.due(0) is None
    heirs["now"] = 1
    assert [returning.due(at) for at in (1, 10.9, 11, 12, 21)] == [None, None, 1, None, 1]
    heirs["now"] = 2
    assert [returning.due(at) for at in (22, 31, 32)] == [None, None, 2]
    heirs["now"] = None
    assert returning.due(60) is None
    assert PreferredReturn(lambda: 1, after_s=0).due(99) is None
