"""What the doctor says of members of groups."""

import shlex

from google.protobuf.duration_pb2 import Duration

from ariane.broker.v1.client_question_pb2 import (
    HOLD_REASON_BREAKER_OPEN,
    HOLD_REASON_FAILED_IN_ORDER,
    HOLD_REASON_PAUSED,
    HOLD_REASON_REQUESTED,
    ClientQueueState,
    QueueHold,
)
from ariane_admin.doctor.cluster_facts import ClusterFacts
from ariane_admin.doctor.findings import Severity
from ariane_admin.doctor.member_facts import MemberFacts
from ariane_admin.doctor.member_rules import (
    idle_members,
    queues_that_members_hold,
    queues_that_stand_still,
    queues_that_wait_in_order,
)


def queue(queue_id=0, *, since_s=None, pulled_s=1, **changes):
    state = {"topic": "orders", "broker_name": "broker-a", "in_flight_count": 2, **changes}
    since = {} if since_s is None else {"since_delivery": Duration(seconds=since_s)}
    return ClientQueueState(
        queue_id=queue_id, since_pull=Duration(seconds=pulled_s), **since, **state
    )


def found(*queues):
    member = MemberFacts("client-1", ["billing"], queues)
    return list(queues_that_stand_still(ClusterFacts([], members=[member])))


def test_queues_without_progress_are_one_finding_of_their_member():
    [finding] = found(
        queue(0, since_s=90, waiting_count=5), queue(1, since_s=612), queue(2, since_s=3)
    )
    assert finding.subject == "group billing"
    assert "no progress for 612 s in 2 queues of member client-1: 9 messages" in finding.finding
    assert "orders/broker-a/0, orders/broker-a/1)" in finding.finding
    assert "ariane group running billing --member client-1 --stacks" in finding.advice


def test_messages_that_the_application_never_got_count_from_their_pull():
    assert found(queue(in_flight_count=0, waiting_count=9, pulled_s=61))
    assert not found(queue(in_flight_count=0, waiting_count=9, pulled_s=59))


def test_a_queue_that_is_empty_paused_or_in_work_is_no_finding():
    assert not found(queue(since_s=900, in_flight_count=0))
    assert not found(queue(since_s=900, paused=True))
    assert not found(queue(since_s=30))


def test_a_queue_that_waits_in_order_is_found_once_and_says_for_what():
    hold = QueueHold(
        consumer_group="billing",
        topic="orders",
        broker_name="broker-a",
        reason=HOLD_REASON_FAILED_IN_ORDER,
        queue_offset=7,
        attempts=300,
        age=Duration(seconds=301),
        cause="no bank",
    )
    young = QueueHold(reason=HOLD_REASON_FAILED_IN_ORDER, queue_id=1, age=Duration(seconds=3))
    member = MemberFacts("client-1", ["billing"], [queue(0, since_s=301)], [hold, young])
    facts = ClusterFacts([], members=[member])
    assert not list(queues_that_stand_still(facts))
    [finding] = queues_that_wait_in_order(facts)
    assert finding.subject == "group billing"
    assert "message 7 of orders/broker-a/0, which failed 300 times in 301 s" in finding.finding
    assert finding.finding.endswith("no bank")
    assert "ariane group retry billing --ordered-attempts" in finding.advice


def held(reason, age_s, queue_id=None, cause=""):
    place = {} if queue_id is None else {"topic": "orders", "broker_name": "broker-a"}
    return QueueHold(
        consumer_group="billing",
        queue_id=queue_id or 0,
        reason=reason,
        age=Duration(seconds=age_s),
        cause=cause,
        **place,
    )


def test_a_queue_that_a_member_holds_by_itself_is_no_finding():
    holds = [
        held(HOLD_REASON_BREAKER_OPEN, 16, cause="4 of 4 calls failed"),
        *(held(HOLD_REASON_REQUESTED, 20 + n, n, "no bank") for n in range(4)),
        held(HOLD_REASON_PAUSED, 3600, 9),
        held(HOLD_REASON_PAUSED, 9, 8),
    ]
    member = MemberFacts("client-1", ["billing"], [], holds)
    found = list(queues_that_members_hold(ClusterFacts([], members=[member])))
    assert {finding.subject for finding in found} == {"group billing"}
    said = {one.finding.removeprefix("member client-1 hands out nothing of "): one for one in found}
    three = "orders/broker-a/0, orders/broker-a/1, orders/broker-a/2 ..."
    wanted = f"{three} for 23 s: its listener wants that (ConsumptionHeld): no bank"
    assert {text: one.severity for text, one in said.items()} == {
        "any queue for 16 s: its breaker is open: 4 of 4 calls failed": Severity.WARNING,
        wanted: Severity.WARNING,
        "orders/broker-a/9 for 3600 s: its application paused it": Severity.NOTE,
    }


def test_members_beyond_the_queues_of_their_group_are_idle():
    retries = queue(topic="%RETRY%billing")
    owners = [
        MemberFacts("a", ["billing"], [queue(0), retries], sharing=["billing"]),
        MemberFacts("b", ["billing"], [queue(1)], sharing=["billing"]),
    ]
    idle = MemberFacts("c", ["billing"], [retries], sharing=["billing"])
    [finding] = idle_members(ClusterFacts([], members=[*owners, idle]))
    assert finding.subject == "group billing"
    assert "1 of its 3 members without a queue, since it has only 2 (c)" in finding.finding
    assert not list(idle_members(ClusterFacts([], members=owners)))
    # The queues are about to be shared anew, or everybody has all of them.
    joining = MemberFacts("d", ["billing"], [], sharing=["billing"])
    many = MemberFacts("a", ["billing"], [queue(n) for n in range(8)], sharing=["billing"])
    listener = MemberFacts("e", ["billing"], [])
    assert not list(idle_members(ClusterFacts([], members=[many, joining, listener])))


def test_what_a_client_calls_itself_is_no_command_where_advice_is_pasted():
    member = MemberFacts("x;reboot", ["team|halt"], [queue(0, since_s=301)])
    [finding] = queues_that_stand_still(ClusterFacts([], members=[member]))
    said = finding.advice.partition("ariane group")[2]
    assert shlex.split(said) == ["running", "team|halt", "--member", "x;reboot", "--stacks"]
    assert said.split()[1:4] == ["'team|halt'", "--member", "'x;reboot'"]
