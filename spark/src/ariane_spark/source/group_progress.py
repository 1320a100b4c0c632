"""Shows the progress of a stream as the offsets of a consumer group."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ariane_sdk.errors import ArianeError
from ariane_spark.calls.cluster import GroupOffsets
from ariane_spark.positions.offsets import Positions

_log: Final = logging.getLogger(__name__)


REPEAT_S: Final = 30.0
"""Unchanged positions are stored again after this time: brokers show when a query was last heard
of, and forget queries when they restart."""


class GroupProgress:
    """Stores the positions of a stream in brokers, for display only."""

    def __init__(self, group: str | None, monotonic: Callable[[], float]) -> None:
        self.group = group
        """The consumer group; ``None``: nothing is stored."""
        self._monotonic = monotonic
        self._reported: Positions | None = None
        self._again_s = 0.0

    def store(self, positions: Positions, offsets: GroupOffsets) -> None:
        """Store new positions; failures are logged, and repeated with the next positions.

        Args:
            positions: The next message to read of each queue.
            offsets: The offsets of groups.
        """
        if self.group is None:
            return
        now_s = self._monotonic()
        # An idle query asks many times a second.
        if positions == self._reported and now_s < self._again_s:
            return
        # Without repeats of failures: the next micro-batch stores again.
        self._reported, self._again_s = positions, now_s + REPEAT_S
        try:
            offsets.store_group_offsets(self.group, positions)
        except ArianeError as error:
            _log.warning("the progress of group %s was not stored: %s", self.group, error)
