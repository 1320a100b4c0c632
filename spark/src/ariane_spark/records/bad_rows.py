"""Rows that cannot become messages: reported once, or sent to another topic.

::

    onBadRow=fail        the task ends well and reports the row; the driver raises that and commits
                         nothing
    onBadRow=deadLetter  the row becomes a message of another topic, with the error as a property

A task that raised would be repeated three times in vain, with pages of traces each time.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql.datasource import WriterCommitMessage

from ariane_record import IllegalName
from ariane_record.names import check_topic_name
from ariane_sdk.errors import ColumnIllegal
from ariane_spark.errors import RowIllegal
from ariane_spark.records.rows import (
    MESSAGE_ID_PROPERTY,
    IdentitySeed,
    RowPlan,
    TopicRows,
    row_refusal,
)

if TYPE_CHECKING:
    import pyarrow as pa

BODY_BYTES_MAX: Final = 4 << 20
"""Brokers refuse a body of this size, because they store it together with its columns."""

REASON_PROPERTY: Final = "refusedBecause"
"""Name of the property with the error of a row, in messages set aside."""

_REASON_LENGTH_MAX: Final = 2000


@dataclass(frozen=True)
class RowRefused(WriterCommitMessage):
    """A task's report of a bad row, in place of a receipt."""

    text: str
    """The row and its error."""


def refused(error: RowIllegal, rest: Iterable[object]) -> RowRefused:
    """The message of a task that met a bad row.

    Args:
        error: The error of the row.
        rest: The later rows, which Spark expects to be consumed.
    """
    for _ in rest:
        pass
    return RowRefused(str(error))


def raise_refusals(messages: Iterable[WriterCommitMessage | None]) -> None:
    """Raise the errors that tasks reported; on the driver, in place of a commit.

    Raises:
        RowIllegal: At least one task reported an error; the text of the first.
    """
    texts = [message.text for message in messages if isinstance(message, RowRefused)]
    if texts:
        more = f" (so did {len(texts) - 1} more tasks)" if len(texts) > 1 else ""
        raise RowIllegal(f"{texts[0]}{more}")


@dataclass(frozen=True)
class RowSieve:
    """The rows of a table as messages, and bad ones as messages of a topic of their own."""

    plan: RowPlan
    """The column for each field of a message."""
    dead_letter_topic: str | None = None
    """The topic for bad rows; ``None``: they are refused."""

    def tables(
        self, batch: pa.RecordBatch, seed: IdentitySeed, first_row: int
    ) -> Iterator[TopicRows]:
        """As ``RowPlan.tables``, with bad rows after the others.

        Raises:
            RowIllegal: There is a bad row, and no topic for it.
        """
        if self.dead_letter_topic is None or not len(batch):
            yield from self.plan.tables(batch, seed, first_row)
            return
        import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

        good: dict[str, list[TopicRows]] = {}
        letters: list[tuple[int, str]] = []
        for piece, row, fault in self._sifted(batch, seed, first_row):
            if fault:
                letters.append((row, fault))
                continue
            for share in self.plan.tables(piece, seed, row):
                good.setdefault(share.topic, []).append(share)
        for topic, shares in good.items():
            table = pa.concat_tables([share.table for share in shares]).combine_chunks()
            yield TopicRows(topic, table, np.concatenate([share.rows for share in shares]))
        if letters:
            yield self._letters(batch, seed, first_row, letters)

    def _sifted(
        self, batch: pa.RecordBatch, seed: IdentitySeed, first_row: int
    ) -> Iterator[tuple[pa.RecordBatch, int, str]]:
        """Divide into good pieces and single bad rows with their errors; by halves."""
        try:
            self._check(batch, seed, first_row)
        except RowIllegal as error:
            if len(batch) == 1:
                yield batch, first_row, str(error)
                return
            half = len(batch) // 2
            yield from self._sifted(batch.slice(0, half), seed, first_row)
            yield from self._sifted(batch.slice(half), seed, first_row + half)
        else:
            yield batch, first_row, ""

    def _check(self, batch: pa.RecordBatch, seed: IdentitySeed, first_row: int) -> None:
        from ariane_sdk.message_tables import table_parts  # noqa: PLC0415 - it needs Arrow.

        for share in self.plan.tables(batch, seed, first_row):
            try:
                check_topic_name(share.topic)
                table_parts(
                    share.table, None, body_bytes_max=BODY_BYTES_MAX, with_delivery_times=True
                )
            except IllegalName as error:
                raise RowIllegal(f"row {share.rows[0]} of {seed.text}: {error}") from error
            except ColumnIllegal as error:
                refusal = row_refusal(error, share.rows, error.row, seed.text)
                if error.row is None:  # The error concerns no single row.
                    raise error from refusal
                raise refusal from error

    def _letters(
        self,
        batch: pa.RecordBatch,
        seed: IdentitySeed,
        first_row: int,
        letters: list[tuple[int, str]],
    ) -> TopicRows:
        """Bad rows as JSON, row by row; there are few."""
        import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

        names = {at: name for name, at in self.plan.columns.items()}
        bodies, properties = [], []
        for row, fault in letters:
            piece = batch.slice(row - first_row, 1)
            values = {names[at]: piece.column(at)[0].as_py() for at in sorted(names)}
            body = json.dumps(values, default=_as_json, ensure_ascii=False).encode()
            if len(body) > BODY_BYTES_MAX:
                values["body"] = None
                body = json.dumps(values, default=_as_json, ensure_ascii=False).encode()
            bodies.append(body[:BODY_BYTES_MAX])
            (row_id,) = seed.message_ids(row, pa.array([body])).to_pylist()
            reason = fault[:_REASON_LENGTH_MAX]
            properties.append([(REASON_PROPERTY, reason), (MESSAGE_ID_PROPERTY, row_id)])
        columns = {
            "body": pa.array(bodies, pa.binary()),
            "properties": pa.array(properties, pa.map_(pa.string(), pa.string())),
        }
        rows = np.array([row for row, _ in letters])
        return TopicRows(self.dead_letter_topic or "", pa.table(columns), rows)


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return str(value)
