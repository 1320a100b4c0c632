"""A listener that gets one message at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, cast

from ariane_sdk.client.listener import Listener, is_coroutine_function
from ariane_sdk.message import ReceivedMessage

MessageListener: TypeAlias = (
    Callable[[ReceivedMessage], Awaitable[None]] | Callable[[ReceivedMessage], None]
)
"""Called with one message. Returns when the message is done; raises if it failed."""


def of_one(listener: MessageListener) -> Listener:
    """A listener for lists of one message; a coroutine function if the given one is."""
    if is_coroutine_function(listener):
        awaited = cast("Callable[[ReceivedMessage], Awaitable[None]]", listener)

        async def wait(messages: Sequence[ReceivedMessage]) -> None:
            return await awaited(messages[0])

        return wait

    def call(messages: Sequence[ReceivedMessage]) -> Awaitable[None] | None:
        return listener(messages[0])

    return cast("Listener", call)
