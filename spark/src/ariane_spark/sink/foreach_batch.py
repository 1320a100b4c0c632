"""Writes a stream to topics, micro-batch by micro-batch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame

from ariane_spark.calls.sink_batches import place_of
from ariane_spark.errors import OptionIllegal
from ariane_spark.options.options import write_options

RUN_ID_PROPERTY: Final = "spark.jobGroup.id"
"""The property with the run of the query, which Spark's engine sets in the driver."""

_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_latest: Final[dict[tuple[str, str], int]] = {}
"""The latest micro-batch that each run of a query wrote to each place; a run never repeats one."""


def foreach_batch_writer(
    endpoints: str,
    topic: str | None = None,
    *,
    delivery: str | None = None,
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
        options: Further options of the format.

    Returns:
        The function. With ``exactly-once`` it raises ``OptionIllegal`` if one run of a query writes
        a micro-batch twice under one name: the first write would count for both.

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

    def write_batch(rows: DataFrame, batch_id: int) -> None:
        run_id = _run_of(rows) if wanted.exactly_once else None
        written = (run_id or "", place_of(wanted))
        if run_id is not None and _latest.get(written) == batch_id:
            raise OptionIllegal(
                "sinkId",
                f"two writes of micro-batch {batch_id} to {written[1] or 'topics of a column'} look"
                " like one and its repetition; give the second one a 'sinkId' of its own",
            )
        # The tasks get the micro-batch from Spark.
        rows.write.format("ariane").mode("append").options(**given).save()
        if run_id is not None:
            _latest[written] = batch_id

    return write_batch


def _run_of(rows: DataFrame) -> str | None:
    """The run of the query that made the rows; ``None`` if unknown."""
    context = getattr(rows.sparkSession, "sparkContext", None)  # A remote session has none.
    run_id = context.getLocalProperty(RUN_ID_PROPERTY) if context else None
    # Applications may set it too; the engine's own value is a UUID.
    return run_id if run_id and _UUID.fullmatch(run_id) else None
