"""Messages that a listener failed on, and the log entries of failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ariane_record.counted import counted
from ariane_record.layout import PropertyName
from ariane_sdk.errors import ConsumptionHeld, MessagesFailed
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.application_calls import text_of
from ariane_sdk.runtime.log import logger


@dataclass(frozen=True, slots=True)
class FailedMessages:
    """Messages of one delivery that are not done."""

    messages: Sequence[ReceivedMessage]
    """The messages in the order of the queue; at least one."""
    cause: str
    """The reason in words."""
    rejected: bool = False
    """Whether another attempt is of no use."""
    named: bool = False
    """Whether the listener named the messages; else any of them may be at fault."""
    delay_s: float | None = None
    """How long to wait before the next try; None: as usual."""
    hold: ConsumptionHeld | None = None
    """The listener's wish to be held: then they have not failed. None: they have."""


def failed_messages(delivered: Sequence[ReceivedMessage], error: Exception) -> FailedMessages:
    """The messages that failed, by the error that a listener raised.

    If the error names messages that the listener did not get, all delivered messages failed.
    """
    if isinstance(error, ConsumptionHeld):
        left = _among(delivered, error.messages or ()) or delivered
        return FailedMessages(left, text_of(error), hold=error)
    if isinstance(error, MessagesFailed):
        left = _among(delivered, error.messages)
        if left:
            return FailedMessages(
                left, text_of(error), error.rejected, named=True, delay_s=error.delay_s
            )
    cause = f"{type(error).__qualname__}: {text_of(error)}"
    return FailedMessages(delivered, cause, named=len(delivered) == 1)


def _among(
    delivered: Sequence[ReceivedMessage], named: Sequence[ReceivedMessage]
) -> Sequence[ReceivedMessage]:
    """The delivered messages that are named; none if others are named, too."""
    ids = set(map(id, named))
    found = [message for message in delivered if id(message) in ids]
    return found if len(found) == len(ids) else []


def restore_topics(messages: Sequence[ReceivedMessage]) -> None:
    """Set the topic of messages of a retry topic to the one that they were sent to."""
    for message in messages:
        message.topic = message.properties.get(PropertyName.RETRY_TOPIC) or message.topic


KNOWN_MAX: Final = 100
"""The most remembered places at which a listener raised."""


class ListenerFailures:
    """Logs the failures of one listener."""

    def __init__(self) -> None:
        self._known: set[tuple[type[Exception], str, int]] = set()

    def log(
        self,
        queue: MessageQueue,
        delivered: Sequence[ReceivedMessage],
        failed: Sequence[ReceivedMessage],
        error: Exception,
    ) -> None:
        """Log one failure as a warning; with the trace if it is the first from its place.

        A ``MessagesFailed`` of the application's own is what it meant to say: its trace would only
        show where it said so.
        """
        said = isinstance(error, MessagesFailed) and not (error.__cause__ or error.__context__)
        logger.warning(
            "the listener failed with %d of %s of %s from %d on: %s",
            len(failed),
            counted(len(delivered), "message"),
            queue,
            failed[0].queue_offset,
            text_of(error, str if isinstance(error, MessagesFailed) else repr),
            exc_info=error if not said and self._is_new(error) else None,
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
