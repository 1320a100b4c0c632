"""What the doctor says of brokers with replicas."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ariane.namesrv.v1.route_pb2 import BrokerIdentity
from ariane.replication.v1.replica_pb2 import ReplicaSet, ReplicaState
from ariane.replication.v1.replica_set_service_pb2 import GetReplicaSetResponse
from ariane_admin.doctor.cluster_facts import BrokerFacts, ClusterFacts
from ariane_admin.doctor.replica_rules import RULES


def replica(seconds, *, broker_id=1, attached=True):
    state = ReplicaState(broker_id=broker_id, attached=attached, behind_bytes=5000)
    state.behind_for.FromTimedelta(timedelta(seconds=seconds))
    return state


FOLLOWS = (replica(1),)


def broker(
    address="h:1",
    *,
    broker_id=0,
    has_lease=True,
    in_sync=(0, 1),
    brokers=2,
    replicas=FOLLOWS,
    trouble="",
    **said,
):
    row = ReplicaSet(
        cluster_name="c",
        broker_name="broker-a",
        in_sync_broker_ids=in_sync,
        addresses={one: f"h:{one + 1}" for one in range(brokers)},
    )
    said = GetReplicaSetResponse(
        replica_set=row,
        broker_id=broker_id,
        has_lease=has_lease,
        replicas=replicas if has_lease else (),
        trouble=trouble,
        **said,
    )
    identity = BrokerIdentity(
        cluster_name="c", broker_name="broker-a", broker_id=broker_id, address=address
    )
    return BrokerFacts(identity, replica_set=said)


def found(*brokers):
    facts = ClusterFacts((), brokers)
    return [finding.finding for rule in RULES for finding in rule(facts)]


def advised(*brokers):
    facts = ClusterFacts((), brokers)
    return [finding.advice for rule in RULES for finding in rule(facts)]


def test_a_sound_set_and_a_broker_without_replicas_are_no_finding():
    identity = BrokerIdentity(cluster_name="c", broker_name="broker-b", address="h:3")
    assert found(broker(), BrokerFacts(identity)) == []


def test_a_primary_without_a_lease_takes_nothing():
    [finding] = found(broker(has_lease=False))
    assert "it accepts no messages" in finding


def test_replicas_that_stand_in_routes_have_no_primary():
    dead = BrokerFacts(BrokerIdentity(broker_name="broker-a", address="h:1"), "is silent")
    replicas = [
        broker(f"h:{one}", broker_id=one, has_lease=False, trouble="there is no primary: awaited")
        for one in (2, 3)
    ]
    [finding] = found(dead, *replicas)
    assert finding.endswith("accepts no messages: there is no primary: awaited")
    [advice] = advised(dead, *replicas)
    # Without --unclean it is refused: the others that are in sync would come by themselves.
    assert "ariane broker ha elect broker-a --id ID --unclean" in advice
    assert "(ariane broker ha status broker-a)" in advice
    assert found(broker(), *replicas) == []  # It has just come back.


def test_without_the_database_no_broker_that_is_started_helps():
    away = {"trouble": "the database of the replica set is away", "database_away": True}
    replicas = [broker("h:2", broker_id=1, has_lease=False, **away)]
    [finding] = found(*replicas)
    assert finding.endswith("accepts no messages: the database of the replica set is away")
    [advice] = advised(*replicas)
    assert advice.startswith("bring the database of replica_set_url back")


def test_a_set_that_is_too_small_takes_nothing():
    [finding] = found(broker(in_sync=(0,), in_sync_min=2, replicas=[replica(1, attached=False)]))
    assert "accepts no messages: in sync are 1 of the 2 brokers that in_sync_min wants" in finding
    assert found(broker(in_sync_min=2)) == []


def test_a_replica_that_stutters_holds_sends_up():
    slow = replica(1)
    slow.in_sync = True
    slow.longest_wait.FromTimedelta(timedelta(seconds=1.2))
    [finding] = found(broker(replicas=[slow]))
    assert "sends have waited up to 1.2 s for replica 1" in finding
    slow.longest_wait.FromTimedelta(timedelta(seconds=0.4))
    assert found(broker(replicas=[slow])) == []


def test_two_that_say_they_are_primary():
    [finding] = found(broker("h:1"), broker("h:2"))
    assert "several brokers claim to be its primary: h:1, h:2" in finding


def test_a_set_of_one_and_a_replica_that_is_behind():
    away = replica(100, attached=False)
    [finding] = found(broker(in_sync=(0,), replicas=[away]))
    assert "the only broker in sync" in finding
    [finding] = found(broker(replicas=[replica(31)]))
    assert "replica 1 is 5,000 bytes behind" in finding


@pytest.mark.parametrize("other", [(), [replica(1, broker_id=2, attached=False)]])
def test_a_replica_that_does_not_follow_although_another_one_does(other):
    """One that was never heard of since the primary began, or one that has left."""
    [finding] = found(broker(brokers=3, replicas=[*FOLLOWS, *other]))
    assert "does not copy its log to replica 2" in finding
    [advice] = advised(broker(brokers=3, replicas=[*FOLLOWS, *other]))
    assert "ariane broker ha remove broker-a --id ID" in advice
