"""Writes a stream to topics, micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from ariane_spark.errors import OptionIllegal
from ariane_spark.options import write_options


def foreach_batch_writer(
    endpoints: str,
    topic: str | None = None,
    *,
    delivery: str | None = None,
    **options: str | int,
) -> Callable[[DataFrame, int], None]:
    """A function for ``writeStream.foreachBatch``.

    At least once: a micro-batch ends only when all its messages are acknowledged, and one that is
    repeated is written again, with the same ids in the property ``messageId`` as long as Spark
    deals its rows out the same way. Exactly once: a micro-batch becomes visible as a whole, and
    once however often it is repeated.

    Args:
        endpoints: Name servers, ``host:port``, separated by commas.
        topic: The topic of all rows; ``None``: the column ``topic`` says it.
        delivery: ``at-least-once`` or ``exactly-once``: the option ``deliveryGuarantee``.
        options: Further options of the format.

    Raises:
        OptionError: An option cannot be obeyed; said here, before the query starts.
    """
    given = {"endpoints": endpoints} | {name: str(value) for name, value in options.items()}
    if topic is not None:
        given["topic"] = topic
    if delivery is not None:
        given["deliveryGuarantee"] = delivery
    if write_options(given).write_id is not None:
        raise OptionIllegal("writeId", "is for single writes; streams are told apart by 'sinkId'")

    def write_batch(rows: DataFrame, batch_id: int) -> None:
        del batch_id  # The tasks ask Spark for it.
        rows.write.format("ariane").mode("append").options(**given).save()

    return write_batch
