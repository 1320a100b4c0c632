"""Messages that were not acknowledged, and requests without a reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ariane_record.counted import counted
from ariane_sdk.errors.root import ArianeError

if TYPE_CHECKING:
    import pyarrow as pa

    from ariane_sdk.message import SendResult


class RequestTimeout(ArianeError):
    """No reply came in time. The request is stored, and a consumer may have acted on it."""

    reason = "REQUEST_TIMEOUT"


class SendError(ArianeError):
    """A message was not acknowledged; with ``outcome_unknown``, it may be stored nevertheless.

    Every failure of a send in the cluster is of this class, including that no service could be
    reached. The error of the last try is its ``__cause__`` and gives its ``reason``.
    """


class BatchSendError(SendError):
    """Some messages of a batch were not acknowledged."""

    reason = "BATCH_INCOMPLETE"

    def __init__(self, outcomes: Sequence[SendResult | ArianeError]) -> None:
        failures = [outcome for outcome in outcomes if isinstance(outcome, ArianeError)]
        first = f"; the first: {failures[0]}" if failures else ""
        super().__init__(
            f"not acknowledged: {len(failures)} of {counted(len(outcomes), 'message')}{first}",
            outcome_unknown=any(failure.outcome_unknown for failure in failures),
            retriable=all(failure.retriable for failure in failures),
        )
        self.outcomes = outcomes
        """One for each message, in their order: its result, or its error."""


class ColumnsSendError(SendError):
    """Some rows of a table were not acknowledged."""

    reason = "BATCH_INCOMPLETE"

    def __init__(
        self, outcomes: pa.Table, errors: Sequence[ArianeError], failure_count: int
    ) -> None:
        """Sum up at least one error; ``failure_count`` rows were not acknowledged."""
        super().__init__(
            f"not acknowledged: {failure_count} of {counted(len(outcomes), 'row')}; the first"
            f" error: {errors[0]}",
            outcome_unknown=any(error.outcome_unknown for error in errors),
            retriable=all(error.retriable for error in errors),
        )
        self.outcomes = outcomes
        """An Arrow table with a row for each row to be sent: the columns of ``send_columns`` (null
        for rows that were not acknowledged), ``outcome`` (``stored``; ``refused``: certainly not
        stored; ``unknown``: may be stored) and ``reason``."""
        self.errors = errors
        """The underlying errors, one for each batch that failed."""


class QueueOrderUnknown(SendError):
    """No name server could tell in time to which queues the message groups of a topic belong.

    The topic is of type FIFO, and no name server that answers has the order of its queues; or all
    of them have just started and do not know the topic. Another queue might be the wrong one, so
    the message was not sent.
    """

    reason = "QUEUE_ORDER_UNKNOWN"
