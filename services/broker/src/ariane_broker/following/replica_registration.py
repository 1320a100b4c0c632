"""Routes to a replica of a set that has been without a primary for long.

A primary registers its replicas with name servers, which forget it after two minutes of silence.
From then on neither readers nor the operator who has to order an election would find the replicas.
So a replica registers itself, with the topics that it knows; routes then offer it for reading only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ariane_broker.naming.registration import Registration
from ariane_servicekit import Address, get_logger

_log = get_logger(__name__)


class ReplicaRegistration:
    """A replica's own registration with the name servers."""

    def __init__(self, make_registration: Callable[[int, Address], Registration]) -> None:
        """``make_registration`` takes the broker id that routes show, and the replica's address."""
        self._make_registration = make_registration
        self._registration: Registration | None = None
        self._starting: asyncio.Task[None] | None = None

    def begin(self, route_id: int, address: Address) -> None:
        """Register, without waiting for name servers. Repeating is harmless."""
        if self._registration is None:
            _log.warning("replica_stands_in_routes", broker_id=route_id)
            self._registration = self._make_registration(route_id, address)
            self._starting = asyncio.create_task(
                self._registration.start(), name="replica-registration"
            )

    async def end(self) -> None:
        """Leave the routes. Repeating is harmless."""
        registration, self._registration = self._registration, None
        starting, self._starting = self._starting, None
        if registration is None or starting is None:
            return
        starting.cancel()
        await asyncio.wait((starting,))
        await registration.unregister()
        await registration.close()
