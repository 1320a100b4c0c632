"""Writes rows exactly once: tasks stage them, one commit makes all of a batch visible.

::

    task:    committed already? -> look     else stage under a token, at all brokers of the sink
                                            -> receipt names the token and the parts
    driver:  CommitBatch(sink, batch, staged parts of the receipts, sum over all rows), at its home
             idempotent, repeated freely; refused where other rows were committed before
    failure: AbortBatch(sink, batch)                                    never undoes a commit

Staged parts that no commit names are dropped: by the commit of their batch or of a later one, by an
abort, or by age. So repeated and speculative tasks do no harm, and a repeated batch may divide its
rows differently among tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Final, TypeAlias

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.taskcontext import TaskContext

from ariane_record.counted import counted
from ariane_sdk import errors as sdk_errors
from ariane_sdk.errors import ArianeError
from ariane_spark.calls.batch_transactions import BatchTransactions
from ariane_spark.calls.connection import connect_transactions_once
from ariane_spark.calls.sink_batches import (
    Attempt,
    SinkBatch,
    batch_of_options,
    batch_of_task,
    micro_batch_of_task,
)
from ariane_spark.errors import BatchDiffers, CommitRefused, OptionIllegal, RowIllegal
from ariane_spark.options.write_options import WriteOptions
from ariane_spark.records.bad_rows import RowRefused, RowSieve, raise_refusals, refused
from ariane_spark.records.contents import Contents, contents_of
from ariane_spark.records.rows import IdentitySeed, RowPlan
from ariane_spark.sink.staging import StagedAttempt
from ariane_spark.sink.stream_writers import DataSourceStreamArrowWriter
from ariane_spark.sink.write_spans import write_span

if TYPE_CHECKING:
    import pyarrow as pa

Connect: TypeAlias = Callable[[WriteOptions], BatchTransactions]
Receipts: TypeAlias = Sequence[WriterCommitMessage | None]

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class StageReceipt(WriterCommitMessage):
    """The receipt of one task for a batch."""

    batch: SinkBatch
    """The batch."""
    attempts: tuple[Attempt, ...] | None
    """The staged parts, one for each broker; ``None``: the batch was committed before."""
    contents: Contents
    """The fingerprint of the task's rows."""


@dataclass(frozen=True)
class ExactlyOnceWrite:
    """The shared part of writers of tables and streams; sent to tasks and driver."""

    options: WriteOptions
    """The options of the write."""
    plan: RowPlan
    """The column for each field of a message."""
    batch: SinkBatch | None
    """The batch; ``None`` for streams, whose tasks are told theirs by Spark."""
    connect: Connect = connect_transactions_once
    """Returns the transactions of the present process."""

    def stage(self, batches: Iterator[pa.RecordBatch]) -> StageReceipt | RowRefused:
        """Stage the rows of one partition, or report the bad ones; in a task.

        Raises:
            ArianeError: A broker refused, or does not answer.
            ArianeSparkError: An option or a row is illegal.
        """
        context = TaskContext.get()
        partition_id = context.partitionId() if context else 0
        batch = self.batch or batch_of_task(self.options, context)
        if batch.is_single and micro_batch_of_task(context) is not None:
            raise OptionIllegal(
                "writeId",
                "is for single writes; in foreachBatch, write by ariane_spark.foreach_batch_writer",
            )
        calls = self.connect(self.options)
        seed = IdentitySeed(f"{batch.sink.name}/{batch.batch_id}/{partition_id}")
        staged: StagedAttempt | None = StagedAttempt(
            calls,
            batch,
            partition_id,
            name=seed.text,
            block_bytes_max=self.options.batch_bytes,
            compression=self.options.compression,
        )
        sieve = RowSieve(self.plan, self.options.dead_letter_topic)
        count, contents = 0, Contents()
        try:
            with write_span(self.options.otlp_endpoint) as span:
                for rows in batches:
                    for part in sieve.tables(rows, seed, count):
                        # Asked with the first rows: most of many tasks may have none.
                        if not contents.row_count and calls.is_committed(batch):
                            staged = None
                        # Also for a batch committed before: the rows must be the same. The context
                        # of a span differs each time, so it is left out.
                        contents = contents.plus(contents_of(part))
                        if staged is None:
                            continue
                        if _is_decided(partial(staged.add, span.marked(part))):
                            staged = None
                    count += len(rows)
                if staged is None or _is_decided(staged.wait):
                    return StageReceipt(batch, None, contents)
                return StageReceipt(batch, staged.finish(), contents)
        except RowIllegal as error:
            return refused(error, batches)

    def commit(self, messages: Receipts, batch_id: int | None = None) -> None:
        """Commit the parts in the receipts; on the driver.

        Args:
            messages: The receipts of all tasks.
            batch_id: The id of the micro-batch, as the driver knows it.

        Raises:
            RowIllegal: A task found a row that cannot become a message.
            BatchDiffers: The batch was committed before with other rows.
            CommitRefused: The receipts do not fit together.
            ArianeError: The broker refused, or does not answer: the batch may be committed or not.
        """
        raise_refusals(messages)
        receipts = [message for message in messages if isinstance(message, StageReceipt)]
        if not receipts:
            return
        batch = receipts[0].batch
        calls = self.connect(self.options)
        if any(each.batch != batch for each in receipts) or (
            batch_id is not None and batch_id != batch.batch_id
        ):
            raise CommitRefused(f"tasks of batch {batch_id} of {batch.sink.name} do not agree")
        attempts = [attempt for each in receipts for attempt in each.attempts or ()]
        if any(each.attempts is None for each in receipts) and not calls.is_committed(batch):
            raise CommitRefused(_forgotten(batch))
        contents = reduce(Contents.plus, (each.contents for each in receipts))
        try:
            if calls.commit(batch, attempts, contents):
                # After a crash, and for a repeated job.
                _log.warning("%s was committed before with the same rows; it stands", batch)
        except sdk_errors.TransactionDecided as error:
            raise CommitRefused(_forgotten(batch)) from error
        except sdk_errors.BatchDiffers as error:
            refusal = _differs(error, batch, contents)
            if not self.options.skips_changed_batch:
                raise BatchDiffers(f"{refusal}; {_ways_out(batch)}") from error
            _log.warning("%s; what came now is skipped", refusal)

    def abort(self, messages: Receipts) -> None:
        """Drop staged parts, as far as that is possible now; on the driver.

        Spark calls this even if it does not know whether the commit succeeded; if it did, brokers
        do nothing.
        """
        receipts = [message for message in messages if isinstance(message, StageReceipt)]
        calls = self.connect(self.options)
        try:
            if receipts:
                calls.abort(receipts[0].batch)
            elif self.batch is not None:
                calls.abort(self.batch)
        except ArianeError as error:
            _log.warning("what was staged stays until it grows old: %s", error)


