"""Killing primaries in the middle of a run: a broker's replica takes over, and the totals hold.

::

    publish   ---------x------------------   half of the events: the primary of broker-a is killed
    consume   ---------x------------------   half of the events: the primary of broker-b is killed

A killed process is started again at once, as whoever watches over processes would do; it comes back
as a replica of the one that took over, or is elected again if nobody was in sync.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ariane_servicekit.running.broker_groups import BrokerGroup, broker_groups
from ariane_servicekit.running.processes import LocalCluster
from flight_demo.errors import NoFailover

REPLICAS: Final = 1
"""Replicas of each broker."""

KILLS: Final = 2
"""Primaries that are killed in a run."""


class Primaries:
    """The primaries of a cluster with replicas, to be killed."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._groups = broker_groups(cluster)
        self._killings: list[asyncio.Task[None]] = []
        self.takeovers = 0
        """How often another process took over."""

    async def wait_in_sync(self) -> None:
        """Wait until every broker has all its replicas in sync.

        Raises:
            ProcessFailed: They are not in time.
        """
        await asyncio.gather(*(group.wait_in_sync() for group in self._groups))

    def kill(self, place: int) -> None:
        """Kill the primary of a broker and start it again; goes on in the background.

        Args:
            place: Which broker, from 0.
        """
        killing = asyncio.create_task(self._kill(self._groups[place]), name="kill-primary")
        self._killings.append(killing)

    async def settle(self) -> None:
        """Wait until each killed primary has a successor, and all are in sync again.

        Raises:
            ProcessFailed: They are not in time, or a killed process did not start again.
            NoFailover: The killed one is primary again.
        """
        killings, self._killings = self._killings, []
        await asyncio.gather(*killings)

    async def _kill(self, group: BrokerGroup) -> None:
        killed = await group.kill_primary()
        self.takeovers += 1
        await killed.start()
        await group.wait_in_sync()
        if await group.primary() is killed:
            raise NoFailover(f"{killed.name} was killed, and is primary again")
