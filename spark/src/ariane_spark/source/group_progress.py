"""Shows the progress of a stream as that of a consumer group."""

from __future__ import annotations

import logging
from typing import Final

from ariane_sdk.errors import ArianeError
from ariane_spark.calls.cluster import GroupOffsets
from ariane_spark.positions.offsets import Positions

_log: Final = logging.getLogger(__name__)


class GroupProgress:
    """Tells brokers how far a stream has come; nothing depends on it.

    Attributes:
        group: The consumer group; ``None``: nothing is told.
    """

    def __init__(self, group: str | None) -> None:
        self.group = group
        self._told: Positions | None = None

    def tell(self, positions: Positions, offsets: GroupOffsets) -> None:
        """Store new positions; those that fail are logged, and stored with the next ones.

        Args:
            positions: The next message to read of each queue.
            offsets: Where to.
        """
        if self.group is None or positions == self._told:
            return
        # Once only: the next micro-batch tells again, and an idle one asks many times a second.
        self._told = positions
        try:
            offsets.store_group_offsets(self.group, positions)
        except ArianeError as error:
            _log.warning("the progress of group %s was not stored: %s", self.group, error)
