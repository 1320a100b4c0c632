"""The outcome of each row of a table that was sent, in the order of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ariane_record.encoding.columns.arrow_texts import even_binaries
from ariane_sdk.errors import ArianeError, ColumnsSendError
from ariane_sdk.producer.accumulator.row import Row

STORED: Final = "stored"
REFUSED: Final = "refused"
UNKNOWN: Final = "unknown"
_OUTCOMES: Final = (STORED, REFUSED, UNKNOWN)
_NOWHERE: Final = -1


class ColumnOutcomes:
    """Gathers outcomes."""

    def __init__(self, row_count: int) -> None:
        self._broker = np.full(row_count, _NOWHERE, np.int32)
        self._queue_id = np.full(row_count, _NOWHERE, np.int32)
        self._queue_offset = np.full(row_count, _NOWHERE, np.int64)
        self._error = np.full(row_count, _NOWHERE, np.int32)
        self._unique_ids: NDArray[np.uint8] | None = None
        self._brokers: dict[str, int] = {}
        self._errors: list[ArianeError] = []

    def take(self, sent: Row, rows: NDArray[np.int64]) -> None:
        """Take the outcome of a settled row of messages."""
        # A row of all messages needs no index array: a slice is faster.
        chosen = slice(None) if len(rows) == len(self._broker) else rows
        if sent.unique_ids is None:
            raise AssertionError("a row of a table came encoded")
        if self._unique_ids is None:
            shape = len(self._broker), sent.unique_ids.digit_count
            self._unique_ids = np.full(shape, ord("-"), np.uint8)
        self._unique_ids[chosen] = sent.unique_ids.digits
        if sent.stored is not None:
            queue, first = sent.queue, sent.stored.row.first_queue_offset
            broker = self._brokers.setdefault(queue.broker_name, len(self._brokers))
            self._broker[chosen] = broker
            self._queue_id[chosen] = queue.queue_id
            self._queue_offset[chosen] = np.arange(first, first + sent.stored.message_count)
        elif sent.error is not None:
            self.refuse(rows, sent.error)

    def refuse(self, rows: NDArray[np.int64], error: ArianeError) -> None:
        """Record that some rows were not acknowledged."""
        if len(rows):
            self._error[rows] = len(self._errors)
            self._errors.append(error)

    def result(self) -> pa.Table:
        """Where every row was stored.

        Raises:
            ColumnsSendError: Some rows were not acknowledged; the error has the outcome of every
                row.
        """
        if not self._errors:
            return pa.table(self._places(None))
        failed = self._error >= 0
        columns = self._places(failed)
        unknown = np.array([error.outcome_unknown for error in self._errors])
        codes = np.where(failed, np.where(unknown[self._error], 2, 1), 0).astype(np.int8)
        columns["outcome"] = _texts(codes, _OUTCOMES)
        reasons = [error.reason for error in self._errors]
        columns["reason"] = _texts(self._error, reasons)
        raise ColumnsSendError(pa.table(columns), self._errors, int(failed.sum()))

    def _places(self, missing: NDArray[np.bool_] | None) -> dict[str, pa.Array]:
        count = len(self._broker)
        if self._unique_ids is None:
            ids = pa.nulls(count, pa.string())
        else:
            ids = even_binaries(self._unique_ids, self._unique_ids.shape[1], pa.string())
        if missing is not None and self._unique_ids is not None:
            never_encoded = self._unique_ids[:, 0] == ord("-")
            if never_encoded.any():
                ids = ids.take(pa.array(np.arange(count), mask=never_encoded))
        return {
            "brokerName": _texts(self._broker, list(self._brokers)),
            "queueId": pa.array(self._queue_id, mask=missing),
            "queueOffset": pa.array(self._queue_offset, mask=missing),
            "messageId": ids,
        }


def _texts(codes: NDArray[np.signedinteger], texts: Sequence[str]) -> pa.StringArray:
    """Look up the text of each code; a negative code becomes null."""
    if len(texts) == 1 and texts[0] and not codes.any():
        text = texts[0].encode()
        return even_binaries(np.frombuffer(text * len(codes), np.uint8), len(text), pa.string())
    places = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.array(texts, pa.string()).take(places)
