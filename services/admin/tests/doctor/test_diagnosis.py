"""Each rule of the doctor, without a cluster."""

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from ariane.broker.v1.broker_service_pb2 import (
    ClockState,
    EarlyDeletions,
    GetBrokerStateResponse,
    StoreState,
    UnreadTopic,
)
from ariane.broker.v1.client_service_pb2 import GroupMember, SubscriptionConflict
from ariane.common.v1.process_service_pb2 import ProcessState
from ariane.namesrv.v1.route_pb2 import (
    AwayBroker,
    BrokerIdentity,
    BrokerLiveness,
    RefusedBroker,
    RefusedTopic,
)
from ariane_admin.doctor.cluster_facts import (
    BrokerFacts,
    ClusterFacts,
    NameServerFacts,
    ProcessFacts,
)
from ariane_admin.doctor.diagnosis import diagnose
from ariane_admin.doctor.findings import Severity


def identity(name="broker-a", address="10.0.0.1:10911", cluster="c1"):
    return BrokerIdentity(cluster_name=cluster, broker_name=name, address=address)


def process(version="1", ahead_s=0.0, unsure_s=0.0):
    state = ProcessState(version=version, current_time=Timestamp(seconds=1))
    return ProcessFacts(state, ahead_s, unsure_s)


def broker(one=None, *, answers_as=None, **changes):
    one = one or identity()
    store = StoreState(**changes.pop("store", {}))
    state = GetBrokerStateResponse(
        identity=answers_as or one,
        writable=changes.pop("writable", True),
        store=store,
        recovery_findings=changes.pop("recovery_findings", ()),
        recovery_notes=changes.pop("recovery_notes", ()),
        unread_topics=changes.pop("unread_topics", ()),
        clock=changes.pop("clock", None),
    )
    return BrokerFacts(one, **{"process": process(), "state": state, **changes})


def name_server(*brokers, address="10.0.0.9:9876", wiped=False, **changes):
    live = [BrokerLiveness(identity=one.identity, write_wiped=wiped) for one in brokers]
    return NameServerFacts(address, **{"process": process(), "brokers": live, **changes})


def findings(*brokers, name_servers=None, **changes):
    servers = name_servers if name_servers is not None else [name_server(*brokers, **changes)]
    return diagnose(ClusterFacts(servers, brokers))


def test_a_sound_cluster():
    assert findings(broker()) == []


AWAY = AwayBroker(broker_name="broker-z", topic_count=1, leave_time=Timestamp(seconds=9))
CONFLICT = SubscriptionConflict(
    consumer_group="billing",
    member=GroupMember(client_id="one"),
    newcomer=GroupMember(client_id="two"),
    difference="orders: a, not b",
)

ONE_FINDING = {
    "does not answer here": findings(broker(error="refused", process=None, state=None)),
    "no broker is registered": findings(),
    "has just started": findings(broker(), warming_up=True),
    "another broker answers": findings(broker(answers_as=identity("broker-z"))),
    "loopback": findings(broker(identity(address="127.0.0.1:10911"))),
    "several addresses": findings(broker(), broker(identity(address="10.0.0.2:10911"))),
    "clusters: c1, c2": findings(broker(), broker(identity(cluster="c2", address="10.0.0.2:1"))),
    "3.5 s ahead of": findings(broker(process=process(ahead_s=4, unsure_s=0.5))),
    "9.0 s behind": findings(broker(process=process(ahead_s=-9))),
    "versions differ": findings(broker(process=process("2"))),
    "accepts no messages: full": findings(broker(store={"refusal": "full"})),
    "because an operator stopped it": findings(broker(writable=False)),
    "90% full": findings(broker(store={"disk_used_ratio": 0.9})),
    "has jumped 2 times since its start, last by 15.0 days back at 1970-01-01T00:00:07Z": findings(
        broker(
            clock=ClockState(
                jump_count=2,
                last_jump_duration=Duration(seconds=-15 * 86_400),
                last_jump_time=Timestamp(seconds=7),
            )
        )
    ),
    "store times are 3.0 hours ahead of its clock": findings(
        broker(clock=ClockState(stamp_ahead_duration=Duration(seconds=3 * 3600)))
    ),
    "its clock has jumped 90.0 s ahead": findings(
        broker(clock=ClockState(jump_count=1, doubted_duration=Duration(seconds=90)))
    ),
    "12 messages deleted before their retention time since its start, for lack of space; last"
    " at 1970-01-01T00:00:09Z of orders, bills, stored until 1970-01-01T00:00:05Z": findings(
        broker(
            store={
                "early_deletions": EarlyDeletions(
                    message_count=12,
                    segment_count=1,
                    last_time=Timestamp(seconds=9),
                    last_topics=["orders", "bills"],
                    last_store_time_end=Timestamp(seconds=5),
                )
            }
        )
    ),
    "the tail was cut": findings(broker(recovery_findings=["the tail was cut"])),
    "1 message on broker broker-a/0 at 10.0.0.1:10911 in 1 queue that no consumer may": findings(
        broker(unread_topics=[UnreadTopic(topic="orders", queue_count=1, message_count=1)])
    ),
    "orders: a, not b": findings(broker(conflicts=[CONFLICT]), broker(conflicts=[CONFLICT])),
    "is not registered with name server 10.0.0.8:9876": findings(
        broker(),
        name_servers=[name_server(broker()), name_server(address="10.0.0.8:9876")],
    ),
    "is registered nowhere, but is part of the queue order of topic bills and 1 more": findings(
        broker(), orders={"trades": "broker-z:4;broker-a:4", "bills": "broker-z:1", "x": "y"}
    ),
    "has left undrained at 1970-01-01T00:00:09+00:00, with 1 topic: groups": findings(
        broker(), away=[AWAY]
    ),
    "wait, writes of Spark to them are refused, and they are neither deleted nor made": findings(
        broker(), away=[AWAY]
    ),
    "does not answer: gone": findings(
        broker(),
        name_servers=[
            name_server(broker()),
            name_server(error="does not answer: gone", process=None),
        ],
    ),
}


