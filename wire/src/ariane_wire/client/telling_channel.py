"""A channel whose calls carry metadata that is asked for at each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from ariane_wire.client.channel import Channel

_METHODS: Final = frozenset({"unary_unary", "unary_stream", "stream_unary", "stream_stream"})

Pairs = Sequence[tuple[str, str | bytes]]
"""Metadata."""


class TellingChannel:
    """A channel that tells more at each call.

    It is no interceptor: under these calls would not be the transport's own.
    """

    def __init__(self, channel: Channel, metadata: Callable[[], Pairs]) -> None:
        """Call through a channel.

        Args:
            channel: The channel.
            metadata: Returns what the call that is being made tells; empty for nothing.
        """
        self._channel = channel
        self._metadata = metadata

    def __getattr__(self, name: str) -> Any:
        """Return what the channel has; what makes calls tells more."""
        found = getattr(self._channel, name)
        if name not in _METHODS:
            return found

        def made(*arguments: Any, **named: Any) -> Callable[..., Any]:
            return self._telling(found(*arguments, **named))

        return made

    async def __aenter__(self) -> Self:
        """Use it for the length of a block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self._channel.close()

    def _telling(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, metadata: Pairs | None = None, **named: Any) -> Any:
            told = self._metadata()
            if told:
                metadata = (*(metadata or ()), *told)
            return begin(*arguments, metadata=metadata, **named)

        return call
