"""Turns rows of a Spark table into the tables that a producer sends, column by column.

No Python statement runs once per row; the id of each row is one call from C to C.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from ariane_record import IllegalName
from ariane_record.names import check_topic_name
from ariane_spark.errors import OptionIllegal, RowIllegal, SchemaIllegal

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from ariane_sdk.errors import ArianeError

MESSAGE_ID_PROPERTY: Final = "messageId"
"""The property by which a consumer can recognise a message that was written twice."""

DELIVERY_COLUMN: Final = "deliveryTimestamp"
"""Name of the column with the delivery time."""

_ID_BYTES: Final = 16
_ADVICE: Final = "leave such rows out, or mend them, before they are written"

_TYPES: Final[Mapping[str, tuple[DataType, ...]]] = {
    "body": (BinaryType(), StringType()),
    "topic": (StringType(),),
    "tag": (StringType(),),
    "keys": (
        ArrayType(StringType(), containsNull=True),
        ArrayType(StringType(), containsNull=False),
    ),
    "messageGroup": (StringType(),),
    "properties": (
        MapType(StringType(), StringType(), valueContainsNull=True),
        MapType(StringType(), StringType(), valueContainsNull=False),
    ),
    DELIVERY_COLUMN: (TimestampType(),),
}
"""The columns that may be written, with their types."""

WRITABLE_COLUMNS: Final = tuple(_TYPES)

_NAME_BY_KEY: Final = {name.lower(): name for name in _TYPES}


_digest = partial(blake2b, digest_size=_ID_BYTES)
_hex_digits = methodcaller("hexdigest")


class IdentitySeed:
    """Gives each row of one task an id, the same in a repeated task."""

    def __init__(self, text: str) -> None:
        self.text = text
        """The common part of the ids of this task: the write or query, the micro-batch, the
        partition."""

    def message_ids(self, first_row: int, bodies: pa.BinaryArray) -> pa.StringArray:
        """The ids of neighbouring rows: 32 hex digits each.

        The id depends on the body: if Spark divides the rows of a repeated task differently, two
        different messages must not have the same id, or a consumer would drop one of them.

        Args:
            first_row: Number of the first row within the task, from 0.
            bodies: Their bodies.
        """
        import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.
        import pyarrow.compute as pc  # noqa: PLC0415 - the same.

        from ariane_record.encoding.columns.arrow_texts import even_binaries  # noqa: PLC0415 - the same.

        rows = np.arange(first_row, first_row + len(bodies), dtype=">i8")
        seed = pa.scalar(self.text.encode(), bodies.type)
        nothing = pa.scalar(b"", bodies.type)
        numbers = even_binaries(rows, rows.itemsize).cast(bodies.type)
        texts = pc.binary_join_element_wise(seed, numbers, bodies, nothing)
        return pa.array(map(_hex_digits, map(_digest, texts.to_pylist())), pa.string())


class TopicRows(NamedTuple):
    """Rows for one topic, in the form of ``Producer.send_columns``."""

    topic: str
    """The topic."""
    table: pa.Table
    """The rows."""
    rows: np.ndarray[tuple[int], np.dtype[np.int64]]
    """Number of each within its task: int64."""


@dataclass(frozen=True)
class RowPlan:
    """The column of a table for each field of a message."""

    columns: Mapping[str, int]
    """The positions of columns by their usual names."""
    topic: str | None
    """The topic of all messages; ``None``: a column has it."""

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> RowPlan:
        """The plan for tables of one schema.

        Args:
            schema: The schema of the table to write.
            topic: The topic of the option.

        Raises:
            SchemaIllegal: There is no body, or a column that messages do not have.
            OptionIllegal: There is neither an option nor a column for the topic.
        """
        columns = {}
        for at, field in enumerate(schema.fields):
            name = _NAME_BY_KEY.get(field.name.lower())
            if name is None or name in columns:
                raise SchemaIllegal(
                    f"column {field.name!r} cannot be written; select from"
                    f" {', '.join(WRITABLE_COLUMNS)}"
                )
            if field.dataType not in _TYPES[name]:
                kinds = dict.fromkeys(kind.simpleString() for kind in _TYPES[name])
                wanted = " or ".join(list(kinds)[:2])
                raise SchemaIllegal(
                    f"column {field.name!r} is {field.dataType.simpleString()}, not {wanted}"
                )
            columns[name] = at
        if "body" not in columns:
            raise SchemaIllegal("there is no column 'body', which a message needs")
        if topic is None and "topic" not in columns:
            raise OptionIllegal("topic", "is missing, and there is no column of that name either")
        return cls(columns, topic)

    def tables(
        self, batch: pa.RecordBatch, seed: IdentitySeed, first_row: int
    ) -> Iterator[TopicRows]:
        """The rows of one batch, topic by topic, in their order.

        Args:
            batch: The rows.
            seed: Gives the ids.
            first_row: Number of the first row within the task.

        Raises:
            RowIllegal: A row without a body or topic, or with a topic that none can be called.
        """
        import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.
        import pyarrow.compute as pc  # noqa: PLC0415 - the same.

        if not len(batch):
            return
        columns = {name: batch.column(at) for name, at in self.columns.items()}
        topics = columns.pop("topic", None)
        _refuse(pc.is_null(columns["body"]), seed, first_row, "no body")
        columns["body"] = columns["body"].cast(_binary_of(columns["body"].type))
        columns["properties"] = _with_ids(
            columns.get("properties"),
            seed.message_ids(first_row, columns["body"]),
        )
        table = pa.table(columns)
        rows = np.arange(first_row, first_row + len(batch))
        if self.topic:
            yield TopicRows(self.topic, table, rows)
            return
        topics = topics.cast(pa.string())
        _refuse(pc.fill_null(pc.equal(topics, ""), fill_value=True), seed, first_row, "no topic")
        for topic in pc.unique(topics).to_pylist():
            chosen = np.flatnonzero(pc.equal(topics, topic).to_numpy(zero_copy_only=False))
            try:
                check_topic_name(topic, system=True)
            except IllegalName as error:
                row = rows[chosen[0]]
                raise RowIllegal(f"row {row} of {seed.text}: {error}; {_ADVICE}") from error
            yield TopicRows(topic, table.take(pa.array(chosen)), rows[chosen])


def _binary_of(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.

    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return pa.large_binary() if large else pa.binary()


def _refuse(wrong: Any, seed: IdentitySeed, first_row: int, lack: str) -> None:
    """Refuse the first wrong row, if there is one."""
    flags = wrong.to_numpy(zero_copy_only=False)
    if flags.any():
        row = first_row + int(np.argmax(flags))
        raise RowIllegal(f"row {row} of {seed.text} has {lack}; {_ADVICE}")


def row_refusal(
    error: ArianeError, rows: NDArray[np.int64], position: int | None, name: str
) -> RowIllegal:
    """The error of a row that cannot become a message.

    Args:
        error: The error of the SDK or of a broker.
        rows: The number of each row of a table within the task.
        position: The position of the row in that table; ``None``: the whole column is wrong.
        name: The name of the task.
    """
    if position is None:
        return RowIllegal(f"{name}: {error}; {_ADVICE}")
    # The row number of the error is that within the table, which the user does not know.
    text = str(error).replace(f", row {position}: ", ": ", 1)
    return RowIllegal(f"row {rows[position]} of {name}: {text}; {_ADVICE}")


def _with_ids(properties: Any, ids: pa.StringArray) -> pa.MapArray:
    """The properties of each row with its id, which replaces an existing id."""
    import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.
    import pyarrow.compute as pc  # noqa: PLC0415 - the same.

    count = len(ids)
    row_of_pair = np.empty(0, np.int64)
    names, values = pa.array([], pa.string()), pa.array([], pa.string())
    if properties is not None:
        # Without nulls offsets and pairs agree.
        some = properties.drop_null()
        offsets = some.offsets.to_numpy()
        first, pair_count = int(offsets[0]), int(offsets[-1] - offsets[0])
        names = some.keys.slice(first, pair_count).cast(pa.string())
        values = some.items.slice(first, pair_count).cast(pa.string())
        present = np.flatnonzero(pc.is_valid(properties).to_numpy(zero_copy_only=False))
        row_of_pair = np.repeat(present, np.diff(offsets))
        # A message has no properties without a value: readers see none in either case.
        valued = pc.fill_null(pc.greater(pc.binary_length(values), 0), fill_value=False)
        kept = pc.and_(valued, pc.not_equal(names, MESSAGE_ID_PROPERTY))
        row_of_pair = row_of_pair[kept.to_numpy(zero_copy_only=False)]
        names, values = names.filter(kept), values.filter(kept)
    # The id of a row is after its other pairs.
    order = np.argsort(np.concatenate((row_of_pair, np.arange(count))), kind="stable")
    bounds = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(row_of_pair, minlength=count) + 1, out=bounds[1:])
    all_names = pa.concat_arrays([names, pa.repeat(pa.scalar(MESSAGE_ID_PROPERTY), count)])
    all_values = pa.concat_arrays([values, ids])
    places = pa.array(order)
    return pa.MapArray.from_arrays(
        pa.array(bounds), all_names.take(places), all_values.take(places)
    )