@pytest.mark.parametrize(("words", "found"), ONE_FINDING.items())
def test_each_fault_is_one_finding(words, found):
    [one] = found
    assert words in one.finding
    assert one.advice
    assert one.subject


def test_a_crash_that_lost_nothing_is_a_note():
    note = "the last run ended without a stop; 3 records scanned from commit-log offset 0"
    [one] = findings(broker(recovery_notes=[note]))
    assert one.severity is Severity.NOTE
    assert note in one.finding


def test_a_broker_away_for_one_name_server_only_is_not_gone():
    back = broker(identity("broker-z"))
    servers = [name_server(back, away=[AWAY]), name_server(back, address="10.0.0.8:9876")]
    assert findings(back, name_servers=servers) == []


def test_who_has_just_started_knows_of_nobody_that_he_is_gone():
    young = findings(broker(), orders={"trades": "broker-z:4"}, warming_up=True)
    elsewhere = [name_server(broker(), orders={"trades": "broker-z:4"})]
    elsewhere.append(name_server(broker(), broker(identity("broker-z")), address="10.0.0.8:1"))

    assert ["just started" in one.finding for one in young] == [True]
    told = diagnose(ClusterFacts(elsewhere, [broker()]))
    assert not any("registered nowhere" in one.finding for one in told)


def test_a_wipe_is_told_also_when_the_broker_does_not_answer():
    silent = broker(error="refused", process=None, state=None)
    assert [one.severity for one in findings(silent, wiped=True)] == [
        Severity.ERROR,
        Severity.NOTE,
    ]


def test_a_clock_is_not_judged_by_less_than_the_question_took():
    assert findings(broker(process=process(ahead_s=4, unsure_s=3.5))) == []


def test_a_cluster_on_one_machine_may_use_its_loopback():
    local = broker(identity(address="127.0.0.1:10911"))
    assert findings(local, address="127.0.0.1:9876") == []


def test_a_young_name_server_is_not_blamed_for_what_it_does_not_know():
    young = name_server(address="10.0.0.8:9876", warming_up=True)
    [one] = findings(broker(), name_servers=[name_server(broker()), young])
    assert one.severity is Severity.NOTE


def test_topics_that_stand_in_no_route_are_named():
    one = broker()
    live = BrokerLiveness(
        identity=one.identity,
        refused_topic_count=4000,
        refused_topics=[RefusedTopic(topic=f"flood-{n}", cause="too many") for n in range(20)],
    )
    (found,) = findings(one, name_servers=[name_server(brokers=[live])])
    assert found.severity is Severity.ERROR
    assert found.finding.startswith("4000 of its topics are not in the routes")
    assert found.finding.count("too many") == 3
    assert "topics_max" in found.advice


def test_a_refused_broker_is_not_taken_for_none():
    refused = RefusedBroker(identity=identity(), cause="1000 brokers are registered already")
    (found,) = findings(name_servers=[name_server(refused=[refused])])
    assert found.severity is Severity.ERROR
    assert found.subject == "broker broker-a/0 at 10.0.0.1:10911"
    assert "1000 brokers are registered already" in found.finding


def test_a_broker_that_one_name_server_refuses_is_told_once():
    one = broker()
    refused = RefusedBroker(identity=one.identity, cause="no room")
    servers = [name_server(one), name_server(address="10.0.0.8:9876", refused=[refused])]
    (found,) = findings(one, name_servers=servers)
    assert "10.0.0.8:9876 refuses it" in found.finding
