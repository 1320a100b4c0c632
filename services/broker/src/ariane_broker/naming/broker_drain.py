"""Draining: the broker accepts no messages but still serves readers; and its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ariane_broker.append.append import AppendRecords
from ariane_broker.naming.announcement import BrokerAnnouncement


class BrokerDrain:
    """Starts and ends draining."""

    def __init__(
        self,
        append_records: AppendRecords,
        announcement: BrokerAnnouncement,
        announce: Callable[[], Awaitable[None]],
    ) -> None:
        """Take the parts.

        Args:
            append_records: Accepts messages.
            announcement: The broker's announcement.
            announce: Updates the name servers at once.
        """
        self._append_records = append_records
        self._announcement = announcement
        self._announce = announce

    @property
    def writable(self) -> bool:
        """Whether the broker accepts messages now."""
        return not self._append_records.draining

    async def set_draining(self, draining: bool) -> None:
        """Start or end draining; routes lead producers to other brokers."""
        self._append_records.draining = draining
        self._announcement.writable = not draining
        await self._announce()
