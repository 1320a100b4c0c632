"""Draining: the broker accepts no messages but still serves readers; and its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ariane_broker.append.append import AppendRecords
from ariane_broker.naming.announcement import BrokerAnnouncement


@dataclass(frozen=True, slots=True, eq=False)
class BrokerDrain:
    """Starts and ends draining."""

    append_records: AppendRecords
    announcement: BrokerAnnouncement
    announce: Callable[[], Awaitable[None]]
    """Updates the name servers at once."""

    @property
    def writable(self) -> bool:
        """Whether the broker accepts messages now."""
        return not self.append_records.draining

    async def set_draining(self, draining: bool) -> None:
        """Start or end draining; routes lead producers to other brokers."""
        self.append_records.draining = draining
        self.announcement.writable = not draining
        await self.announce()
