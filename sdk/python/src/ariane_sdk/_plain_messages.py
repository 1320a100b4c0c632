"""Many plain messages at once: what ``send_batch`` gets most of the time."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple, Self

from ariane_sdk._delay import AT_ONCE
from ariane_sdk._limits import checked_tag
from ariane_sdk._message import Message
from ariane_sdk.errors import MessageIllegal

COUNT_MIN: Final = 64
"""Fewer are taken one by one, into batches that they share with others."""

_fields_of = attrgetter(
    "topic",
    "tag",
    "body",
    "keys",
    "properties",
    "message_group",
    "flag",
    "deliver_at",
    "delay",
    "delay_level",
)


class PlainMessages(NamedTuple):
    """Messages of one topic and tag that have a body and nothing else.

    Attributes:
        topic: Their topic.
        tag: Their tag, or nothing.
        bodies: The body of each.
    """

    topic: str
    tag: str
    bodies: tuple[bytes, ...]

    @classmethod
    def of(cls, messages: Sequence[Message], *, body_bytes_max: int) -> Self | None:
        """These messages, or nothing if they are few, or any of them is not so plain.

        Args:
            messages: The messages; whatever is wrong with one is not judged here.
            body_bytes_max: Larger bodies are not plain.
        """
        if len(messages) < COUNT_MIN or set(map(type, messages)) != {Message}:
            return None
        columns = zip(*map(_fields_of, messages), strict=True)
        topics, tags, bodies, keys, properties, groups, flags, times, delays, levels = columns
        count = len(messages)
        plain = (
            set(map(type, bodies)) == {bytes}
            and topics.count(topics[0]) == tags.count(tags[0]) == count
            and type(topics[0]) is type(tags[0]) is str
            and keys.count(()) + keys.count([]) == count
            and not any(properties)
            and groups.count("") == count
            and flags.count(0) == levels.count(AT_ONCE) == count
            and times.count(None) == delays.count(None) == count
            and max(map(len, bodies)) <= body_bytes_max
        )
        if not plain:
            return None
        try:
            checked_tag(tags[0])
        except MessageIllegal:
            return None
        return cls(topics[0], tags[0], bodies)
