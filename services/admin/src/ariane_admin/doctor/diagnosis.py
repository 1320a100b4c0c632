"""From the facts of a cluster to what is wrong with it: pure functions, each finding one line.

Every rule looks at all facts and yields findings; ``RULES`` lists them. A finding says what is
wrong, with what, and what to do about it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import ip_address
from typing import Final

from ariane.broker.v1.broker_service_pb2 import ClockState, EarlyDeletions
from ariane.namesrv.v1.route_pb2 import BrokerIdentity
from ariane_admin.asking.absent_brokers import topics_of_absent
from ariane_admin.doctor import replica_rules
from ariane_admin.doctor.cluster_facts import ClusterFacts, ProcessFacts
from ariane_admin.doctor.findings import Finding, Severity

CLOCK_SECONDS_MAX: Final = 1.0
"""How far a clock may be ahead or behind: offsets by time and store times are compared."""

DISK_RATIO_MAX: Final = 0.85
"""Share of the disk from which on it is worth a word."""


_NAMED_MAX: Final = 3
"""Topics that a finding names, of many."""


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
                "start it, or take it out of --name-servers of brokers and clients",
            )


def _young_name_servers(facts: ClusterFacts) -> Iterator[Finding]:
    for one in facts.name_servers:
        if one.warming_up:
            yield Finding(
                Severity.NOTE,
                f"name server {one.address}",
                "has just started and may not know all brokers yet",
                "ask again in a minute",
            )


def _no_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    refused = any(one.refused for one in facts.name_servers)
    if not (facts.brokers or refused) and any(not one.error for one in facts.name_servers):
        yield Finding(
            Severity.ERROR,
            "cluster",
            "no broker is registered",
            "start one with --name-servers set to these name servers",
        )


def _refused_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    for name_server in facts.name_servers:
        for broker in name_server.refused:
            yield Finding(
                Severity.ERROR,
                _subject(broker.identity),
                f"name server {name_server.address} refuses it, so that it stands in no route: "
                f"{broker.cause}",
                "mend what it says; the broker asks again every few seconds as long as it runs",
            )


def _refused_topics(facts: ClusterFacts) -> Iterator[Finding]:
    for name_server in facts.name_servers:
        for broker in name_server.brokers:
            if not broker.refused_topic_count:
                continue
            named = broker.refused_topics[:_NAMED_MAX]
            named_text = "".join(f"; {one.topic}: {one.cause}" for one in named)
            yield Finding(
                Severity.ERROR,
                _subject(broker.identity),
                f"{broker.refused_topic_count} of its topics stand in no route of name server "
                f"{name_server.address}{named_text}",
                "delete topics that nobody needs, and see who makes them; topics_max of the broker "
                "limits them, topics_per_broker_max of the name server what it takes",
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
                    f"is not registered with name server {name_server.address}",
                    "name it in the broker's --name-servers: each broker tells each name server",
                )


def _brokers_of_orders(facts: ClusterFacts) -> Iterator[Finding]:
    """Brokers that only orders of queues remember."""
    told = [one for one in facts.name_servers if not one.error]
    if not told or any(one.warming_up for one in told):
        return
    known = {broker.identity.broker_name for one in told for broker in one.brokers}
    orders = {topic: order for one in told for topic, order in one.orders.items()}
    for name, topics in topics_of_absent(orders, known).items():
        yield Finding(
            Severity.ERROR,
            f"broker {name}",
            f"is registered nowhere, and the order of queues of {topics} names it: messages of"
            " groups that belong there wait",
            "start it; if it is gone for good, ariane topic order TOPIC --set moves its groups",
        )


def _unreachable_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    for broker in facts.brokers:
        if broker.error:
            yield Finding(
                Severity.ERROR,
                _subject(broker.identity),
                f"does not answer here at the address in routes: {broker.error}",
                "see on its machine whether it runs, and what its log says last; if it does run,"
                " and is not frozen, set its --advertised-address to one that clients can reach",
            )


def _strangers(facts: ClusterFacts) -> Iterator[Finding]:
    for broker in facts.brokers:
        if broker.state is not None and _key(broker.state.identity) != _key(broker.identity):
            yield Finding(
                Severity.ERROR,
                _subject(broker.identity),
                f"another broker answers there: {_subject(broker.state.identity)}",
                "give each broker an --advertised-address of its own",
            )


def _loopback_addresses(facts: ClusterFacts) -> Iterator[Finding]:
    """Routes for all machines that only work on one."""
    if all(_is_loopback(one.address) for one in facts.name_servers):
        return
    for broker in facts.brokers:
        if _is_loopback(broker.identity.address):
            yield Finding(
                Severity.ERROR,
                _subject(broker.identity),
                "routes give a loopback address to clients on other machines",
                "set its --advertised-address to one that they can reach",
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
                "give each broker a --broker-name of its own",
            )
    for name, known in clusters.items():
        if len(known) > 1:
            yield Finding(
                Severity.WARNING,
                f"broker {name}",
                f"bears a name that is used in clusters {', '.join(sorted(known))}",
                "give each a name of its own: queues and maintenance go by the name alone",
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
                "let NTP or chrony keep the clocks; times of messages are compared",
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
                f"its clock has jumped {_span(doubted_s)} ahead, or its store was closed for so"
                " long: what only this clock calls old is not deleted yet",
                "set the clock right; one that is right is believed once it has stood for the"
                " retention time",
            )
        if stamp_ahead_s > CLOCK_SECONDS_MAX:
            yield Finding(
                Severity.WARNING,
                subject,
                f"store times are {_span(stamp_ahead_s)} ahead of its clock: messages were stored"
                " while it was ahead, and later ones get no earlier time",
                "let NTP or chrony keep the clock; offsets by time are of no use until it has"
                " caught up",
            )
        if clock.jump_count and not doubted_s:
            jump_s = clock.last_jump_duration.ToTimedelta().total_seconds()
            where = "ahead" if jump_s > 0 else "back"
            yield Finding(
                Severity.NOTE,
                subject,
                f"its clock has jumped {clock.jump_count} times since its start, last by"
                f" {_span(abs(jump_s))} {where} at {clock.last_jump_time.ToJsonString()}",
                "let NTP or chrony keep the clock: delayed messages come by it",
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
            f"{early.message_count} messages were deleted before their time since its start, for"
            f" lack of space; last at {early.last_time.ToJsonString()} of"
            f" {', '.join(early.last_topics) or 'no topic'}{stored}",
            "make room on its disk or set --retention-hours lower; consumers that were behind have"
            " lost them: its log names queues and offsets (messages_deleted_early)",
        )


def _versions(facts: ClusterFacts) -> Iterator[Finding]:
    by_version = defaultdict(list)
    for subject, process in _processes(facts):
        by_version[process.state.version].append(subject)
    if len(by_version) > 1:
        told = "; ".join(f"{version}: {', '.join(by_version[version])}" for version in by_version)
        yield Finding(
            Severity.WARNING,
            "cluster",
            f"versions differ: {told}",
            "finish the upgrade: different versions are for its duration only",
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
                f"its store takes nothing: {state.store.refusal}",
                "make room on its disk, or look into its log",
            )
        elif name in wiped or (state is not None and not state.writable):
            yield Finding(
                Severity.NOTE,
                subject,
                "takes no messages, as an operator decided",
                f"ariane broker restore {name} ends it",
            )


def _disks(facts: ClusterFacts) -> Iterator[Finding]:
    for broker in facts.brokers:
        state = broker.state
        if state is not None and state.store.disk_used_ratio > DISK_RATIO_MAX:
            yield Finding(
                Severity.WARNING,
                _subject(broker.identity),
                f"its disk is {state.store.disk_used_ratio:.0%} full",
                "make room: near the limit old messages go early, beyond it none are taken",
            )


def _recoveries(facts: ClusterFacts) -> Iterator[Finding]:
    for broker in facts.brokers:
        for line in broker.state.recovery_findings if broker.state is not None else ():
            yield Finding(
                Severity.WARNING,
                _subject(broker.identity),
                f"its store: {line}",
                "ariane store fsck on its closed store says more",
            )


def _unread_queues(facts: ClusterFacts) -> Iterator[Finding]:
    for broker in facts.brokers:
        for one in broker.state.unread_topics if broker.state is not None else ():
            yield Finding(
                Severity.ERROR,
                f"topic {one.topic}",
                f"{one.message_count} messages on {_subject(broker.identity)} lie in queues that"
                f" are not read ({one.queue_count} of them): nobody gets them",
                f"ariane topic update {one.topic} --queues N, N as many as ever had messages",
            )


def _subscription_conflicts(facts: ClusterFacts) -> Iterator[Finding]:
    told = set()
    for broker in facts.brokers:
        for conflict in broker.conflicts:
            members = (conflict.member.client_id, conflict.newcomer.client_id)
            key = (conflict.consumer_group, *members)
            if key in told:
                continue
            told.add(key)
            outcome = "and was refused" if conflict.refused else "and both are members"
            yield Finding(
                Severity.WARNING if conflict.refused else Severity.ERROR,
                f"group {conflict.consumer_group}",
                f"{members[1]} does not want what {members[0]} wants, {outcome}: "
                f"{conflict.difference}",
                "let all members subscribe to the same, or use a group of its own",
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
    *replica_rules.RULES,
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
    """A span as people say it: in days, hours, or seconds."""
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
