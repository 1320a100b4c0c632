"""Rules for brokers with replicas; see ``diagnosis``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from ariane_admin.asking.cluster_doors import PRIMARY_ID
from ariane_admin.counted import counted
from ariane_admin.doctor.cluster_facts import BrokerFacts, ClusterFacts
from ariane_admin.doctor.findings import Finding, Severity

WAIT_SECONDS_MAX: Final = 1.0
"""How long a send may wait for one replica before it is reported."""

BEHIND_SECONDS_MAX: Final = 30.0
"""How long a replica may be behind before it is reported."""


def primaries_without_lease(facts: ClusterFacts) -> Iterator[Finding]:
    """A primary that cannot renew its lease accepts no messages."""
    for broker in facts.brokers:
        if broker.identity.broker_id != PRIMARY_ID:
            continue
        if broker.replica_set is not None and not broker.replica_set.has_lease:
            yield Finding(
                Severity.ERROR,
                _subject(broker),
                "is primary in routes but has no lease, so it accepts no messages",
                "check that it reaches the database of replica_set_url; search its log for"
                " shared_row_away",
            )


def primaries_of_one_name(facts: ClusterFacts) -> Iterator[Finding]:
    """Two brokers that claim to be primary: one of them has not noticed its successor yet."""
    claims: dict[tuple[str, str], list[BrokerFacts]] = defaultdict(list)
    for broker in facts.brokers:
        if broker.replica_set is not None and broker.replica_set.has_lease:
            row = broker.replica_set.replica_set
            claims[row.cluster_name, row.broker_name].append(broker)
    for (_, name), brokers in claims.items():
        if len({broker.identity.address for broker in brokers}) > 1:
            where = ", ".join(sorted(broker.identity.address for broker in brokers))
            yield Finding(
                Severity.ERROR,
                f"broker {name}",
                f"several brokers claim to be its primary: {where}; their messages may diverge",
                "they use different databases: stop the one that should not be primary, and start"
                " it again with the replica_set_url of the other",
            )


def sets_without_primary(facts: ClusterFacts) -> Iterator[Finding]:
    """A set whose routes contain only replicas: it has had no primary for long."""
    has_lease = {
        broker.identity.broker_name
        for broker in facts.brokers
        if broker.replica_set is not None and broker.replica_set.has_lease
    }
    by_name: dict[str, BrokerFacts] = {}
    for broker in facts.brokers:
        name = broker.identity.broker_name
        if broker.identity.broker_id != PRIMARY_ID and name not in has_lease:
            by_name.setdefault(name, broker)
    for name, broker in by_name.items():
        known = broker.replica_set
        trouble = known.trouble if known is not None else ""
        advice = (
            f"start a broker that is in sync (ariane broker ha status {name}); if none will come"
            f" back, have another elected with ariane broker ha elect {name} --id ID --unclean:"
            " messages that it lacks are lost"
        )
        if known is not None and known.database_away:
            advice = "bring the database of replica_set_url back: without it nobody is elected"
        yield Finding(
            Severity.ERROR,
            f"broker {name}",
            "has no primary, so it accepts no messages" + (f": {trouble}" if trouble else ""),
            advice,
        )


def brokers_of_one_id(facts: ClusterFacts) -> Iterator[Finding]:
    """Processes that take no part in their set because another one has their id."""
    for rival in facts.rivals:
        trouble = rival.replica_set.trouble if rival.replica_set is not None else ""
        yield Finding(
            Severity.ERROR,
            _subject(rival),
            f"takes no part in its set: {trouble}",
            "stop the process that is wrong, or give it a --broker-id of its own; then restart the"
            " other one",
        )


def sets_too_small(facts: ClusterFacts) -> Iterator[Finding]:
    """A primary that refuses messages because too few brokers are in sync."""
    for broker in facts.brokers:
        known = broker.replica_set
        if known is None or not known.has_lease:
            continue
        in_sync, wanted = len(known.replica_set.in_sync_broker_ids), known.in_sync_min
        if in_sync < wanted:
            name = known.replica_set.broker_name
            yield Finding(
                Severity.ERROR,
                _subject(broker),
                f"accepts no messages: in sync are {in_sync} of the {wanted} brokers that"
                " in_sync_min wants",
                f"start its replicas; ariane broker ha status {name} shows what delays them",
            )


def sets_of_one(facts: ClusterFacts) -> Iterator[Finding]:
    """A set with replicas of which none is in sync: the next failure may lose messages."""
    for broker in facts.brokers:
        if broker.replica_set is None or not broker.replica_set.has_lease:
            continue
        row = broker.replica_set.replica_set
        is_small = len(row.in_sync_broker_ids) < broker.replica_set.in_sync_min
        if len(row.addresses) > 1 and len(row.in_sync_broker_ids) == 1 and not is_small:
            yield Finding(
                Severity.WARNING,
                _subject(broker),
                "is the only broker in sync: no replica can take over, and acknowledged"
                " messages exist on it alone",
                f"start its replicas; ariane broker ha status {row.broker_name} shows what delays"
                f" them, and ariane broker ha remove {row.broker_name} --id ID removes one that"
                " will not come back",
            )


def replicas_away(facts: ClusterFacts) -> Iterator[Finding]:
    """Replicas that do not follow, where others do."""
    for broker in facts.brokers:
        if broker.replica_set is None or not broker.replica_set.has_lease:
            continue
        row = broker.replica_set.replica_set
        attached = {one.broker_id for one in broker.replica_set.replicas if one.attached}
        away = sorted(row.addresses.keys() - attached - {broker.replica_set.broker_id})
        if away and len(row.in_sync_broker_ids) > 1:  # Else it is a set of one.
            yield Finding(
                Severity.WARNING,
                _subject(broker),
                f"does not copy its log to replica {', '.join(map(str, away))}: it is down, or does"
                " not follow",
                f"start it; ariane broker ha status {row.broker_name} shows why a running one does"
                f" not follow, and ariane broker ha remove {row.broker_name} --id ID removes one"
                " that will not come back",
            )


def replicas_behind(facts: ClusterFacts) -> Iterator[Finding]:
    """Replicas that are attached but do not catch up."""
    for broker in facts.brokers:
        for replica in broker.replica_set.replicas if broker.replica_set is not None else ():
            behind_s = replica.behind_for.ToMilliseconds() / 1000
            if replica.attached and behind_s > BEHIND_SECONDS_MAX:
                yield Finding(
                    Severity.WARNING,
                    _subject(broker),
                    f"replica {replica.broker_id} is {counted(replica.behind_bytes, 'byte')}"
                    f" behind, and has been incomplete for {behind_s:.0f} s",
                    "wait if it is copying an old log; otherwise check its disk, and the network"
                    " between both",
                )


def replicas_that_hold_up(facts: ClusterFacts) -> Iterator[Finding]:
    """Replicas in sync for which sends wait long: one that stutters, say."""
    for broker in facts.brokers:
        for replica in broker.replica_set.replicas if broker.replica_set is not None else ():
            waited_s = replica.longest_wait.ToMilliseconds() / 1000
            if replica.in_sync and waited_s > WAIT_SECONDS_MAX:
                yield Finding(
                    Severity.WARNING,
                    _subject(broker),
                    f"sends have waited up to {waited_s:.1f} s for replica {replica.broker_id}"
                    " within the last minutes",
                    "check its disk, its load, and the network between both; stopped, it leaves the"
                    " in-sync set, and sends wait for it no more",
                )


RULES: Final = (
    primaries_without_lease,
    primaries_of_one_name,
    sets_without_primary,
    brokers_of_one_id,
    sets_too_small,
    sets_of_one,
    replicas_away,
    replicas_behind,
    replicas_that_hold_up,
)


def _subject(broker: BrokerFacts) -> str:
    identity = broker.identity
    return f"broker {identity.broker_name}/{identity.broker_id} at {identity.address}"
