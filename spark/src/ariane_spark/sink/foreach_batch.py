"""Writes a stream to topics, micro-batch by micro-batch."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from pyspark.sql import DataFrame

from ariane_spark.calls.sink_batches import BATCH_ID_PROPERTY, QUERY_ID_PROPERTY, place_of
from ariane_spark.errors import OptionIllegal
from ariane_spark.options.write_options import check_query, write_options
from ariane_spark.spark_session import activate

RUN_ID_PROPERTY: Final = "spark.jobGroup.id"
"""The property with the run of the query, which Spark's engine sets in the driver."""

_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_latest: Final[dict[tuple[str, str, str], int]] = {}
"""The latest micro-batch that each run of a query wrote to each place; a run never repeats one."""

_lock: Final = Lock()


def foreach_batch_writer(
    endpoints: str,
    topic: str | None = None,
    *,
    delivery: str | None = None,
    query: str | None = None,
    **options: str | int,
) -> Callable[[DataFrame, int], None]:
    """A function for ``writeStream.foreachBatch``.

    At least once: a micro-batch ends only when all its messages are acknowledged. A repeated one
    is written again, with the same ids in the property ``messageId`` if Spark divides its rows in
    the same way. Exactly once: a micro-batch becomes visible as a whole, and
    once however often it is repeated.

    Args:
        endpoints: Name servers, ``host:port``, separated by commas.
        topic: The topic of all rows; ``None``: the column ``topic`` has it.
        delivery: The option ``deliveryGuarantee``: ``at-least-once`` or ``exactly-once``.
        query: The permanent name of the query, which no other query may have; ``None``: the id in
            its checkpoint. Spark tells that id to the thread that it calls, so the name is needed
            exactly once where another thread calls this function, and with Spark Connect.
        options: Further options of the format.

    Returns:
        The function. With ``exactly-once`` it raises ``OptionIllegal`` if it does not know the
        query, or if one run of a query writes a micro-batch twice under one name: the first write
        would count for both.

    Raises:
        OptionError: An option is illegal; raised here, before the query starts.
    """
    given = {"endpoints": endpoints} | {name: str(value) for name, value in options.items()}
    if topic is not None:
        given["topic"] = topic
    if delivery is not None:
        given["deliveryGuarantee"] = delivery
    wanted = write_options(given)
    if wanted.write_id is not None:
        raise OptionIllegal("writeId", "is for single writes; streams are told apart by 'sinkId'")
    if query is not None:
        check_query(query)
    place = place_of(wanted)

    def write_batch(rows: DataFrame, batch_id: int) -> None:
        name = query or _query_of(rows, batch_id)
        if name is None and wanted.exactly_once:
            raise OptionIllegal(
                "query",
                "is required: exactly once, the query of a micro-batch must be known, and Spark"
                " does not tell it to threads that a function for foreachBatch starts, nor with"
                " Spark Connect; give the query a permanent name:"
                " foreach_batch_writer(..., query='...')",
            )
        activate(rows.sparkSession)
        batch = {} if name is None else {"query": name, "batchId": str(batch_id)}
        writer = rows.write.format("ariane").mode("append").options(**given, **batch)
        if name is None or not wanted.exactly_once:
            writer.save()
            return
        with _claimed(_run_of(rows), name, place, batch_id):
            writer.save()

    return write_batch


@contextmanager
def _claimed(run_id: str | None, query: str, place: str, batch_id: int) -> Generator[None]:
    """Refuse another write of a micro-batch to one place in one run; none if the run is unknown."""
    if run_id is None:
        yield
        return
    key = (run_id, query, place)
    with _lock:
        before = _latest.get(key)
        if before == batch_id:
            raise OptionIllegal(
                "sinkId",
                f"two writes of micro-batch {batch_id} to {place or 'topics of a column'} look"
                " like one and its repetition; give the second one a 'sinkId' of its own",
            )
        _latest[key] = batch_id
    try:
        yield
    except BaseException:
        with _lock:
            _latest.pop(key, None)
        raise


def _query_of(rows: DataFrame, batch_id: int) -> str | None:
    """The id in the checkpoint of the running query; ``None`` if this thread is not told."""
    context = getattr(rows.sparkSession, "sparkContext", None)  # A remote session has none.
    if context is None or context.getLocalProperty(BATCH_ID_PROPERTY) != str(batch_id):
        return None
    query_id = context.getLocalProperty(QUERY_ID_PROPERTY)
    return query_id if query_id and _UUID.fullmatch(query_id) else None


def _run_of(rows: DataFrame) -> str | None:
    """The run of the query that made the rows; ``None`` if unknown."""
    context = getattr(rows.sparkSession, "sparkContext", None)
    if context is None:
        return ""  # With Spark Connect, each run has a process of its own.
    run_id = context.getLocalProperty(RUN_ID_PROPERTY)
    # Applications may set it too; the engine's own value is a UUID.
    return run_id if run_id and _UUID.fullmatch(run_id) else None
