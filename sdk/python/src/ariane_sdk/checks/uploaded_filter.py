"""Filters of messages by code that was uploaded to FilterServers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import ClassVar, Final, Self

from ariane.common.v1.subscription_pb2 import (
    FILTER_KIND_UPLOADED,
    FilterExpression,
    Subscription,
)
from ariane_sdk.errors import FilterIllegal

_NAME_AND_VERSION: Final = re.compile(r"[A-Za-z0-9_-]{1,120}@[0-9a-f]{12,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Uploaded:
    """An uploaded filter; FilterServers beside the brokers run it and deliver the messages.

    ::

        PushConsumer(
            "127.0.0.1:9876",
            group="delays",
            subscriptions={"flights": Uploaded("late@3f2a9c1b5d6e")},
            listener=listen,
        )

    ``ariane filter upload`` prints the name and the version. The version is the SHA-256 of the
    code, so the filter of a group never changes. ``Uploaded.source(code)`` has the consumer upload
    it where it is missing. For more see ``docs/filters.md``.

    Raises:
        FilterIllegal: It does not have this form.
    """

    filter_version: str
    """As "name@version", with 12 to 64 hex digits of the version. All members of a group must use
    the same text."""
    module: bytes = field(default=b"", compare=False, repr=False)
    """The code itself, for FilterServers that do not have it; empty: they must have it."""

    @classmethod
    def source(cls, code: str | bytes, *, name: str = "") -> Self:
        """A filter by its code, which the consumer uploads to FilterServers that lack it.

        Args:
            code: Python with a function ``matches(message) -> bool``, or a WebAssembly module.
            name: The name of the filter. Default: ``source-`` and the first digits of its version.

        Raises:
            FilterIllegal: The code is empty, or no text or bytes; or the name is not allowed.
        """
        given: object = code
        if not isinstance(given, str | bytes) or not given:
            raise FilterIllegal(f"the source of a filter is text or bytes, not {code!r:.60}")
        try:
            module = given.encode() if isinstance(given, str) else given
        except UnicodeEncodeError as error:
            raise FilterIllegal(f"the source of a filter is no text: {error}") from None
        version = sha256(module).hexdigest()
        return cls(f"{name or f'source-{version[:12]}'}@{version}", module)

    def __post_init__(self) -> None:
        text: object = self.filter_version
        if not isinstance(text, str) or not _NAME_AND_VERSION.fullmatch(text):
            raise FilterIllegal(
                f'uploaded filter {text!r:.100}: "name@version" is expected, with 12 to 64 hex'
                " digits of the version; `ariane filter list` tells both",
                metadata={"expression": str(text)[:200]},
            )


@dataclass(frozen=True, slots=True)
class UploadedFilter:
    """An uploaded filter of a topic: FilterServers run it, and tags do not count."""

    uploaded: Uploaded
    """The filter."""
    tags: ClassVar[frozenset[str]] = frozenset()
    """None: all tags."""

    def matches(self, tag: str) -> bool:  # noqa: ARG002 - as ``TagFilter`` has it
        """Whether a message with this tag matches; the FilterServer has decided that already."""
        return True

    def to_wire(self, topic: str) -> Subscription:
        """The subscription of a topic with this filter."""
        expression = FilterExpression(kind=FILTER_KIND_UPLOADED, text=self.uploaded.filter_version)
        return Subscription(topic=topic, filter=expression)
