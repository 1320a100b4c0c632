"""ArianeMQ as a table and a stream in Spark.

Nothing here needs to be imported to read or write: Spark finds ``format("ariane")`` by itself.
"""

from ariane_spark.errors import (
    ArianeSparkError,
    CommitRefused,
    DataLost,
    FeatureNotAvailable,
    NothingAtTime,
    OptionError,
    OptionIllegal,
    QueueNotFound,
    RowIllegal,
    SchemaIllegal,
    UnknownOption,
)
from ariane_spark.progress.progress_listener import ProgressListener, watched
from ariane_spark.records.columns import header_schema, message_schema
from ariane_spark.sink.foreach_batch import foreach_batch_writer
from ariane_spark.spark_session import activate, session

__all__ = [
    "ArianeSparkError",
    "CommitRefused",
    "DataLost",
    "FeatureNotAvailable",
    "NothingAtTime",
    "OptionError",
    "OptionIllegal",
    "ProgressListener",
    "QueueNotFound",
    "RowIllegal",
    "SchemaIllegal",
    "UnknownOption",
    "activate",
    "foreach_batch_writer",
    "header_schema",
    "message_schema",
    "session",
    "watched",
]
