"""The public types of transactions."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from ariane_sdk.message import AcknowledgedLevel, Message, ReceivedMessage
from ariane_sdk.runtime.application_calls import for_thread


class TransactionOutcome(StrEnum):
    """The outcome of a transaction, as its producer knows it."""

    COMMIT = "COMMIT"
    """The message becomes visible."""

    ROLLBACK = "ROLLBACK"
    """The message never becomes visible."""

    UNKNOWN = "UNKNOWN"
    """The producer does not know yet; brokers ask again."""


class HalfMessage(NamedTuple):
    """A stored message that no consumer sees until its transaction ends.

    It has all that is needed to end the transaction, also in another process of the group.
    """

    transaction_id: str
    """The transaction's id: the unique id of the message."""
    topic: str
    """The topic that the message is for."""
    broker_name: str
    """The broker that holds it."""
    level: AcknowledgedLevel | None = None
    """The level that its end must reach, as was demanded of it; None for the broker's own."""
    in_sync_min: int | None = None
    """How many brokers must have its end; None for as many as the level means."""
    producer_group: str = ""
    """Its producer group; empty for that of the producer that ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCheck:
    """A question to a producer: how did this transaction end?"""

    half_message: HalfMessage
    """The half message."""
    body: bytes
    """The message's body."""
    tag: str
    """The message's tag."""
    keys: tuple[str, ...]
    """The message's keys."""
    properties: Mapping[str, str]
    """The message's properties, those of the system included."""
    check_count: int = 0
    """How many times a producer was asked before, from 0."""

    @property
    def transaction_id(self) -> str:
        """The transaction's id."""
        return self.half_message.transaction_id

    @classmethod
    def of(
        cls,
        half_message: HalfMessage,
        message: Message | ReceivedMessage,
        *,
        check_count: int = 0,
    ) -> TransactionCheck:
        """Build the question about a message: as it was sent, or as a broker has stored it."""
        return cls(
            half_message=half_message,
            body=bytes(message.body),
            tag=message.tag,
            keys=tuple(message.keys),
            properties=dict(message.properties),
            check_count=check_count,
        )


TransactionChecker: TypeAlias = (
    Callable[[TransactionCheck], Awaitable[TransactionOutcome]]
    | Callable[[TransactionCheck], TransactionOutcome]
)
"""Returns the outcome of a transaction of the group, whichever process began it. A coroutine
function runs on the loop, any other function in a thread."""


async def ask(checker: TransactionChecker, check: TransactionCheck) -> TransactionOutcome:
    """Ask a checker, which may be a coroutine function."""
    if inspect.iscoroutinefunction(checker) or inspect.iscoroutinefunction(
        getattr(checker, "__call__", None)  # noqa: B004 - objects with `async def __call__`.
    ):
        answer = checker(check)
    else:
        answer = await asyncio.to_thread(for_thread(checker), check)
    return TransactionOutcome(await answer if inspect.isawaitable(answer) else answer)
