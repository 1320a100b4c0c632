"""Received records as Arrow record batches: the columns of ``ariane_record.arrow``, and the broker.

Arrow is an extra of this distribution (``ariane-sdk[arrow]``) and is imported by who asks for
columns only. No Python statement runs once per message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ariane_record.columns import RecordColumns
from ariane_record.errors import RecordCorrupted
from ariane_sdk._message import MessageQueue
from ariane_sdk.errors import IllegalArgument, RecordDamaged

if TYPE_CHECKING:
    import pyarrow as pa

BROKER_COLUMN: Final = "brokerName"
"""With topic and queue id it names a message queue; built where it is asked for."""


def columns_wanted(names: Sequence[str] | None) -> tuple[str, ...]:
    """The columns to build, checked.

    Args:
        names: The columns, in this order; ``None``: all of ``ariane_record.arrow``.

    Raises:
        IllegalArgument: There is no such column, or one is named twice.
    """
    from ariane_record.arrow import COLUMN_NAMES  # noqa: PLC0415 - an extra.

    if names is None:
        return COLUMN_NAMES
    known = (*COLUMN_NAMES, BROKER_COLUMN)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise IllegalArgument(f"no column {unknown[0]!r}; the columns are {', '.join(known)}")
    if len(set(names)) < len(names):
        raise IllegalArgument(f"a column is named twice in {list(names)}")
    return tuple(names)


def record_batch(
    records: RecordColumns, queue: MessageQueue, names: Sequence[str]
) -> pa.RecordBatch:
    """Records of one queue as one batch.

    Args:
        records: What was pulled, at most 2 GiB.
        queue: Where from.
        names: From ``columns_wanted``.

    Raises:
        RecordDamaged: A record cannot be taken apart.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra.

    from ariane_record.arrow import to_arrow  # noqa: PLC0415 - the same.

    try:
        built = to_arrow(records, [name for name in names if name != BROKER_COLUMN])
    except RecordCorrupted as error:
        raise RecordDamaged(f"{queue}: {error}") from error
    if BROKER_COLUMN not in names:
        return built
    broker = pa.repeat(pa.scalar(queue.broker_name, pa.string()), len(records))
    arrays: list[Any] = [broker if name == BROKER_COLUMN else built.column(name) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))
