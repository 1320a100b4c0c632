"""What the log says of a listener that fails: where it raised the first time, then a line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ariane_sdk.errors import MessagesFailed
from ariane_sdk.message import MessageQueue, ReceivedMessage
from ariane_sdk.runtime.log import logger

KNOWN_MAX: Final = 100
"""Places where a listener raised that are remembered."""


class ListenerFailures:
    """Tells of the failures of one listener."""

    def __init__(self) -> None:
        self._known: set[tuple[type[Exception], str, int]] = set()

    def tell(
        self,
        queue: MessageQueue,
        delivered: Sequence[ReceivedMessage],
        failed: Sequence[ReceivedMessage],
        error: Exception,
    ) -> None:
        """Warn of one failure; with the trace, when nothing was raised there before."""
        logger.warning(
            "the listener failed with %d of %d messages of %s from %d on: %s",
            len(failed),
            len(delivered),
            queue,
            failed[0].queue_offset,
            str(error) if isinstance(error, MessagesFailed) else repr(error),
            exc_info=error if self._is_new(error) else None,
        )

    def _is_new(self, error: Exception) -> bool:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        file = trace.tb_frame.f_code.co_filename if trace is not None else ""
        place = (type(error), file, trace.tb_lineno if trace is not None else 0)
        if place in self._known:
            return False
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known.add(place)
        return True
