"""For how long a topic shows its messages, for people."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from ariane.broker.v1.topic_service_pb2 import Topic
from ariane_admin.times import length_text

RETENTION: Final = "retention.ms"
"""The attribute of a topic."""

NO_RETENTION: Final = "broker's"
"""What stands for a topic without a retention time of its own."""

_MILLISECOND: Final = timedelta(milliseconds=1)


def retention_text(topic: Topic) -> str:
    """A topic's retention time on one broker, such as ``12h``."""
    text = topic.attributes.get(RETENTION, "")
    if not text:
        return NO_RETENTION
    return length_text(int(text)) if text.isascii() and text.isdigit() else text


def retention_attribute(retention: timedelta | None) -> dict[str, str]:
    """A retention time as the attribute of a topic: none for None, empty for 0, which ends it.

    Raises:
        ValueError: It is not a whole number of milliseconds: rounded it would be another, or end.
    """
    if retention is None:
        return {}
    if retention % _MILLISECOND:
        raise ValueError("retention has a part of a millisecond: give whole milliseconds")
    milliseconds = retention // _MILLISECOND
    return {RETENTION: str(milliseconds) if milliseconds else ""}
