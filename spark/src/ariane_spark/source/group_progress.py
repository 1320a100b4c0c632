"""Shows the progress of a stream as the offsets of a consumer group."""

from __future__ import annotations

import logging
from typing import Final

from ariane_sdk.errors import ArianeError
from ariane_spark.calls.cluster import GroupOffsets
from ariane_spark.positions.offsets import Positions

_log: Final = logging.getLogger(__name__)


class GroupProgress:
    """Stores the positions of a stream in brokers, for display only."""

    def __init__(self, group: str | None) -> None:
        self.group = group
        """The consumer group; ``None``: nothing is stored."""
        self._told: Positions | None = None

    def tell(self, positions: Positions, offsets: GroupOffsets) -> None:
        """Store new positions; failures are logged, and repeated with the next positions.

        Args:
            positions: The next message to read of each queue.
            offsets: The offsets of groups.
        """
        if self.group is None or positions == self._told:
            return
        # Without repeats: the next micro-batch stores again, and an idle one many times a second.
        self._told = positions
        try:
            offsets.store_group_offsets(self.group, positions)
        except ArianeError as error:
            _log.warning("the progress of group %s was not stored: %s", self.group, error)
