"""Taking no more messages while readers are still served; and taking them again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ariane_broker.append.append import AppendRecords
from ariane_broker.naming.announcement import BrokerAnnouncement


class BrokerDrain:
    """Whether the broker takes messages."""

    def __init__(
        self,
        append_records: AppendRecords,
        announcement: BrokerAnnouncement,
        announce: Callable[[], Awaitable[None]],
    ) -> None:
        """Take the parts.

        Args:
            append_records: What takes messages.
            announcement: What routes say.
            announce: Tells the name servers at once.
        """
        self._append_records = append_records
        self._announcement = announcement
        self._announce = announce

    @property
    def writable(self) -> bool:
        """Whether the broker takes messages now."""
        return not self._append_records.draining

    async def set_draining(self, draining: bool) -> None:
        """Start or end draining; producers are led elsewhere by the routes."""
        self._append_records.draining = draining
        self._announcement.writable = not draining
        await self._announce()
