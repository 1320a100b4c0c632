"""Many plain messages at once: what ``send_batch`` gets most of the time."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, countOf
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ariane_sdk._delay import AT_ONCE
from ariane_sdk._limits import checked_tag
from ariane_sdk._message import Message
from ariane_sdk.errors import MessageIllegal

COUNT_MIN: Final = 64
"""Fewer are taken one by one, into batches that they share with others."""

_topic_of = attrgetter("topic")
_tag_of = attrgetter("tag")
_body_of = attrgetter("body")
_properties_of = attrgetter("properties")
_keys_of = attrgetter("keys")

_UNSET: Final = (
    (attrgetter("message_group"), ""),
    (attrgetter("flag"), 0),
    (attrgetter("deliver_at"), None),
    (attrgetter("delay"), None),
    (attrgetter("delay_level"), AT_ONCE),
)
"""Further fields of messages, and what they are where nobody has set them."""


class PlainMessages(NamedTuple):
    """Messages of one topic and tag that have a body and nothing else.

    Attributes:
        topic: Their topic.
        tag: Their tag, or nothing.
        bodies: The body of each.
        lengths: Bytes of each body: int32.
    """

    topic: str
    tag: str
    bodies: Sequence[bytes]
    lengths: NDArray[np.int32]

    @classmethod
    def of(cls, messages: Sequence[Message], *, body_bytes_max: int) -> Self | None:
        """These messages, or nothing if they are few, or any of them is not so plain.

        Field after field: an object for the fields of each message would cost more than they do.

        Args:
            messages: The messages; whatever is wrong with one is not judged here.
            body_bytes_max: Larger bodies are not plain.
        """
        count = len(messages)
        if count < COUNT_MIN or set(map(type, messages)) != {Message}:
            return None
        topic, tag = messages[0].topic, messages[0].tag
        bodies = list(map(_body_of, messages))
        plain = (
            type(topic) is type(tag) is str
            and set(map(type, bodies)) == {bytes}
            and countOf(map(_topic_of, messages), topic) == count
            and countOf(map(_tag_of, messages), tag) == count
            and _have_no_keys(messages)
            and not any(map(_properties_of, messages))
            and all(countOf(map(field_of, messages), unset) == count for field_of, unset in _UNSET)
        )
        if not plain:
            return None
        lengths = np.fromiter(map(len, bodies), np.int64, count)
        if int(lengths.max()) > body_bytes_max:
            return None
        try:
            checked_tag(tag)
        except MessageIllegal:
            return None
        return cls(topic, tag, bodies, lengths.astype(np.int32))

    def slice(self, begin: int, end: int) -> Self:
        """Some neighbours."""
        if end - begin == len(self.bodies):
            return self
        return self._replace(bodies=self.bodies[begin:end], lengths=self.lengths[begin:end])


def _have_no_keys(messages: Sequence[Message]) -> bool:
    """Whether no message has keys, and all say so in the same way."""
    empty = messages[0].keys
    return empty in ((), []) and countOf(map(_keys_of, messages), empty) == len(messages)
