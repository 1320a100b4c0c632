"""Logs that an operator has paused the group: otherwise it would look like a hang."""

from __future__ import annotations

from typing import Final

from ariane_sdk.errors import CallError
from ariane_sdk.runtime.log import logger

PAUSED_REASON: Final = "GROUP_PAUSED"


class PauseNotice:
    """Logs a warning when the first broker refuses a paused group, and a line when none does."""

    def __init__(self) -> None:
        self._brokers: set[str] = set()

    def refused(self, broker_name: str, error: CallError) -> None:
        """Note a call that a broker has refused, for whatever reason."""
        if error.reason != PAUSED_REASON:
            return
        if not self._brokers:
            logger.warning("no messages come from %s: %s", broker_name, error)
        self._brokers.add(broker_name)

    def answered(self, broker_name: str) -> None:
        """Note a broker that gives messages."""
        if broker_name in self._brokers:
            self._brokers.remove(broker_name)
            if not self._brokers:
                logger.warning("the group is resumed")
