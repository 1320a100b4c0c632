"""Many plain messages at once: the usual argument of ``send_batch``."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, countOf
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ariane_sdk.checks.delay import AT_ONCE
from ariane_sdk.message import Message

COUNT_MIN: Final = 64
"""Fewer are taken one by one, into batches that they share with others."""

_body_of = attrgetter("body")
_others_of = attrgetter(
    "topic",
    "tag",
    "keys",
    "properties",
    "message_group",
    "flag",
    "deliver_at",
    "delay",
    "delay_level",
    "priority",
)
_UNSET: Final[tuple[object, ...]] = ({}, "", 0, None, None, AT_ONCE, 0)
"""The defaults of the fields from ``properties`` on."""


class PlainMessages(NamedTuple):
    """Messages of one topic and tag that have a body and nothing else.

    Attributes:
        topic: The topic of all.
        tag: The tag of all, or nothing.
        bodies: The bodies.
        lengths: Size of each body in bytes: int32.
    """

    topic: str
    tag: str
    bodies: Sequence[bytes]
    lengths: NDArray[np.int32]

    @classmethod
    def of(cls, messages: Sequence[Message], *, body_bytes_max: int) -> Self | None:
        """Collect messages; None if they are few, or one of them is not plain.

        Args:
            messages: The messages; they are not checked here.
            body_bytes_max: Larger bodies are not plain.
        """
        count = len(messages)
        if count < COUNT_MIN or countOf(map(type, messages), Message) < count:
            return None
        first = _others_of(messages[0])
        topic, tag, keys, *unset = first
        plain = type(topic) is type(tag) is str and keys in ((), []) and tuple(unset) == _UNSET
        if not plain or countOf(map(_others_of, messages), first) < count:
            return None
        bodies = list(map(_body_of, messages))
        if countOf(map(type, bodies), bytes) < count:
            return None
        lengths = np.fromiter(map(len, bodies), np.int64, count)
        if int(lengths.max()) > body_bytes_max:
            return None
        return cls(topic, tag, bodies, lengths.astype(np.int32))

    def slice(self, begin: int, end: int) -> Self:
        """Some neighbouring messages."""
        if end - begin == len(self.bodies):
            return self
        return self._replace(bodies=self.bodies[begin:end], lengths=self.lengths[begin:end])
