"""Names of batches: their rules, and the stages that a commit names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ariane_broker.errors.transactions import transaction_not_found
from ariane_broker.spark_batches.records.batch_records import (
    AttemptKey,
    BatchKey,
    NamedAttempt,
    Stage,
    checksum_of,
)
from ariane_broker.spark_batches.records.batch_table import BatchTable
from ariane_record.control_characters import holds_control_character
from ariane_servicekit.errors import field_invalid

QUERY_ID_LENGTH_MAX: Final = 255
TOKEN_LENGTH_MAX: Final = 255
ATTEMPTS_MAX: Final = 100_000


def check_query_id(query_id: str) -> None:
    """Refuse an illegal name of a query.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if not 1 <= len(query_id) <= QUERY_ID_LENGTH_MAX:
        raise field_invalid("query_id", f"must have 1 to {QUERY_ID_LENGTH_MAX} characters")
    if holds_control_character(query_id):
        raise field_invalid("query_id", "must hold no control character")


def check_batch(batch: BatchKey) -> None:
    """Refuse an illegal name of a batch.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    check_query_id(batch.query_id)
    if batch.batch_id < 0:
        raise field_invalid("batch_id", "must be 0 or more", batch.batch_id)


def check_attempt(attempt: AttemptKey) -> None:
    """Refuse an illegal name of an attempt.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if attempt.partition_id < 0:
        raise field_invalid("partition_id", "must be 0 or more", attempt.partition_id)
    if not 1 <= len(attempt.token) <= TOKEN_LENGTH_MAX:
        raise field_invalid("attempt_token", f"must have 1 to {TOKEN_LENGTH_MAX} characters")


def check_attempts(attempts: Sequence[NamedAttempt]) -> None:
    """Refuse too many attempts, or two of one partition at one broker.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if len(attempts) > ATTEMPTS_MAX:
        raise field_invalid("attempts", f"must be at most {ATTEMPTS_MAX}", len(attempts))
    if len({(each.partition_id, each.broker_name) for each in attempts}) < len(attempts):
        raise field_invalid("attempts", "must name one for each partition and broker")


def name_of(batch: BatchKey) -> str:
    """A batch, for people."""
    return f"batch {batch.batch_id} of query {batch.query_id}"


def named_stages(
    table: BatchTable, batch: BatchKey, attempts: Sequence[NamedAttempt]
) -> list[Stage]:
    """The stages of the named attempts, in the order of partitions.

    Raises:
        ServiceError: TRANSACTION_NOT_FOUND.
    """
    named: list[Stage] = []
    for attempt in sorted(attempts):
        stages = table.stages_of(batch, AttemptKey(attempt.partition_id, attempt.token))
        count = sum(stage.record_count for stage in stages)
        checksum = checksum_of(stages) if stages else 0
        if (count, checksum) != (attempt.record_count, attempt.checksum):
            raise transaction_not_found(
                f"{name_of(batch)}, partition {attempt.partition_id}, attempt {attempt.token}"
            )
        named += stages
    return named
