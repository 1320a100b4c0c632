"""Brokers that have left undrained and may come back, as name servers name them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from ariane.namesrv.v1.route_pb2 import AwayBroker
from ariane.namesrv.v1.route_service_pb2 import ListBrokersRequest
from ariane_admin.asking.cluster_doors import ClusterDoors, answer_from
from ariane_sdk.errors import CallError


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
