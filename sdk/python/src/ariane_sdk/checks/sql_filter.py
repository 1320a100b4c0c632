"""Filters of messages by a condition over their properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ariane.common.v1.subscription_pb2 import FILTER_KIND_SQL92, FilterExpression, Subscription
from ariane_sdk.errors import FilterIllegal


@dataclass(frozen=True, slots=True)
class Sql:
    """A condition in SQL92 over the properties of messages; the broker evaluates it.

    ::

        PushConsumer(
            "127.0.0.1:9876",
            group="delays",
            subscriptions={"flights": Sql("origin = 'JFK' AND dep_delay > 60")},
            listener=listen,
        )

    The language, and how it compares numbers with texts, is described in
    ``storage/sql92/README.md``.

    Raises:
        FilterIllegal: It is not legal; ``metadata["position"]`` is the character with the error.
    """

    text: str
    """The condition."""

    def __post_init__(self) -> None:
        # Imported here: a consumer that filters by tag alone does not load the parser.
        from ariane_sql92 import ConditionInvalid, compile_condition  # noqa: PLC0415 - as above

        if not isinstance(self.text, str):
            raise FilterIllegal(f"SQL92 condition {self.text!r:.100}: a text is expected")
        try:
            compile_condition(self.text)
        except ConditionInvalid as error:
            raise FilterIllegal(
                str(error),
                metadata={"expression": self.text, "position": str(error.position)},
            ) from error


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """A condition as a filter of a topic: the broker evaluates it, and tags do not count."""

    condition: Sql
    """The condition."""
    tags: ClassVar[frozenset[str]] = frozenset()
    """None: all tags."""

    def matches(self, tag: str) -> bool:  # noqa: ARG002 - as ``TagFilter`` has it
        """Whether a message with this tag matches; the broker has decided that already."""
        return True

    def to_wire(self, topic: str) -> Subscription:
        """The subscription of a topic with this filter."""
        return Subscription(
            topic=topic, filter=FilterExpression(kind=FILTER_KIND_SQL92, text=self.condition.text)
        )
