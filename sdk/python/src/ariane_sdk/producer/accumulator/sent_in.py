"""The spans in which the messages of a row were sent, for brokers that trace appends.

Only sampled spans are kept: the others are recorded nowhere. Messages without properties are
skipped without a look.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from ariane_record.names import TRACE_PARENT
from ariane_sdk.message import Message

if TYPE_CHECKING:
    from ariane_sdk.producer.accumulator.row import Row

SPANS_MAX: Final = 16
"""The most spans of one call that are sent to a broker."""

_LENGTH: Final = 55
_SAMPLED_DIGITS: Final = "13579bdf"


def note_span(row: Row, message: Message) -> None:
    """Note the span in which a message was sent, if that span is sampled."""
    trace_parent = message.properties.get(TRACE_PARENT)
    if (
        trace_parent
        and len(trace_parent) == _LENGTH
        and trace_parent[-1] in _SAMPLED_DIGITS
        and len(row.sent_in) < SPANS_MAX
        and trace_parent.isascii()
        and trace_parent not in row.sent_in
    ):
        row.sent_in += (trace_parent,)


def trace_parents_of(rows: Iterable[Row]) -> list[str]:
    """Collect the trace contexts that a broker gets with these rows."""
    found = dict.fromkeys(span for row in rows if row.sent_in for span in row.sent_in)
    return list(islice(found, SPANS_MAX)) if found else []
