"""The data source that Spark finds by itself.

Every Spark job of a machine imports this module, even if it does not use queues. So the module
imports only Spark, and everything else when the format is used.
"""
# ruff: noqa: PLC0415 - see above.

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Topics of ArianeMQ: ``spark.read.format("ariane")`` and its siblings."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Refuse options that no query can have, as soon as Spark passes them.

        Raises:
            OptionError: An option is illegal.
            SparkTooOld: This version of Spark lacks a needed function.
        """
        from ariane_spark.options.early_checks import check_given, check_spark

        super().__init__(options)
        check_spark()
        check_given(options)

    @classmethod
    def name(cls) -> str:
        """The name of the format for users."""
        return "ariane"

    def schema(self) -> StructType:
        """The columns of a topic, if the user gives no schema."""
        from ariane_spark.calls.spared_modules import spare_modules
        from ariane_spark.options.early_checks import check_read
        from ariane_spark.options.options import column_names
        from ariane_spark.records.columns import message_schema

        spare_modules()
        # Spark calls this in `load()`, and makes the readers only when it runs them.
        check_read(self.options)
        return message_schema(column_names(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader for a single read."""
        from ariane_spark.options.option_table import Use
        from ariane_spark.options.options import check_columns, read_options
        from ariane_spark.records.columns import Projection
        from ariane_spark.source.batch_reader import ArianeBatchReader

        options = read_options(self.options, Use.BATCH_READ)
        check_columns(self.options, schema.fieldNames())
        self._forget_secrets()
        return ArianeBatchReader(options, Projection.of(schema))

    def _forget_secrets(self) -> None:
        """Forget what Spark would send to tasks: what reads in them is bound to this object."""
        from ariane_spark.options.access_options import without_secrets

        self.options = without_secrets(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name.
        """The reader for a stream."""
        from ariane_spark.errors import ArianeSparkError
        from ariane_spark.options.early_checks import RefusedStreamReader
        from ariane_spark.options.option_table import Use
        from ariane_spark.options.options import check_columns, read_options
        from ariane_spark.records.columns import Projection
        from ariane_spark.source.read_limits import PASSES_LIMITS
        from ariane_spark.source.stream_reader import ArianeStreamReader

        try:
            options = read_options(self.options, Use.STREAM_READ)
            check_columns(self.options, schema.fieldNames())
            self._forget_secrets()
            reader = ArianeStreamReader(options, Projection.of(schema))
        except ArianeSparkError as error:
            # Spark would hide it behind an error of its own.
            return RefusedStreamReader(error)
        if PASSES_LIMITS:
            return reader
        from ariane_spark.source.unlimited_reader import UnlimitedStreamReader

        return UnlimitedStreamReader(reader)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer for a table, which appends its rows to topics."""
        from ariane_spark.calls.connection import check_target
        from ariane_spark.sink.batch_writer import batch_writer

        writer = batch_writer(self.options, schema, overwrite=overwrite)
        check_target(self.options)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name.
        """The writer for a stream, which appends its rows to topics."""
        from ariane_spark.calls.connection import check_target
        from ariane_spark.sink.batch_writer import stream_writer

        writer = stream_writer(self.options, schema, overwrite=overwrite)
        check_target(self.options)
        return writer
