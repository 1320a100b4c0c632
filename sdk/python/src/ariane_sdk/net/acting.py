"""Calls of a member of the cluster for a user: each names the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ariane_wire import Channel

ACTING_KEY: Final = "x-ariane-acting-for"
"""Metadata key: the user for whom a member makes a call."""

_METHODS: Final = frozenset({"unary_unary", "unary_stream", "stream_unary", "stream_stream"})


class ActingChannel:
    """A channel whose calls name the user for whom they are made.

    It is no interceptor, under which the calls would not be the transport's own.
    """

    def __init__(self, channel: Channel, acting_for: Callable[[], str]) -> None:
        """Call through a channel.

        Args:
            channel: The channel.
            acting_for: Returns the user of the call that is being made; empty for none.
        """
        self._channel = channel
        self._acting_for = acting_for

    def __getattr__(self, name: str) -> Any:
        """Return what the channel has; its methods of calls name the user."""
        found = getattr(self._channel, name)
        if name not in _METHODS:
            return found

        def made(*arguments: Any, **named: Any) -> Callable[..., Any]:
            return self._naming(found(*arguments, **named))

        return made

    def _naming(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        def call(
            *arguments: Any, metadata: Sequence[tuple[str, Any]] | None = None, **named: Any
        ) -> Any:
            user = self._acting_for()
            if user:
                metadata = (*(metadata or ()), (ACTING_KEY, user))
            return begin(*arguments, metadata=metadata, **named)

        return call
