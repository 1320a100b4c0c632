"""The public errors of transactions, and of batches, which are transactions of many records."""

from __future__ import annotations

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_record.counted import counted
from ariane_servicekit.errors import ServiceError, refusal


@refusal(ErrorReason.ERROR_REASON_TRANSACTION_NOT_FOUND)
def transaction_not_found(transaction_id: str) -> str:
    """No half message with this id is known."""
    return f"no half message of transaction {transaction_id!r} is known here"


@refusal(ErrorReason.ERROR_REASON_TRANSACTION_DECIDED)
def transaction_decided(transaction_id: str, outcome: str) -> str:
    """The transaction has an outcome already."""
    return f"transaction {transaction_id!r} was decided before: {outcome}"


def is_transaction_decided(error: BaseException) -> bool:
    """Whether an error says that a transaction has an outcome already."""
    decided = ErrorReason.ERROR_REASON_TRANSACTION_DECIDED
    return isinstance(error, ServiceError) and error.reason == decided


@refusal(ErrorReason.ERROR_REASON_TRANSACTION_FOREIGN, without=("value",))
def transaction_foreign(transaction_id: str, field: str, value: str) -> str:
    """The half message has another producer group, topic or unique id than in the request."""
    return f"the half message of transaction {transaction_id!r} has another {field} than {value!r}"


@refusal(ErrorReason.ERROR_REASON_BATCH_DIFFERS)
def batch_differs(
    query_id: str, batch_id: int, record_count: int, committed_count: int | None
) -> str:
    """A repeated batch is not known to be the same as the committed one.

    Args:
        query_id: The id of the query.
        batch_id: The id of the batch within it.
        record_count: The number of records of the repeated batch.
        committed_count: The number of records of the committed batch; None if unknown.
    """
    before = (
        "too long ago to tell whether it is the same"
        if committed_count is None
        else f"with other contents, {counted(committed_count, 'record')}"
    )
    return (
        f"batch {batch_id} of query {query_id!r}, now {counted(record_count, 'record')}, was"
        f" committed before {before}"
    )


@refusal(ErrorReason.ERROR_REASON_SINK_MOVED)
def sink_moved(query_id: str, home: str, move_count: int) -> str:
    """Another broker is the home of the query."""
    return f"broker {home} decides about the batches of query {query_id!r}, and not this one"


@refusal(ErrorReason.ERROR_REASON_PEER_UNREACHABLE, without=("cause",))
def peer_silent(broker_name: str, cause: str) -> str:
    """Another broker of the query does not answer."""
    return f"broker {broker_name} does not answer: {cause}"


@refusal(ErrorReason.ERROR_REASON_PEER_UNREACHABLE)
def batch_undecided(query_id: str, batch_id: int) -> str:
    """A batch is prepared, and its home does not say what became of it."""
    return f"batch {batch_id} of query {query_id!r} is prepared, and its home has not decided it"


@refusal(ErrorReason.ERROR_REASON_SINK_NOT_FOUND)
def sink_not_found(query_id: str) -> str:
    """The query is unknown."""
    return f"nothing is known of query {query_id!r} here"


def is_sink_not_found(error: BaseException) -> bool:
    """Whether an error says that a query is unknown."""
    unknown = ErrorReason.ERROR_REASON_SINK_NOT_FOUND
    return isinstance(error, ServiceError) and error.reason == unknown


@refusal(ErrorReason.ERROR_REASON_DEADLINE_PASSED, without=("wait_seconds",))
def producer_silent(client_id: str, wait_seconds: float) -> str:
    """The producer is alive, but did not answer with the outcome of its transaction."""
    return f"producer {client_id!r} did not say within {wait_seconds:g} s how the transaction ended"


@refusal(ErrorReason.ERROR_REASON_SERVICE_BUSY)
def stages_exhausted(limit: int) -> str:
    """Too many staged parts of batches, of all queries or of a user's, wait for their commits."""
    return f"{limit} staged parts of batches wait for their commits; no more are taken"


@refusal(ErrorReason.ERROR_REASON_SERVICE_BUSY, without=("topic",))
def half_messages_exhausted(limit: int, topic: str = "") -> str:
    """Too many half messages wait for an outcome, in all or of one topic."""
    those = f"half messages of topic {topic!r}" if topic else "half messages"
    return f"{limit} {those} wait for an outcome; no more are taken"
