r"""The records of a batch transaction: stages, commits, and the end of publication.

On each broker with a part of the batch::

    RMQ_SYS_ARIANE_STAGE_TOPIC   |stage|stage|stage|   one for each call, as `stage_format` draws it
    RMQ_SYS_ARIANE_BATCH_TOPIC                 |commit|                       |done|
    the topics of the records                          |message|message|...
    rmq_sys_wheel_timer                                        |parked|parked|...

The commit record is the decision: it names the stages that count, and is written before any
message. A message names its stage, in the field that names the half message elsewhere, so that the
log shows the progress of publication. So does a record that is parked because its delivery time is
later than the commit.

One broker, the home of the query, decides. The others write ``prepare`` before its commit record,
and their own commit record when they hear of it, or ``release`` when it never came. The home writes
``notified`` when others have that record, and ``undo`` when another home has decided otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np

from ariane_broker.spark_batches.records.stage_format import StagedBlock, encode_stage
from ariane_broker.topics.system_topics import BATCH_TOPIC, STAGE_TOPIC
from ariane_record import PropertyName, RecordFields, RecordTable
from ariane_record.checksums.checksum import crc32
from ariane_storage.log.records.fields import FIELD_STARTS, FieldColumn, Int64s

STAGE_PROPERTY: Final = "ARIANE_STAGE"
_HALF_OFFSET: Final = FIELD_STARTS["half_offset"]


class BatchKey(NamedTuple):
    """The name of a batch."""

    query_id: str
    batch_id: int


class AttemptKey(NamedTuple):
    """The name of one task's attempt at its part of a batch."""

    partition_id: int
    token: str


class Stage(NamedTuple):
    """The records that one call has staged."""

    commit_log_offset: int
    """Offset of the stage's record."""
    record_count: int
    """Number of its records."""
    records_crc32: int
    """CRC-32 of them."""
    store_timestamp_ms: int
    """When it was stored."""
    byte_count: int
    """Bytes of the records."""


class StageRequest(NamedTuple):
    """A request to stage records."""

    batch: BatchKey
    """The batch."""
    attempt: AttemptKey
    """The attempt."""
    staged: StagedBlock
    """The records."""
    count_before: int | None = None
    """Number that the attempt had staged before; None: every request is staged."""


class NamedAttempt(NamedTuple):
    """An attempt that a commit names."""

    partition_id: int
    token: str
    record_count: int
    checksum: int
    broker_name: str = ""
    """The broker that has it; empty for the one that is asked."""


class Contents(NamedTuple):
    """A fingerprint that shows whether a repeated batch is the same."""

    record_count: int
    """Number of its records."""
    content_sum: int
    """A sum over them, independent of order and partitions; unsigned, 64 bits."""
    decision_id: int = 0
    """Names the decision of the home that committed it; 0 if unknown."""

    def has_rows_of(self, other: Contents) -> bool:
        """Whether both are the same rows, by whatever decision."""
        return self[:2] == other[:2]


class BatchEvent(StrEnum):
    """The kind of a record of the batch topic."""

    COMMIT = "commit"
    ABORT = "abort"
    DONE = "done"
    PROGRESS = "progress"
    HOME = "home"
    FORGET = "forget"
    PREPARE = "prepare"
    RELEASE = "release"
    NOTIFIED = "notified"
    UNDO = "undo"


def stage_record(request: StageRequest, now_ms: int) -> RecordFields:
    """The record of a stage: the batch and attempt as properties, the block as the body."""
    block = request.staged.block
    says = [*request.batch, *request.attempt, block.count, block.crc32, len(block.records)]
    return RecordFields(
        topic=STAGE_TOPIC,
        body=encode_stage(request.staged),
        properties={STAGE_PROPERTY: json.dumps(says, separators=(",", ":"))},
        born_timestamp_ms=now_ms,
    )


def stage_of(fields: RecordFields) -> tuple[BatchKey, AttemptKey, Stage]:
    """The batch, attempt and stage of a record of the stage topic."""
    query_id, batch_id, partition_id, token, count, crc, byte_count = json.loads(
        fields.properties[STAGE_PROPERTY]
    )
    stage = Stage(fields.commit_log_offset, count, crc, fields.store_timestamp_ms, byte_count)
    return BatchKey(query_id, batch_id), AttemptKey(partition_id, token), stage


def batch_record(event: BatchEvent, batch: BatchKey, now_ms: int, **says: Any) -> RecordFields:
    """A record of the batch topic."""
    body = json.dumps(
        {"event": event.value, "query": batch.query_id, "batch": batch.batch_id, **says},
        separators=(",", ":"),
    )
    return RecordFields(
        topic=BATCH_TOPIC,
        body=body.encode(),
        properties={PropertyName.KEYS: str(crc32(batch.query_id.encode()))},
        born_timestamp_ms=now_ms,
    )


def contents_rows(contents: Mapping[int, Contents]) -> list[list[int]]:
    """The contents of batches as JSON: ``[[batch id, count, sum, decision id], ...]``."""
    return [[batch_id, *each] for batch_id, each in contents.items()]


def contents_from(rows: Iterable[Sequence[int]]) -> dict[int, Contents]:
    """Restore the contents of batches from JSON."""
    return {batch_id: Contents(*each) for batch_id, *each in rows}


def batch_event_of(fields: RecordFields) -> tuple[BatchEvent, BatchKey, Mapping[str, Any]]:
    """The event, batch and fields of a record of the batch topic."""
    says = json.loads(fields.body)
    return BatchEvent(says["event"]), BatchKey(says["query"], says["batch"]), says


def checksum_of(stages: Sequence[Stage]) -> int:
    """The checksum of an attempt: of the CRC-32s of its blocks, in order."""
    return crc32(np.array([stage.records_crc32 for stage in stages], "<u4").tobytes())


def name_of_stage(commit_log_offset: int) -> int:
    """The number by which messages name their stage: never 0, which means none."""
    return commit_log_offset + 1


def named_rows(block: RecordTable, rows: Int64s, stage_offset: int) -> RecordTable:
    """Some records of a stage, as messages.

    Args:
        block: All records of the stage.
        rows: The rows to take, ascending.
        stage_offset: Commit-log offset of the stage, which the messages name.
    """
    ends = np.cumsum(block.sizes, dtype=np.int64)
    starts = ends - block.sizes
    view = memoryview(block.records)
    pieces = map(slice, starts[rows].tolist(), ends[rows].tolist())
    records = bytearray(b"".join(map(view.__getitem__, pieces)))
    sizes = block.sizes[rows]
    places = np.cumsum(sizes, dtype=np.int64) - sizes + _HALF_OFFSET
    FieldColumn(records, ">i8", places, 0).set(name_of_stage(stage_offset))
    key_rows = np.repeat(np.arange(block.count), block.key_counts)
    return RecordTable.of(
        block.topic,
        bytes(records),
        sizes=sizes,
        tag_codes=block.tag_codes[rows],
        key_counts=block.key_counts[rows],
        key_hashes=block.key_hashes[np.isin(key_rows, rows)],
        crc32=crc32(records),
        forwarded=True,
    )