class ExactlyOnceWriter(DataSourceArrowWriter):
    """The writer for tables, and for the micro-batches of ``foreachBatch``."""

    def __init__(
        self, options: WriteOptions, plan: RowPlan, connect: Connect = connect_transactions_once
    ) -> None:
        """Take the options.

        Raises:
            OptionIllegal: They do not name the batch.
        """
        # One object serves all tasks, their repeats and the commit.
        self._write = ExactlyOnceWrite(options, plan, batch_of_options(options), connect)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StageReceipt | RowRefused:
        """Stage the rows of one partition; called in a task."""
        return self._write.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all rows visible."""
        self._write.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop staged parts, unless they were committed."""
        self._write.abort(messages)


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """The writer for streams; Spark makes one for every micro-batch, and one for its commit."""

    def __init__(
        self, options: WriteOptions, plan: RowPlan, connect: Connect = connect_transactions_once
    ) -> None:
        self._write = ExactlyOnceWrite(options, plan, None, connect)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StageReceipt | RowRefused:
        """Stage the rows of one partition; called in a task."""
        return self._write.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name.
        """Make the micro-batch visible."""
        self._write.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's signature.
        """Drop the micro-batch's staged parts, unless they were committed."""
        self._write.abort(messages)


def _is_decided(step: Callable[[], None]) -> bool:
    """Take a step of staging; return whether the batch is committed already.

    That happens if an earlier run of the batch, or the task that this one replaces, was faster.
    """
    try:
        step()
    except sdk_errors.TransactionDecided:
        return True
    return False


def _differs(error: sdk_errors.BatchDiffers, batch: SinkBatch, contents: Contents) -> str:
    before = "too long ago to tell whether it is the same"
    if error.committed_count is not None:
        before = f"with other rows, {counted(error.committed_count, 'message')}"
    now = counted(contents.row_count, "message")
    return f"{batch}, now {now}, was committed before, {before}"


def _forgotten(batch: SinkBatch) -> str:
    """Advice where the home does not know what another broker knows to be committed."""
    return (
        f"{batch} is committed, and the broker that decides for it has forgotten that, as it may"
        " after a power loss; nothing was written. Have another broker decide, which asks all of"
        f" them: ariane sink move '{batch.sink.name}' BROKER. Then start the query again: it"
        " recognises the batch"
    )


def _ways_out(batch: SinkBatch) -> str:
    """Advice for a user whose repeated batch had other rows."""
    skip = "to leave what stands and lose what differs, set 'onChangedBatch' to 'skip'"
    if batch.is_single:
        return f"give this write another 'writeId', for the name belongs to the first one; {skip}"
    return (
        "nothing was written. Either this checkpoint is a copy of another query's, or was restored"
        " from an older state: start the query with a new checkpoint, at the offsets up to which"
        " the sink was written. Or the rows come out otherwise each time, as with rand() or a"
        f" source that has changed: make them repeatable. {skip[0].upper()}{skip[1:]}"
    )
