"""The columns of a topic, and the projection of a query.

Spark does not pass the columns that a query uses to a Python data source. It passes the schema with
which the user reads, so this schema is the projection: only its columns are built, and only the
data that they need is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ariane_spark.errors import SchemaIllegal
from ariane_spark.records.joined_records import QueueRecords, joined

if TYPE_CHECKING:
    import pyarrow as pa

    from ariane_sdk import MessageQueue

BODY: Final = "body"


class Detail(IntEnum):
    """The parts of each message to fetch; each level includes the earlier ones."""

    POSITIONS = 1
    """Headers alone."""
    PROPERTIES = 2
    """Headers and properties."""
    RECORDS = 3
    """Everything."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a topic."""

    field: StructField
    """Name, type and nullability."""
    detail: Detail
    """The level of detail to fetch for it."""
    by_default: bool = True
    """Whether a query without a list of columns gets it."""


def _column(
    name: str, data_type: DataType, detail: Detail, *, nullable: bool = False, extra: bool = False
) -> Column:
    return Column(StructField(name, data_type, nullable), detail, by_default=not extra)


COLUMNS: Final = (
    _column("topic", StringType(), Detail.POSITIONS),
    _column("brokerName", StringType(), Detail.POSITIONS, extra=True),
    _column("queueId", IntegerType(), Detail.POSITIONS),
    _column("queueOffset", LongType(), Detail.POSITIONS),
    _column("messageId", StringType(), Detail.PROPERTIES),
    _column("keys", ArrayType(StringType(), containsNull=False), Detail.PROPERTIES),
    _column("tag", StringType(), Detail.PROPERTIES, nullable=True),
    _column("messageGroup", StringType(), Detail.PROPERTIES, nullable=True),
    _column(
        "properties",
        MapType(StringType(), StringType(), valueContainsNull=False),
        Detail.PROPERTIES,
    ),
    _column("bornTimestamp", TimestampType(), Detail.POSITIONS),
    _column("storeTimestamp", TimestampType(), Detail.POSITIONS),
    _column("deliveryTimestamp", TimestampType(), Detail.PROPERTIES, nullable=True),
    _column("reconsumeTimes", IntegerType(), Detail.POSITIONS),
    # Null if it cannot be decompressed, and the options allow that.
    _column(BODY, BinaryType(), Detail.RECORDS, nullable=True),
)
"""All columns in their usual order, with the body last."""

_COLUMN_BY_KEY: Final = {column.field.name.lower(): column for column in COLUMNS}

_OF_THE_QUEUE: Final[dict[str, Callable[[MessageQueue], str]]] = {
    "topic": lambda queue: queue.topic,
    "brokerName": lambda queue: queue.broker_name,
}
"""Columns that are the same for all messages of a queue."""


def message_schema(names: Sequence[str] | None = None) -> StructType:
    """The schema of a topic, or of some of its columns.

    Args:
        names: The columns, in this order; the case does not matter. ``None``: all usual ones.

    Raises:
        SchemaIllegal: A column does not exist.
    """
    if names is None:
        return StructType([column.field for column in COLUMNS if column.by_default])
    return StructType([_find(name).field for name in names])


def header_schema() -> StructType:
    """The schema of a topic without the bodies, which are then not fetched at all."""
    headers = [c for c in COLUMNS if c.by_default and c.detail < Detail.RECORDS]
    return StructType([column.field for column in headers])


