"""Tables of messages to send: the meaning of columns, and the checks of rows.

``Producer.send_columns`` uses this module, and so does every other sender of tables, such as the
sink of Spark that writes exactly once: all refuse the same tables with the same errors.
Everything is checked before anything is sent. Arrow is an extra of this distribution
(``ariane-sdk[arrow]``), so nothing imports this module before it is needed::

    for part in table_parts(table, None, body_bytes_max=4 << 20):
        messages = packed_columns(part.messages, packing)
        block = encode_columns("orders", messages, unique_ids=ids, born_timestamp_ms=now_ms)

In ``ariane_record``, ``packed_columns`` compresses bodies and ``column_encoder`` encodes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ariane_record.encoding.columns.arrow_texts import lengths_of, own_octets
from ariane_record.encoding.columns.message_columns import MessageColumns
from ariane_record.errors import IllegalColumn
from ariane_sdk.checks.limits import checked_tag
from ariane_sdk.checks.property_names import RESERVED_PROPERTIES
from ariane_sdk.errors import ColumnIllegal, FeatureNotAvailable, IllegalArgument, MessageIllegal

PART_OF: Final[Mapping[str, str]] = {
    "body": "body",
    "tag": "tag",
    "keys": "keys",
    "messageGroup": "message_group",
    "properties": "properties",
    "deliveryTimestamp": "delivery_time",
    "flag": "flag",
}
"""The names of columns, in tables and in ``columns=``, and the parts of messages that they hold."""

_UNITS_OF_MS: Final = {"ms": 1, "us": 1000, "ns": 1_000_000}


class TablePart(NamedTuple):
    """Checked rows of a table that are contiguous in memory."""

    first_row: int
    """Number of the first of them in the table."""
    messages: MessageColumns
    """The rows as messages."""
    delivery_times_ms: NDArray[np.int64] | None = None
    """The delivery time of each, milliseconds since the epoch, int64; 0 for delivery at once. None
    if all are delivered at once."""


def table_parts(
    table: Any,
    columns: Mapping[str, str] | None,
    *,
    body_bytes_max: int,
    with_delivery_times: bool = False,
) -> list[TablePart]:
    """A table as columns of messages; bodies are not copied.

    Args:
        table: An Arrow table or record batch, or an object that Arrow reads without a copy.
        columns: The table's columns by their usual names; other columns are ignored. ``None``:
            columns have their usual names, and other columns are refused.
        body_bytes_max: The largest body, in bytes.
        with_delivery_times: Whether rows may have a delivery time.

    Raises:
        IllegalArgument: It is not a table, or these are not names of columns.
        ColumnIllegal: A column or row cannot become messages.
        FeatureNotAvailable: Rows have a delivery time, which is not allowed.
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise IllegalArgument(f"columns {columns!r:.100}: a dict such as {{'body': 'payload'}}")
    try:
        whole = table if isinstance(table, pa.Table) else pa.table(table)
    except (TypeError, ValueError) as error:
        raise IllegalArgument(f"{type(table).__name__} is no table: {error}") from None
    names = _names(whole.schema, columns)
    if "delivery_time" in names and not with_delivery_times:
        raise FeatureNotAvailable(
            f"column {names['delivery_time']!r}: these messages cannot be delayed"
        )
    batches = [batch for batch in whole.select(list(names.values())).to_batches() if len(batch)]
    if not batches:
        # An empty table sends nothing, but wrong columns are still refused.
        batches = [pa.RecordBatch.from_pylist([], whole.select(list(names.values())).schema)]
    parts: list[TablePart] = []
    row = 0
    for batch in batches:
        try:
            messages = MessageColumns.of(
                **{
                    part: batch.column(name)
                    for part, name in names.items()
                    if part != "delivery_time"
                }
            )
            times_ms = None
            if "delivery_time" in names:
                times_ms = _delivery_times_ms(batch.column(names["delivery_time"]))
                _check_undelayed_groups(messages, times_ms)
            _check_bodies(messages, body_bytes_max)
            _check_tags(messages)
            _check_property_names(messages)
        except IllegalColumn as error:
            raise _refusal(error, names, row) from error
        parts.append(TablePart(row, messages, times_ms))
        row += len(batch)
    return parts


