"""Filters of messages that run in the consumer's own process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ariane.common.v1.subscription_pb2 import Subscription
from ariane_record.decoding.columns import decode_columns
from ariane_record.layout import ByteBuffer
from ariane_sdk.checks.sql_filter import Sql
from ariane_sdk.checks.tag_filter import TagFilter
from ariane_sdk.errors import BodyDamaged, FilterFailed, FilterIllegal
from ariane_sdk.message import ReceivedMessage

_TRUTHS = frozenset((bool, np.bool_))


@dataclass(frozen=True, slots=True)
class Local:
    """A filter that runs in the consumer's own process, without a FilterServer.

    ::

        def matches(message):
            return b"urgent" in bytes(message.body)

        PushConsumer(
            "127.0.0.1:9876",
            group="desk",
            subscriptions={"letters": Local(matches)},
            listener=listen,
        )

    All messages of the topic are sent to the consumer; messages that do not match count as
    consumed. For the group it is a subscription to all messages: all members must have the same
    filter, which is not checked.

    The result is the same as with an uploaded filter. If the filter raises, or returns anything but
    ``True`` or ``False``, its queue stops with ``FilterFailed``: no message passes unfiltered, and
    none is left out silently. If the filter reads a compressed body that is damaged, the message
    becomes a dead letter.

    Raises:
        FilterIllegal: It is neither.
    """

    matches: Callable[[ReceivedMessage], bool] | Sql
    """A function that returns whether a message matches; or a condition, which is evaluated for all
    messages of a pull at once, without a call for each."""

    def __post_init__(self) -> None:
        if not isinstance(self.matches, Sql) and not callable(self.matches):
            raise FilterIllegal(
                f"local filter {self.matches!r:.100}: a function of a message, or Sql(...), is"
                " expected"
            )


class FilteredBodiesDamaged(BodyDamaged):
    """A filter read bodies that cannot be decompressed."""

    def __init__(self, causes: dict[int, str]) -> None:
        first = next(iter(causes.values()))
        super().__init__(f"bodies that cannot be read: {len(causes)}; the first: {first}")
        self.causes = causes
        """The cause for each, by the row of the batch."""


class LocalFilter:
    """A local filter of a topic; the broker sends all messages."""

    tags: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, local: Local) -> None:
        self._matches = local.matches
        self._condition: Any = None
        if not callable(local.matches):
            # Imported here: a consumer that filters otherwise does not load the parser.
            from ariane_sql92 import compile_condition  # noqa: PLC0415 - as above

            self._condition = compile_condition(local.matches.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalFilter) and self._matches == other._matches

    def __hash__(self) -> int:
        return hash(self._matches)

    def matches(self, tag: str) -> bool:  # noqa: ARG002 - as ``TagFilter`` has it
        """Whether a message with this tag may match; here any tag."""
        return True

    def to_wire(self, topic: str) -> Subscription:
        """The subscription of a topic with this filter."""
        return TagFilter(frozenset()).to_wire(topic)

    def mask(
        self,
        records: ByteBuffer,
        sizes: NDArray[np.integer[Any]],
        messages: Callable[[], Sequence[ReceivedMessage]],
    ) -> NDArray[np.bool_]:
        """Whether each record matches: bool[count].

        Args:
            records: The records, one after the other.
            sizes: The bytes of each record.
            messages: Returns the records as messages.

        Raises:
            FilterFailed: The filter raised, or returned neither true nor false.
            FilteredBodiesDamaged: The filter read bodies that cannot be decompressed.
            RecordCorrupted: The records cannot be decoded.
        """
        if self._condition is not None:
            columns = decode_columns(records, sizes.astype(np.int32, copy=False))
            mask: NDArray[np.bool_] = self._condition.mask(columns.properties)
            return mask
        judged = messages()
        try:
            verdicts = list(map(self._matches, judged))  # type: ignore[arg-type]  # no condition.
        except Exception:  # noqa: BLE001 - the message is found below.
            verdicts = self._one_by_one(judged)
        if len(verdicts) < len(judged):  # The function raised StopIteration, which ends ``map``.
            verdicts = self._one_by_one(judged)
        if not _TRUTHS.issuperset(map(type, verdicts)):
            odd = next(each for each in verdicts if type(each) not in _TRUTHS)
            raise FilterFailed(f"the local filter answered {odd!r:.100}, and not True or False")
        return np.array(verdicts, np.bool_)

    def _one_by_one(self, messages: Sequence[ReceivedMessage]) -> list[bool]:
        """Filter messages one by one; errors name the message that caused them."""
        verdicts, causes = [], {}
        for row, message in enumerate(messages):
            try:
                verdicts.append(self._matches(message))  # type: ignore[operator]  # no condition.
            except BodyDamaged as damage:
                causes[row] = str(damage)
            except Exception as error:
                raise FilterFailed(
                    f"the local filter raised {type(error).__name__} at queue offset"
                    f" {message.queue_offset}: {error}"
                ) from error
        if causes:
            raise FilteredBodiesDamaged(causes)
        return verdicts