@dataclass(frozen=True)
class Projection:
    """The columns that a query reads, and their form."""

    schema: StructType
    """The user's schema; names in any case, columns in any order, nullable or not."""
    names: tuple[str, ...]
    """The columns by their usual names."""
    detail: Detail
    """The level of detail to fetch for them."""
    schema_json: str
    """The schema as Spark writes it."""

    @classmethod
    def of(cls, schema: StructType) -> Projection:
        """The projection of a schema.

        Raises:
            SchemaIllegal: A column does not exist, is there twice, or has another type.
        """
        columns = [_find(field.name) for field in schema.fields]
        for field, column in zip(schema.fields, columns, strict=True):
            if _plain(field.dataType) != _plain(column.field.dataType):
                raise SchemaIllegal(
                    f"column {field.name!r} is {column.field.dataType.simpleString()}, not"
                    f" {field.dataType.simpleString()}; read it as it is and cast it afterwards"
                )
            # A body that must not be null causes an error if it cannot be read.
            if column.field.nullable and not field.nullable and column.field.name != BODY:
                raise SchemaIllegal(f"column {field.name!r} may be null")
        names = tuple(column.field.name for column in columns)
        if not names or len(set(names)) < len(names):
            raise SchemaIllegal(f"a schema needs columns, each once; found {list(names)}")
        return cls(schema, names, max(column.detail for column in columns), schema.json())

    @property
    def reads_bodies(self) -> bool:
        """Whether bodies are among the columns."""
        return BODY in self.names

    @property
    def body_may_be_null(self) -> bool:
        """Whether the user's schema lets bodies be null."""
        return self.reads_bodies and self.schema.fields[self.names.index(BODY)].nullable

    @property
    def arrow_schema(self) -> pa.Schema:
        """The exact schema that Spark expects of each batch."""
        return _arrow_schema_of(self.schema_json)

    def batch(
        self, parts: Sequence[QueueRecords], *, without_bodies: bool = False
    ) -> pa.RecordBatch:
        """Messages as Spark expects them; no statement runs once per message.

        Args:
            parts: The messages, by queue; at least one part.
            without_bodies: Whether bodies are null even if the records have them.

        Raises:
            RecordCorrupted: The bytes are not a record, or a body cannot be decompressed.
        """
        import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

        from ariane_record.decoding.arrow import to_arrow  # noqa: PLC0415 - the same.

        schema = self.arrow_schema
        records = joined([part.records for part in parts])
        left_out = {*_OF_THE_QUEUE, BODY} if without_bodies else {*_OF_THE_QUEUE}
        built = to_arrow(records, [name for name in self.names if name not in left_out])
        arrays: list[Any] = []
        for name, field in zip(self.names, schema, strict=True):
            if name == BODY and without_bodies:
                arrays.append(pa.nulls(len(records), field.type))
            elif name in _OF_THE_QUEUE:
                value = _OF_THE_QUEUE[name]
                runs = [_repeated(value(part.queue), len(part.records)) for part in parts]
                arrays.append(runs[0] if len(runs) == 1 else pa.concat_arrays(runs))
            else:
                # The types differ at most in the names and nullability of their children.
                arrays.append(built.column(name).view(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


@lru_cache(maxsize=100)
def _arrow_schema_of(schema_json: str) -> pa.Schema:
    """The form of a schema for Arrow: each task has a projection of its own, with the same one."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - tasks only.

    schema = StructType.fromJson(json.loads(schema_json))
    if "timezone" not in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema)  # Spark 4.1: always UTC.
    return to_arrow_schema(schema, timezone="UTC")


def _repeated(text: str, count: int) -> pa.StringArray:
    """An array of the same text; Arrow would import pandas to look at one of Python's."""
    import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

    from ariane_record.encoding.columns.arrow_texts import even_binaries  # noqa: PLC0415 - the same.

    octets = np.frombuffer(text.encode(), np.uint8)
    return pa.repeat(even_binaries(octets, len(octets), pa.string())[0], count)


def _find(name: str) -> Column:
    column = _COLUMN_BY_KEY.get(name.lower())
    if column is None:
        known = ", ".join(column.field.name for column in COLUMNS)
        raise SchemaIllegal(f"a topic has no column {name!r}; its columns are {known}")
    return column


def _plain(data_type: DataType) -> DataType:
    """The type with all its parts nullable."""
    match data_type:
        case ArrayType():
            return ArrayType(_plain(data_type.elementType), containsNull=True)
        case MapType():
            key, value = _plain(data_type.keyType), _plain(data_type.valueType)
            return MapType(key, value, valueContainsNull=True)
        case _:
            return data_type
