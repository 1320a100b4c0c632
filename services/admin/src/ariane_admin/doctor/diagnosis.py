"""Finds the faults of a cluster from its facts: pure functions, one line for each finding.

Every rule reads all facts and yields findings; ``RULES`` lists the rules. A finding names the
subject, the fault and the remedy.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import ip_address
from typing import Final

from ariane.broker.v1.broker_service_pb2 import ClockState, EarlyDeletions
from ariane.namesrv.v1.route_pb2 import BrokerIdentity
from ariane_admin.asking.absent_brokers import topics_of_absent
from ariane_admin.counted import are, counted
from ariane_admin.doctor import (
    certificate_rules,
    cluster_rules,
    gateway_rules,
    member_rules,
    replica_rules,
)
from ariane_admin.doctor.cluster_facts import ClusterFacts, ProcessFacts
from ariane_admin.doctor.findings import Finding, Severity

CLOCK_SECONDS_MAX: Final = 1.0
"""How far a clock may be ahead or behind: times of several machines are compared."""

DISK_RATIO_MAX: Final = 0.85
"""The used share of a disk from which on it is reported."""


_NAMED_MAX: Final = 3
"""The most topics that a finding names."""


def diagnose(facts: ClusterFacts) -> list[Finding]:
    """All findings, the worst first."""
    order = list(Severity)
    found = [finding for rule in RULES for finding in rule(facts)]
    return sorted(found, key=lambda finding: order.index(finding.severity))


def _unreachable_name_servers(facts: ClusterFacts) -> Iterator[Finding]:
    for one in facts.name_servers:
        if one.error:
            yield Finding(
                Severity.ERROR,
                f"name server {one.address}",
                one.error,
                "start it; if it is gone for good, remove it from --name-servers of brokers and"
                " clients",
            )


def _young_name_servers(facts: ClusterFacts) -> Iterator[Finding]:
    for one in facts.name_servers:
        if one.warming_up:
            yield Finding(
                Severity.NOTE,
                f"name server {one.address}",
                "has just started and may not know all brokers yet, so findings may be incomplete",
                "run ariane doctor again in a minute",
            )


def _no_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    refused = any(one.refused for one in facts.name_servers)
    if not (facts.brokers or refused) and any(not one.error for one in facts.name_servers):
        yield Finding(
            Severity.ERROR,
            "cluster",
            "no broker is registered: no message can be sent or consumed",
            "start a broker with --name-servers set to these name servers",
        )


def _refused_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    for name_server in facts.name_servers:
        for broker in name_server.refused:
            yield Finding(
                Severity.ERROR,
                _subject(broker.identity),
                f"name server {name_server.address} refuses it, so clients do not find it:"
                f" {broker.cause}",
                "fix the cause; while the broker runs it tries to register again every few seconds",
            )


def _refused_topics(facts: ClusterFacts) -> Iterator[Finding]:
    for name_server in facts.name_servers:
        for broker in name_server.brokers:
            count = broker.refused_topic_count
            if not count:
                continue
            named = broker.refused_topics[:_NAMED_MAX]
            named_text = "".join(f"; {one.topic}: {one.cause}" for one in named)
            yield Finding(
                Severity.ERROR,
                _subject(broker.identity),
                f"{count} of its topics {are(count)} not in the routes of name server"
                f" {name_server.address}{named_text}",
                "clients cannot find these topics: delete unused ones (ariane topic delete),"
                " or raise the limits, topics_max of the broker and topics_per_broker_max of"
                " the name server",
            )


def _brokers_unknown_to_some(facts: ClusterFacts) -> Iterator[Finding]:
    settled = [one for one in facts.name_servers if not one.error and not one.warming_up]
    for broker in facts.brokers:
        for name_server in settled:
            known = {_key(one.identity) for one in name_server.brokers}
            refused = {_key(one.identity) for one in name_server.refused}
            if _key(broker.identity) not in known | refused:
                yield Finding(
                    Severity.ERROR,
                    _subject(broker.identity),
                    f"is not registered with name server {name_server.address}: clients that"
                    " use it do not find the broker",
                    "restart the broker with all name servers in its --name-servers",
                )


def _brokers_of_orders(facts: ClusterFacts) -> Iterator[Finding]:
    """Brokers that appear only in orders of queues."""
    servers = [one for one in facts.name_servers if not one.error]
    if not servers or any(one.warming_up for one in servers):
        return
    known = {broker.identity.broker_name for one in servers for broker in one.brokers}
    orders = {topic: order for one in servers for topic, order in one.orders.items()}
    for name, topics in topics_of_absent(orders, known).items():
        yield Finding(
            Severity.ERROR,
            f"broker {name}",
            f"is registered nowhere, but is part of the queue order of {topics}: messages"
            " of the message groups that belong there wait",
            "start it; if it is gone for good, move its message groups to other queues:"
            " ariane topic order TOPIC --set",
        )


def _unreachable_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    for broker in facts.brokers:
        if broker.error:
            yield Finding(
                Severity.ERROR,
                _subject(broker.identity),
                f"does not answer here at the address in routes: {broker.error}",
                "check on its machine that it runs, and read the end of its log; if it runs"
                " and is not frozen, set its --advertised-address to one that clients can reach",
            )


def _strangers(facts: ClusterFacts) -> Iterator[Finding]:
    for broker in facts.brokers:
        if broker.state is not None and _key(broker.state.identity) != _key(broker.identity):
            yield Finding(
                Severity.ERROR,
                _subject(broker.identity),
                f"another broker answers there: {_subject(broker.state.identity)}",
                "clients reach the wrong broker: give each broker its own --advertised-address",
            )


def _loopback_addresses(facts: ClusterFacts) -> Iterator[Finding]:
    """Loopback addresses in routes, which work on one machine only."""
    if all(_is_loopback(one.address) for one in facts.name_servers):
        return
    for broker in facts.brokers:
        if _is_loopback(broker.identity.address):
            yield Finding(
                Severity.ERROR,
                _subject(broker.identity),
                "routes contain its loopback address, which clients on other machines cannot reach",
                "set its --advertised-address to one that clients can reach",
            )


def _shared_names(facts: ClusterFacts) -> Iterator[Finding]:
    addresses = defaultdict(set)
    clusters = defaultdict(set)
    for broker in facts.brokers:
        identity = broker.identity
        addresses[_key(identity)].add(identity.address)
        clusters[identity.broker_name].add(identity.cluster_name)
    for (cluster, name, broker_id), known in addresses.items():
        if len(known) > 1:
            yield Finding(
                Severity.ERROR,
                f"broker {name}/{broker_id} of {cluster}",
                f"is at several addresses at once: {', '.join(sorted(known))}",
                "clients reach only one of them: give each broker its own --broker-name",
            )
    for name, known in clusters.items():
        if len(known) > 1:
            yield Finding(
                Severity.WARNING,
                f"broker {name}",
                f"has a name that is used in several clusters: {', '.join(sorted(known))}",
                "give each its own --broker-name: queues and maintenance commands identify a"
                " broker by name alone",
            )


def _clocks(facts: ClusterFacts) -> Iterator[Finding]:
    for subject, process in _processes(facts):
        apart_s = abs(process.ahead_s) - process.unsure_s
        if apart_s > CLOCK_SECONDS_MAX:
            where = "ahead of" if process.ahead_s > 0 else "behind"
            yield Finding(
                Severity.WARNING,
                subject,
                f"its clock is {apart_s:.1f} s {where} the clock here",
                "times of messages are compared between machines: synchronize the clocks with"
                " NTP or chrony",
            )


def _clock_jumps(facts: ClusterFacts) -> Iterator[Finding]:
    for broker in facts.brokers:
        clock = broker.state.clock if broker.state is not None else ClockState()
        subject = _subject(broker.identity)
        doubted_s = clock.doubted_duration.ToTimedelta().total_seconds()
        stamp_ahead_s = clock.stamp_ahead_duration.ToTimedelta().total_seconds()
        if doubted_s:
            yield Finding(
                Severity.WARNING,
                subject,
                f"its clock has jumped {_span(doubted_s)} ahead, or its store was closed for that"
                " long: messages that only this clock makes old are not deleted yet",
                "correct the clock if it is wrong; if it is right, wait: it is trusted again"
                " after the retention time",
            )
        if stamp_ahead_s > CLOCK_SECONDS_MAX:
            yield Finding(
                Severity.WARNING,
                subject,
                f"store times are {_span(stamp_ahead_s)} ahead of its clock: messages were stored"
                " while the clock was ahead, and later ones never get an earlier time",
                "synchronize the clock with NTP or chrony; do not reset offsets by time until"
                " it has caught up",
            )
        if clock.jump_count and not doubted_s:
            jump_s = clock.last_jump_duration.ToTimedelta().total_seconds()
            where = "ahead" if jump_s > 0 else "back"
            yield Finding(
                Severity.NOTE,
                subject,
                f"its clock has jumped {counted(clock.jump_count, 'time')} since its start, last by"
                f" {_span(abs(jump_s))} {where} at {clock.last_jump_time.ToJsonString()}",
                "synchronize the clock with NTP or chrony: it decides when delayed messages"
                " are delivered",
            )


def _early_deletions(facts: ClusterFacts) -> Iterator[Finding]:
    for broker in facts.brokers:
        early = broker.state.store.early_deletions if broker.state is not None else EarlyDeletions()
        if not early.segment_count:
            continue
        stored = ""
        if early.HasField("last_store_time_end"):
            stored = f", stored until {early.last_store_time_end.ToJsonString()}"
        yield Finding(
            Severity.ERROR,
            _subject(broker.identity),
            f"{counted(early.message_count, 'message')} deleted before their retention time since"
            f" its start, for lack of space; last at {early.last_time.ToJsonString()} of"
            f" {', '.join(early.last_topics) or 'no topic'}{stored}",
            "consumers that were behind have lost them: free space on its disk or lower"
            " --retention-hours; its log names queues and offsets (messages_deleted_early)",
        )


def _versions(facts: ClusterFacts) -> Iterator[Finding]:
    by_version = defaultdict(list)
    for subject, process in _processes(facts):
        by_version[process.state.version].append(subject)
    for gateway in facts.gateways:
        by_version[gateway.version].append(f"gateway {gateway.gateway_id}")
    if len(by_version) > 1:
        text = "; ".join(f"{version}: {', '.join(by_version[version])}" for version in by_version)
        yield Finding(
            Severity.WARNING,
            "cluster",
            f"versions differ: {text}",
            "finish the upgrade: mixed versions are supported only during one",
        )


def _not_writable(facts: ClusterFacts) -> Iterator[Finding]:
    wiped = {
        broker.identity.broker_name
        for name_server in facts.name_servers
        for broker in name_server.brokers
        if broker.write_wiped
    }
    for broker in facts.brokers:
        subject, state, name = _subject(broker.identity), broker.state, broker.identity.broker_name
        if state is not None and state.store.refusal:
            yield Finding(
                Severity.ERROR,
                subject,
                f"its store accepts no messages: {state.store.refusal}",
                "free space on its disk, and read its log",
            )
        elif name in wiped or (state is not None and not state.writable):
            yield Finding(
                Severity.NOTE,
                subject,
                "accepts no messages, because an operator stopped it (ariane broker drain)",
                f"to let it accept messages again: ariane broker restore {name}",
            )


def _disks(facts: ClusterFacts) -> Iterator[Finding]:
    for broker in facts.brokers:
        state = broker.state
        if state is not None and state.store.disk_used_ratio > DISK_RATIO_MAX:
            yield Finding(
                Severity.WARNING,
                _subject(broker.identity),
                f"its disk is {state.store.disk_used_ratio:.0%} full",
                "free space on the disk, or lower --retention-hours: near the limit old"
                " messages are deleted early, and beyond it new ones are refused",
            )


def _recoveries(facts: ClusterFacts) -> Iterator[Finding]:
    for broker in facts.brokers:
        for line in broker.state.recovery_notes if broker.state is not None else ():
            yield Finding(
                Severity.NOTE,
                _subject(broker.identity),
                f"its store: {line}",
                "nothing is lost when a process dies; only a power loss under flush_mode = async"
                " takes the messages of the last flush_interval_ms",
            )
        for line in broker.state.recovery_findings if broker.state is not None else ():
            yield Finding(
                Severity.WARNING,
                _subject(broker.identity),
                f"its store: {line}",
                "stop the broker and run ariane store fsck on its store for details",
            )


def _unread_queues(facts: ClusterFacts) -> Iterator[Finding]:
    for broker in facts.brokers:
        for one in broker.state.unread_topics if broker.state is not None else ():
            yield Finding(
                Severity.ERROR,
                f"topic {one.topic}",
                f"{counted(one.message_count, 'message')} on {_subject(broker.identity)} in"
                f" {counted(one.queue_count, 'queue')} that no consumer may read",
                f"ariane topic update {shlex.quote(one.topic)} --queues N, where N is the largest"
                " number of queues it ever had",
            )


def _subscription_conflicts(facts: ClusterFacts) -> Iterator[Finding]:
    found = set()
    for broker in facts.brokers:
        for conflict in broker.conflicts:
            members = (conflict.member.client_id, conflict.newcomer.client_id)
            key = (conflict.consumer_group, *members)
            if key in found:
                continue
            found.add(key)
            outcome = "and was refused" if conflict.refused else "and both are members"
            yield Finding(
                Severity.WARNING if conflict.refused else Severity.ERROR,
                f"group {conflict.consumer_group}",
                f"{members[1]} subscribes differently than {members[0]}, {outcome}:"
                f" {conflict.difference}",
                "messages may be missed: make all members subscribe to the same topics and"
                " filters, or give the odd one its own group",
            )


RULES: Final[Sequence[Callable[[ClusterFacts], Iterable[Finding]]]] = (
    _unreachable_name_servers,
    _young_name_servers,
    _no_brokers,
    _refused_brokers,
    _refused_topics,
    _brokers_unknown_to_some,
    _brokers_of_orders,
    _unreachable_brokers,
    _strangers,
    _loopback_addresses,
    _shared_names,
    _clocks,
    _clock_jumps,
    _versions,
    _not_writable,
    _disks,
    _early_deletions,
    _recoveries,
    _unread_queues,
    _subscription_conflicts,
    *cluster_rules.RULES,
    *replica_rules.RULES,
    *certificate_rules.RULES,
    *gateway_rules.RULES,
    *member_rules.RULES,
)


def _key(identity: BrokerIdentity) -> tuple[str, str, int]:
    return identity.cluster_name, identity.broker_name, identity.broker_id


def _subject(identity: BrokerIdentity) -> str:
    return f"broker {identity.broker_name}/{identity.broker_id} at {identity.address}"


def _processes(facts: ClusterFacts) -> Iterator[tuple[str, ProcessFacts]]:
    for name_server in facts.name_servers:
        if name_server.process is not None:
            yield f"name server {name_server.address}", name_server.process
    for broker in facts.brokers:
        if broker.process is not None:
            yield _subject(broker.identity), broker.process


def _span(seconds: float) -> str:
    """A span as text: in days, hours, or seconds."""
    for length, unit in ((86_400, "days"), (3600, "hours")):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
