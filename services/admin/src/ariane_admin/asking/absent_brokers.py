"""Brokers that a list lacks because the name server that was asked does not know them.

A broker whose heartbeats stop leaves the routes; lists then show a smaller cluster that looks
whole. Three traces may be left: another name server still receives its heartbeats, name servers
name it as away, which they do for a day, or an order of queues (``ariane topic order``) names it,
since orders name all brokers of a topic. Without any trace no warning is possible.
"""

from __future__ import annotations

import asyncio
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC
from typing import Final, NamedTuple

from ariane.namesrv.v1.maintenance_service_pb2 import ListKeyValuesRequest
from ariane.namesrv.v1.route_pb2 import AwayBroker
from ariane.namesrv.v1.route_service_pb2 import ListBrokersRequest
from ariane_admin.asking.cluster_doors import PRIMARY_ID, ClusterDoors, all_pages, answer_from
from ariane_admin.counted import counted
from ariane_admin.terminal.client_warnings import say_warning
from ariane_sdk.errors import CallError

ASK_SECONDS_MAX: Final = 1.0
"""How long a name server may take, so that no list waits long for a warning."""

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""Namespace in which name servers keep orders of queues, by topic."""


class _Traces(NamedTuple):
    """A name server's knowledge of brokers."""

    address: str
    """Its address."""
    heard: Collection[str]
    """Names of primaries whose heartbeats it receives."""
    orders: Mapping[str, str]
    """Orders of queues, by topic."""


async def warn_of_absent(doors: ClusterDoors, listed: Iterable[str]) -> None:
    """Warn of each broker that is missing in a list and known to a name server.

    Args:
        doors: Connections to the name servers, each of which is asked.
        listed: The names of the brokers of the list.
    """
    known = set(listed)
    asked = asyncio.gather(*(_traces(doors, address) for address in doors.name_servers))
    answers, away = await asyncio.gather(asked, away_brokers(doors, seconds_max=ASK_SECONDS_MAX))
    heard_at = {name: traces.address for traces in reversed(answers) for name in traces.heard}
    for name in sorted(heard_at.keys() - known):
        say_warning(
            f"the result lacks broker {name}: only name server {heard_at[name]} knows it; "
            "run ariane doctor for details"
        )
    known |= heard_at.keys()
    for one in away:
        if one.broker_name in known:
            continue
        left = one.leave_time.ToDatetime(UTC).isoformat(timespec="seconds")
        say_warning(
            f"the result lacks broker {one.broker_name}, which is not registered: it is away since"
            f" {left}, with {counted(one.topic_count, 'topic')}; start it, or if it is gone for"
            f" good: ariane broker forget {shlex.quote(one.broker_name)}"
        )
        known.add(one.broker_name)
    orders = {topic: order for traces in answers for topic, order in traces.orders.items()}
    for name, topics in topics_of_absent(orders, known).items():
        say_warning(
            f"the result lacks broker {name}, which is not registered: it is part of the"
            f" queue order of {topics}; run ariane doctor for details"
        )


def topics_of_absent(orders: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
    """Unknown brokers that orders of queues name, with the topics in words.

    Args:
        orders: "broker:queues" joined by ";", by topic.
        known: Names of brokers.
    """
    topics: dict[str, list[str]] = defaultdict(list)
    for topic in sorted(orders):
        for entry in orders[topic].split(";"):
            name, _, count = entry.strip().rpartition(":")
            # A malformed entry is ignored, as in the client.
            if name and name not in known and count.isascii() and count.isdigit() and int(count):
                topics[name].append(topic)
    return {name: _in_words(topics[name]) for name in sorted(topics)}


async def queue_orders(doors: ClusterDoors, address: str, timeout_s: float) -> dict[str, str]:
    """The orders of queues that a name server keeps, by topic.

    Args:
        doors: Connections to the name server.
        address: Its "host:port".
        timeout_s: How long one call may take.

    Raises:
        CallError: The name server refused or did not answer.
    """
    pairs = await all_pages(
        f"name server {address}",
        doors.maintenance(address).ListKeyValues,
        ListKeyValuesRequest(namespace=ORDER_NAMESPACE),
        lambda page: page.key_values,
        seconds_max=timeout_s,
    )
    return {pair.key: pair.value for pair in pairs}


async def _traces(doors: ClusterDoors, address: str) -> _Traces:
    """Ask a name server; its failures are ignored, so that the list is shown nevertheless."""
    heard, orders = await asyncio.gather(
        _heard(doors, address),
        queue_orders(doors, address, ASK_SECONDS_MAX),
        return_exceptions=True,
    )
    for answer in (heard, orders):
        if isinstance(answer, BaseException) and not isinstance(answer, CallError):
            raise answer
    return _Traces(
        address,
        () if isinstance(heard, BaseException) else heard,
        {} if isinstance(orders, BaseException) else orders,
    )


async def _heard(doors: ClusterDoors, address: str) -> frozenset[str]:
    brokers = await doors.known_to(address, seconds_max=ASK_SECONDS_MAX)
    identities = [one.identity for one in brokers]
    return frozenset(one.broker_name for one in identities if one.broker_id == PRIMARY_ID)


def _in_words(topics: Collection[str]) -> str:
    first, *rest = dict.fromkeys(topics)
    return f"topic {first}" + (f" and {len(rest)} more" if rest else "")


async def away_brokers(
    doors: ClusterDoors, *, seconds_max: float, cluster_name: str = ""
) -> list[AwayBroker]:
    """The brokers that some name server names as away, by name; another one may have them.

    Name servers that do not answer are passed over; a broker that several name is described by the
    first of them.

    Args:
        doors: Connections to the name servers, each of which is asked.
        seconds_max: How long a name server may take.
        cluster_name: Only brokers of this cluster. Empty: all.
    """

    async def ask(address: str) -> Collection[AwayBroker]:
        # Each page has all of them.
        request = ListBrokersRequest(page_size=1, cluster_name=cluster_name)
        try:
            return (
                await answer_from(
                    f"name server {address}",
                    doors.routes(address).ListBrokers,
                    request,
                    seconds_max=seconds_max,
                )
            ).away_brokers
        except CallError:
            return ()

    answers = await asyncio.gather(*map(ask, doors.name_servers))
    away = {
        (one.broker_name, one.cluster_name): one for answer in reversed(answers) for one in answer
    }
    return [away[place] for place in sorted(away)]
