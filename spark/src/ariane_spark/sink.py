"""Writes a stream to topics, micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from ariane_spark.options import write_options


def foreach_batch_writer(
    endpoints: str, topic: str | None = None, **options: str
) -> Callable[[DataFrame, int], None]:
    """A function for ``writeStream.foreachBatch``.

    At least once: a micro-batch ends only when all its messages are acknowledged, and one that is
    repeated is written again, with the same ids in the property ``messageId`` as long as Spark
    deals its rows out the same way.

    Args:
        endpoints: Name servers, ``host:port``, separated by commas.
        topic: The topic of all rows; ``None``: the column ``topic`` says it.
        options: Further options of the format.

    Raises:
        OptionError: An option cannot be obeyed; said here, before the query starts.
    """
    given = {"endpoints": endpoints, **options}
    if topic is not None:
        given["topic"] = topic
    write_options(given)

    def write_batch(rows: DataFrame, batch_id: int) -> None:
        del batch_id  # The tasks ask Spark for it.
        rows.write.format("ariane").mode("append").options(**given).save()

    return write_batch
