"""A channel whose calls carry metadata that is asked for at each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from ariane_wire.client.channel import Channel

_METHODS: Final = frozenset({"unary_unary", "unary_stream", "stream_unary", "stream_stream"})

Pairs = Sequence[tuple[str, str | bytes]]
"""Metadata."""


class MetadataChannel:
    """A channel that adds metadata to each call.

    Not an interceptor: with interceptors, calls would not be the transport's own objects, which
    know more (``CallFailed``).
    """

    def __init__(self, channel: Channel, metadata: Callable[[], Pairs]) -> None:
        """Call through a channel.

        Args:
            channel: The channel.
            metadata: Returns what to add to the call that is being made; empty for nothing.
        """
        self._channel = channel
        self._metadata = metadata

    def __getattr__(self, name: str) -> Any:
        """Return what the channel has; of what makes calls, a form that adds metadata."""
        found = getattr(self._channel, name)
        if name not in _METHODS:
            return found

        def made(*arguments: Any, **named: Any) -> Callable[..., Any]:
            return self._adding(found(*arguments, **named))

        return made

    async def __aenter__(self) -> Self:
        """Use it for the length of a block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self._channel.close()

    def _adding(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, metadata: Pairs | None = None, **named: Any) -> Any:
            added = self._metadata()
            if added:
                metadata = (*(metadata or ()), *added)
            return begin(*arguments, metadata=metadata, **named)

        return call
