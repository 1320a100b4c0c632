"""Rows of a table as messages.

This is the one place where a Python statement runs for each message that is written. A sender that
takes columns as they are will take its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructType,
)

from ariane_sdk import Message
from ariane_spark.errors import FeatureNotAvailable, OptionIllegal, RowIllegal, SchemaIllegal

if TYPE_CHECKING:
    import pyarrow as pa

MESSAGE_ID_PROPERTY: Final = "messageId"
"""Names the property by which a consumer can tell a message that was written twice."""

_ID_BYTES: Final = 16

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
}
"""What may be written, and as what."""

WRITABLE_COLUMNS: Final = tuple(_TYPES)

_NAME_BY_KEY: Final = {name.lower(): name for name in _TYPES}


class IdentitySeed:
    """Gives each row of one task an id that a repeated task gives again.

    Attributes:
        text: What the ids of this task have in common: the write or query, the micro-batch, the
            partition.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._seed = blake2b(text.encode(), digest_size=_ID_BYTES)

    def message_id(self, row: int, body: bytes) -> str:
        """The id of a row: 32 hex digits.

        The body goes into it: where Spark deals the rows of a repeated task out differently, two
        different messages must not bear one id, or a consumer would drop one of them.

        Args:
            row: Its number within the task, from 0.
            body: Its body.
        """
        digest = self._seed.copy()
        digest.update(row.to_bytes(8))
        digest.update(body)
        return digest.hexdigest()


@dataclass(frozen=True)
class RowPlan:
    """Which column of a table becomes what of a message.

    Attributes:
        columns: Positions of columns by their names here.
        topic: The topic of all messages; ``None``: the column says it.
    """

    columns: Mapping[str, int]
    topic: str | None

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> RowPlan:
        """The plan for tables of one schema.

        Args:
            schema: Of the table to be written.
            topic: From the option.

        Raises:
            SchemaIllegal: There is no body, or a column that messages do not have.
            OptionIllegal: Nothing says which topic.
            FeatureNotAvailable: Delivery times are not available yet.
        """
        columns = {}
        for at, field in enumerate(schema.fields):
            name = _NAME_BY_KEY.get(field.name.lower())
            if field.name.lower() == "deliverytimestamp":
                raise FeatureNotAvailable(field.name, "delayed messages are not available yet")
            if name is None or name in columns:
                raise SchemaIllegal(
                    f"column {field.name!r} cannot be written; select from"
                    f" {', '.join(WRITABLE_COLUMNS)}"
                )
            if field.dataType not in _TYPES[name]:
                wanted = " or ".join(kind.simpleString() for kind in _TYPES[name][:2])
                raise SchemaIllegal(
                    f"column {field.name!r} is {field.dataType.simpleString()}, not {wanted}"
                )
            columns[name] = at
        if "body" not in columns:
            raise SchemaIllegal("there is no column 'body', which a message needs")
        if topic is None and "topic" not in columns:
            raise OptionIllegal("topic", "is missing, and there is no column of that name either")
        return cls(columns, topic)

    def messages(
        self, batch: pa.RecordBatch, seed: IdentitySeed, first_row: int
    ) -> Iterator[Message]:
        """The rows of one batch as messages, in their order.

        Args:
            batch: The rows.
            seed: Gives the ids.
            first_row: Number of the first row within the task.

        Raises:
            RowIllegal: A row without a body or topic, or with an empty property.
        """
        bodies = self._values(batch, "body", None)
        topics = repeat(self.topic) if self.topic else self._values(batch, "topic", None)
        tags = self._values(batch, "tag", "")
        keys = self._values(batch, "keys", ())
        groups = self._values(batch, "messageGroup", "")
        properties = self._values(batch, "properties", ())
        rows = zip(topics, bodies, tags, keys, groups, properties, strict=False)
        for row, (topic, body, tag, its_keys, group, pairs) in enumerate(rows, first_row):
            if body is None or not topic:
                raise RowIllegal(
                    f"row {row} of {seed.text} has no {'body' if body is None else 'topic'}"
                )
            octets = body.encode() if isinstance(body, str) else body
            own = dict(pairs or ())
            if None in own.values():
                raise RowIllegal(f"row {row} of {seed.text} has a property without a value")
            own[MESSAGE_ID_PROPERTY] = seed.message_id(row, octets)
            yield Message(
                topic,
                octets,
                tag=tag or "",
                keys=tuple(its_keys or ()),
                message_group=group or "",
                properties=own,
            )

    def _values(self, batch: pa.RecordBatch, name: str, absent: Any) -> Iterable[Any]:
        at = self.columns.get(name)
        if at is None:
            return repeat(absent)
        values: Sequence[Any] = batch.column(at).to_pylist()
        return values
