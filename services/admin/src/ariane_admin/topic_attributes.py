"""The attributes of topics: those of their definitions, and what a purge has left."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from ariane.broker.v1.topic_service_pb2 import Topic
from ariane_admin.times import length_text

SHOWN_SINCE: Final = "shown.since.ms"
"""The attribute of a topic: messages that were stored before this time are shown to nobody."""

RETENTION: Final = "retention.ms"
"""The attribute of a topic: for how long it shows its messages, in milliseconds."""

NO_RETENTION: Final = "broker's"
"""What stands for a topic without a retention time of its own."""

_MILLISECOND: Final = timedelta(milliseconds=1)


def set_attributes(topic: Topic) -> dict[str, str]:
    """The attributes that belong to the definition of a topic.

    Not what was purged: each broker has a time of its own, and an old definition shows nothing
    again.
    """
    return {name: text for name, text in topic.attributes.items() if name != SHOWN_SINCE}


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
