"""What the doctor finds in members of consumer groups."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from ariane.broker.v1.client_question_pb2 import (
    HOLD_REASON_BREAKER_OPEN,
    HOLD_REASON_FAILED_IN_ORDER,
    HOLD_REASON_PAUSED,
    HOLD_REASON_REQUESTED,
    ClientQueueState,
    HoldReason,
    QueueHold,
)
from ariane_admin.counted import counted
from ariane_admin.doctor.cluster_facts import ClusterFacts
from ariane_admin.doctor.findings import Finding, Severity
from ariane_admin.doctor.member_facts import MemberFacts
from ariane_record.names import retry_topic

STANDSTILL_SECONDS: Final = 60.0
"""A queue is reported if its application has got no message of it for longer, though some wait or
are unfinished."""

HOLD_SECONDS: Final = 10
"""A queue that waits in order, or is held otherwise, is reported if it does so for as long."""

_OWN_HOLDS: Final = {
    HOLD_REASON_BREAKER_OPEN: (
        Severity.WARNING,
        "its breaker is open",
        "mend the cause; the consumer tries again by itself",
    ),
    HOLD_REASON_REQUESTED: (
        Severity.WARNING,
        "its listener wants that (ConsumptionHeld)",
        "mend the cause; the listener says when it tries again",
    ),
    HOLD_REASON_PAUSED: (
        Severity.NOTE,
        "its application paused it",
        "only the application ends that, by resume()",
    ),
}
"""How a member's own holds are reported, by their reason: how badly, what it is, what to do."""

_NAMED_MAX: Final = 3

_EVERYWHERE: Final = ("", "", 0)


def queues_that_stand_still(facts: ClusterFacts) -> Iterator[Finding]:
    """Queues of which a member has messages, and whose application takes and finishes none."""
    for member in facts.members:
        held = {_place(hold) for hold in member.holds}
        still = [
            queue
            for queue in member.queues
            if _stands_still(queue) and not {_place(queue), _EVERYWHERE} & held
        ]
        if not still:
            continue
        longest_s = max(_idle_s(queue) for queue in still)
        count = sum(queue.in_flight_count + queue.waiting_count for queue in still)
        names = [f"{one.topic}/{one.broker_name}/{one.queue_id}" for one in still[:_NAMED_MAX]]
        more = " ..." if len(still) > _NAMED_MAX else ""
        yield Finding(
            Severity.WARNING,
            f"group {', '.join(member.groups)}",
            f"no progress for {longest_s:.0f} s in {counted(len(still), 'queue')} of member"
            f" {member.client_id}: {counted(count, 'message')} unfinished"
            f" ({', '.join(names)}{more})",
            "its application hangs, is slow, or does not poll; this shows where it is: ariane group"
            f" running {shlex.quote(member.groups[0])} --member {shlex.quote(member.client_id)}"
            " --stacks",
        )


def queues_that_wait_in_order(facts: ClusterFacts) -> Iterator[Finding]:
    """Queues consumed in order that wait for a message that fails."""
    for member in facts.members:
        for hold in member.holds:
            if hold.reason != HOLD_REASON_FAILED_IN_ORDER or hold.age.seconds < HOLD_SECONDS:
                continue
            yield Finding(
                Severity.WARNING,
                f"group {hold.consumer_group}",
                f"waits in order for message {hold.queue_offset} of"
                f" {'/'.join(map(str, _place(hold)))}, which failed"
                f" {counted(hold.attempts, 'time')} in {hold.age.seconds} s at member"
                f" {member.client_id}: {hold.cause}",
                "mend its cause, and the queue goes on in order; to pass over such messages:"
                f" ariane group retry {shlex.quote(hold.consumer_group)} --ordered-attempts N",
            )


def queues_that_members_hold(facts: ClusterFacts) -> Iterator[Finding]:
    """Queues of which a member hands out nothing by its own decision: it looks like a hang."""
    for member in facts.members:
        by_reason: dict[tuple[str, HoldReason.ValueType], list[QueueHold]] = defaultdict(list)
        for hold in member.holds:
            if hold.reason in _OWN_HOLDS and hold.age.seconds >= HOLD_SECONDS:
                by_reason[hold.consumer_group, hold.reason].append(hold)
        for (group, reason), holds in sorted(by_reason.items()):
            severity, what, advice = _OWN_HOLDS[reason]
            oldest = max(holds, key=lambda hold: hold.age.seconds)
            names = ["/".join(map(str, _place(hold))) for hold in holds[:_NAMED_MAX]]
            more = " ..." if len(holds) > _NAMED_MAX else ""
            of = f"{', '.join(names)}{more}" if all(hold.topic for hold in holds) else "any queue"
            yield Finding(
                severity,
                f"group {group}",
                f"member {member.client_id} hands out nothing of {of} for {oldest.age.seconds} s:"
                f" {what}{f': {oldest.cause}' if oldest.cause else ''}",
                advice,
            )


def paused_groups(facts: ClusterFacts) -> Iterator[Finding]:
    """Groups that an operator has paused: to their members it looks like a hang."""
    paused: dict[str, list[str]] = defaultdict(list)
    for broker in facts.brokers:
        for group in broker.paused_groups:
            paused[group].append(broker.identity.broker_name)
    for group, names in sorted(paused.items()):
        yield Finding(
            Severity.NOTE,
            f"group {group}",
            f"gets no messages from {', '.join(sorted(names))}, because an operator paused it"
            " (ariane group pause)",
            f"to let it consume again: ariane group resume {shlex.quote(group)}",
        )


def idle_members(facts: ClusterFacts) -> Iterator[Finding]:
    """Members that own no queue, because their group has more members than queues."""
    members: dict[str, list[MemberFacts]] = defaultdict(list)
    for member in facts.members:
        # Of a member of several groups it is not known for which of them it has a queue.
        if len(member.groups) == 1:
            for group in member.sharing:
                members[group].append(member)
    for group, sharers in sorted(members.items()):
        owned = [
            sum(queue.topic != retry_topic(group) for queue in member.queues) for member in sharers
        ]
        idle = [each.client_id for each, count in zip(sharers, owned, strict=True) if not count]
        queue_count = sum(owned)
        if not idle or queue_count == 0 or queue_count >= len(sharers):
            continue
        more = " ..." if len(idle) > _NAMED_MAX else ""
        yield Finding(
            Severity.NOTE,
            f"group {group}",
            f"{len(idle)} of its {len(sharers)} members without a queue, since it has only"
            f" {queue_count} ({', '.join(sorted(idle)[:_NAMED_MAX])}{more})",
            "give its topics more queues (ariane topic update TOPIC --queues N), stop these"
            " members, or receive messages without owning queues (docs/receiving.md)",
        )


def _place(one: ClientQueueState | QueueHold) -> tuple[str, str, int]:
    return one.topic, one.broker_name, one.queue_id


def _stands_still(queue: ClientQueueState) -> bool:
    unfinished = queue.in_flight_count + queue.waiting_count
    return unfinished > 0 and not queue.paused and _idle_s(queue) > STANDSTILL_SECONDS


def _idle_s(queue: ClientQueueState) -> float:
    """How long ago the application got messages; if it never did, how long ago any were pulled."""
    since = queue.since_delivery if queue.HasField("since_delivery") else queue.since_pull
    return since.ToMilliseconds() / 1000


RULES: Final = (
    queues_that_stand_still,
    queues_that_wait_in_order,
    queues_that_members_hold,
    paused_groups,
    idle_members,
)
