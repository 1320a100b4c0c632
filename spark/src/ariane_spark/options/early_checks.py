"""Checks before Spark runs anything: options at ``load()``, and versions of Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ariane_spark.errors import ArianeSparkError, OptionError, OptionIllegal, SparkTooOld
from ariane_spark.options.given_options import check_known
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
from ariane_spark.options.write_options import without_those_of_spark, write_options

SPARK_VERSION_MIN: Final = (4, 0)


PROVIDER: Final = "provider"
"""A property of a table, which Spark passes on as an option if it has to ask for the columns."""

_OF_TABLES: Final = (
    "Spark keeps no options of a table for a format in Python: name its columns, as in CREATE TABLE"
    " orders (body BINARY) USING ariane, and say in each statement: orders WITH (endpoints ="
    " 'host:port', topic = 'orders')"
)


class RefusedStreamReader(DataSourceStreamReader):
    """Raises the same error in all methods that Spark may call first.

    Spark hides an error in making a reader: it then tries to stop the missing reader.
    """

    def __init__(self, error: ArianeSparkError) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:  # noqa: N802 - Spark's name.
        """Refuse."""
        raise self._error

    def latestOffset(self) -> NoReturn:  # type: ignore[override, unused-ignore]  # noqa: N802 - as Spark has had it at first.
        """Refuse."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:  # noqa: ARG002 - Spark's signature.
        """Refuse."""
        raise self._error

    def read(self, partition: InputPartition) -> NoReturn:  # noqa: ARG002 - the same.
        """Refuse."""
        raise self._error


def check_spark(version: str = pyspark.__version__) -> None:
    """Check that Spark has the functions that reading and writing need.

    Args:
        version: The version of Spark, such as ``4.1.3``.

    Raises:
        SparkTooOld: It lacks them.
    """
    numbers = tuple(map(int, re.findall(r"[0-9]+", version)[:2]))
    if numbers < SPARK_VERSION_MIN:
        least = ".".join(map(str, SPARK_VERSION_MIN))
        raise SparkTooOld(
            f"this is Spark {version}, and ariane-spark needs {least} or later: earlier versions"
            " know no sources in Python"
        )


def check_given(given: Mapping[str, str]) -> None:
    """Check that the options are valid for at least one use.

    Raises:
        OptionError: They are valid for none; the error of the likeliest use.
    """
    some = without_those_of_spark(given)
    if PROVIDER in {name.lower() for name in some}:
        raise OptionIllegal(
            PROVIDER, f"comes from CREATE TABLE without columns; {_OF_TABLES}, or use a view"
        )
    if not some:
        raise OptionIllegal("endpoints", f"is missing, as is any other option; {_OF_TABLES}")
    check_known(some)
    refusals = [*_read_refusals(some), _refusal(lambda: write_options(some))]
    _raise_unless_one_is_good(refusals)


def check_read(given: Mapping[str, str]) -> None:
    """Check the options for reading once or for streaming; Spark does not tell the use.

    Raises:
        OptionError: They are valid for neither; the error of the likelier use.
    """
    _raise_unless_one_is_good(_read_refusals(given))


def _read_refusals(given: Mapping[str, str]) -> list[OptionError | None]:
    uses = (Use.BATCH_READ, Use.STREAM_READ)
    return [_refusal(lambda use=use: read_options(given, use)) for use in uses]


def _refusal(check: Any) -> OptionError | None:
    try:
        check()
    except OptionError as error:
        return error
    return None


def _raise_unless_one_is_good(refusals: list[OptionError | None]) -> None:
    errors = [error for error in refusals if error is not None]
    if len(errors) == len(refusals):
        # "For another use" is no help where that use is refused as well.
        # The traceback is of no use to the reader of the error.
        raise min(errors, key=lambda error: error.is_of_other_use).with_traceback(None)
