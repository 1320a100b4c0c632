"""Draining a broker, and restoring it: in the routes first, then at the broker itself.

Name servers do not know one another, so each is called, and keeps the state over its restarts. The
broker is called too: it refuses clients that still have an older route, and they use other brokers.
The broker forgets this when it restarts; the name servers do not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ariane.broker.v1.broker_service_pb2 import DrainBrokerRequest
from ariane.namesrv.v1.maintenance_service_pb2 import (
    RestoreWritePermissionRequest,
    WipeWritePermissionRequest,
)
from ariane_admin.asking.broker_readings import consumer_lags
from ariane_admin.asking.cluster_doors import ClusterDoors, changed_at
from ariane_sdk import LiveBroker
from ariane_sdk.errors import CallError

_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class MaintenanceOutcome:
    """The outcome of a drain or a restore."""

    broker_writable: bool
    topic_count: int
    """Topics whose write permission changed, on the name server with the most."""

    name_server_failures: tuple[str, ...]
    """Name servers that did not make the change, each with the reason."""


async def drain(doors: ClusterDoors, broker: LiveBroker) -> MaintenanceOutcome:
    """Take a broker's write permission away everywhere.

    Raises:
        CallError: The broker itself did not make the change.
    """
    request = WipeWritePermissionRequest(broker_name=broker.broker_name)

    async def wipe(address: str) -> int:
        return (
            await changed_at(
                f"name server {address}", doors.maintenance(address).WipeWritePermission, request
            )
        ).topic_count

    count, failures = await _change_name_servers(doors, wipe)
    try:
        writable = await _set_draining(doors, broker, draining=True)
    except CallError as error:
        notified_count = len(doors.name_servers) - len(failures)
        error.add_note(
            f"{notified_count} of {len(doors.name_servers)} name servers keep producers away from"
            " it nevertheless; ariane broker restore undoes that"
        )
        raise
    return MaintenanceOutcome(writable, count, failures)


async def restore(doors: ClusterDoors, broker: LiveBroker) -> MaintenanceOutcome:
    """Give a broker its write permission back everywhere.

    Raises:
        CallError: The broker itself did not make the change.
    """
    try:
        writable = await _set_draining(doors, broker, draining=False)
    except CallError as error:
        error.add_note("name servers were not called, and route as before")
        raise
    request = RestoreWritePermissionRequest(broker_name=broker.broker_name)

    async def give_back(address: str) -> int:
        return (
            await changed_at(
                f"name server {address}", doors.maintenance(address).RestoreWritePermission, request
            )
        ).topic_count

    count, failures = await _change_name_servers(doors, give_back)
    return MaintenanceOutcome(writable, count, failures)


async def wait_consumed(
    doors: ClusterDoors, broker: LiveBroker, show: Callable[[int], None]
) -> None:
    """Wait until every group has consumed what the broker keeps for it.

    Args:
        doors: The cluster.
        broker: The broker; it accepts no messages any more.
        show: Called repeatedly with the number of messages left.
    """
    while True:
        left = await unconsumed_count(doors, broker)
        show(left)
        if not left:
            return
        await asyncio.sleep(_POLL_SECONDS)


async def unconsumed_count(doors: ClusterDoors, broker: LiveBroker) -> int:
    """The number of unconsumed messages of a broker, summed over its groups."""
    return sum(lag.message_count for lag in await consumer_lags(doors, broker))


async def _change_name_servers(
    doors: ClusterDoors, change: Callable[[str], Awaitable[int]]
) -> tuple[int, tuple[str, ...]]:
    """Call each name server; return the number of changed topics, and the failures."""
    outcomes = await asyncio.gather(*map(change, doors.name_servers), return_exceptions=True)
    counts, failures = [0], []
    for outcome in outcomes:
        if isinstance(outcome, CallError):
            failures.append(str(outcome))
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            counts.append(outcome)
    return max(counts), tuple(failures)


async def _set_draining(doors: ClusterDoors, broker: LiveBroker, *, draining: bool) -> bool:
    request = DrainBrokerRequest(draining=draining)
    return (await changed_at(broker, doors.brokers(broker.address).DrainBroker, request)).writable
