"""Word to attached clients that the broker is about to go, and time for them to store offsets.

::

    broker                                   a member that keeps its offsets here
      | ---- BrokerDraining ----------------> |
      | <--- StoreConsumerOffsets ----------- |  what it has done since it stored last
      | <--- heartbeat: offsets_stored ------ |  done
      v
    goes: leaves the routes, or hands its role over

Without it, what a member has done in the last few seconds would come again once the broker is back.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ariane_broker.clients.attached_client import AttachedClient
from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.members.membership import ConsumeModel
from ariane_broker.clients.outbox import BrokerDraining
from ariane_servicekit import get_logger

ANSWERS_S_MAX: Final = 1.0
"""For how long members are waited for: producers wait meanwhile, and one may be frozen."""

_log = get_logger(__name__)


class Farewell:
    """Has members store their offsets."""

    def __init__(self, table: ClientTable, *, grace_seconds: float) -> None:
        """Wait for nobody yet; clients are told that calls in work have ``grace_seconds``."""
        self._table = table
        self._grace_seconds = grace_seconds
        self._awaited: set[str] = set()
        self._answered = asyncio.Event()

    async def notify(self) -> None:
        """Notify all clients, and wait until members have stored their offsets, or too long."""
        self._awaited = {each.client_id for each in self._table.walk() if _keeps_offsets(each)}
        self._answered.clear()
        self._table.notify_all(BrokerDraining(self._grace_seconds))
        self._look()
        try:
            async with asyncio.timeout(ANSWERS_S_MAX):
                await self._answered.wait()
        except TimeoutError:
            _log.info("members_not_waited_for", member_count=len(self._awaited))
            self._awaited.clear()

    def parted(self, client: AttachedClient) -> None:
        """Note that a client has stored its offsets, or has left."""
        if self._awaited:
            self._awaited.discard(client.client_id)
            self._look()

    def _look(self) -> None:
        if not self._awaited:
            self._answered.set()


def _keeps_offsets(client: AttachedClient) -> bool:
    """Whether a client is a member, by a stream of its own, that keeps offsets at this broker."""
    models = (membership.model for membership in client.memberships.values())
    return not client.is_relayed and ConsumeModel.CLUSTERING in models