def _names(schema: pa.Schema, columns: Mapping[str, str] | None) -> dict[str, str]:
    """The columns to take, by the part of messages that they hold."""
    repeated = {name for name in schema.names if schema.names.count(name) > 1}
    if columns is None:
        unknown = [name for name in schema.names if name not in PART_OF]
        if unknown:
            raise ColumnIllegal(
                unknown[0],
                f"not a column of messages; those are {', '.join(PART_OF)}. Name the columns to"
                " send by `columns`, such as {'body': 'payload'}, to leave others out",
            )
        names = {PART_OF[name]: name for name in schema.names}
    else:
        for usual, name in columns.items():
            if usual not in PART_OF:
                raise ColumnIllegal(
                    name, f"{usual!r} is not a column of messages; those are {', '.join(PART_OF)}"
                )
            if name not in schema.names:
                raise ColumnIllegal(name, f"is not there; there are {', '.join(schema.names)}")
        names = {PART_OF[usual]: name for usual, name in columns.items()}
    if "body" not in names:
        raise ColumnIllegal("body", "is missing, and a message needs one")
    for name in names.values():
        if name in repeated:
            raise ColumnIllegal(name, "is there twice")
    return names


def _delivery_times_ms(array: Any) -> NDArray[np.int64]:
    """Times in milliseconds since the epoch, rounded up: nothing is delivered early; 0 for null."""
    kind = array.type
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        raise IllegalColumn("delivery_time", f"{kind}; a timestamp with a time zone is expected")
    if kind.unit not in _UNITS_OF_MS:
        try:
            array = array.cast(pa.timestamp("ms", kind.tz))
        except pa.ArrowInvalid as error:
            raise IllegalColumn("delivery_time", str(error)) from None
    numbers = array.cast(pa.int64()).fill_null(0).to_numpy()
    given = array.is_valid().to_numpy(zero_copy_only=False)
    if (numbers < 0).any():
        raise IllegalColumn("delivery_time", "before 1970", int(np.argmax(numbers < 0)))
    times_ms: NDArray[np.int64] = -(-numbers // _UNITS_OF_MS.get(kind.unit, 1))
    # All past times mean the same; 0 means that there is no time.
    times_ms[given & (times_ms == 0)] = 1
    return times_ms


def _check_undelayed_groups(messages: MessageColumns, times_ms: NDArray[np.int64]) -> None:
    if messages.message_group is None:
        return
    wrong = (lengths_of(messages.message_group) > 0) & (times_ms > 0)
    if wrong.any():
        raise IllegalColumn(
            "delivery_time",
            "a message of a message group stays in order: it cannot be delayed",
            int(np.argmax(wrong)),
        )


def _check_bodies(messages: MessageColumns, body_bytes_max: int) -> None:
    if own_octets(messages.body).size <= body_bytes_max:
        return
    lengths = lengths_of(messages.body)
    if len(lengths) and int(lengths.max()) > body_bytes_max:
        raise IllegalColumn(
            "body",
            f"{int(lengths.max())} bytes; {body_bytes_max} are allowed",
            int(np.argmax(lengths)),
        )


def _check_tags(messages: MessageColumns) -> None:
    if messages.tag is None:
        return
    for place, name in enumerate(messages.tag.names.to_pylist()):
        try:
            checked_tag(name)
        except MessageIllegal as error:
            rows = np.flatnonzero(messages.tag.places == place)
            if len(rows):
                raise IllegalColumn("tag", str(error), int(rows[0])) from None


def _check_property_names(messages: MessageColumns) -> None:
    if messages.properties is None:
        return
    names = messages.properties.children[0]
    reserved = RESERVED_PROPERTIES.intersection(pc.unique(names).to_pylist())
    if reserved:
        place = pc.index(pc.is_in(names, pa.array(sorted(reserved))), value=True).as_py()
        raise IllegalColumn(
            "properties",
            f"properties of the system may not be set: {', '.join(sorted(reserved))}",
            messages.properties.row_of(place),
        )


def _refusal(error: IllegalColumn, names: Mapping[str, str], first_row: int) -> ColumnIllegal:
    row = None if error.row is None else first_row + error.row
    return ColumnIllegal(names.get(error.column, error.column), error.reason, row)
