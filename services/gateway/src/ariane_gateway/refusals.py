"""Why a call of a client is refused, whatever the protocol that the client speaks.

A use case raises ``Refused``. Errors of brokers and name servers become one by ``refused_by``.
"""

from __future__ import annotations

from typing import Final

from ariane_gateway.refusal_kinds import BY_REASON, Refusal
from ariane_sdk.errors import (
    ArianeError,
    DeadlinePassed,
    IllegalArgument,
    MessageTooLarge,
    NameServersUnreachable,
    RequestTooLarge,
    RouteNotFound,
    SendError,
    ServiceUnavailable,
)


class Refused(Exception):
    """A call that is refused."""

    def __init__(self, kind: Refusal, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        """Why."""
        self.text = text
        """One line for people."""


_BY_CLASS: Final = (
    (RequestTooLarge, Refusal.BODY_TOO_LARGE),
    (RouteNotFound, Refusal.TOPIC_UNKNOWN),
    (IllegalArgument, Refusal.MESSAGE_ILLEGAL),
    (DeadlinePassed, Refusal.NO_ANSWER),
    (NameServersUnreachable, Refusal.UNAVAILABLE),
    (ServiceUnavailable, Refusal.UNAVAILABLE),
    (SendError, Refusal.NO_ANSWER),
)


def refused_by(error: ArianeError) -> Refused:
    """The refusal for an error of a broker, of a name server, or of the client towards them."""
    kind = BY_REASON.get(error.reason)
    if isinstance(error, MessageTooLarge) and "size_bytes" not in error.metadata:
        kind = Refusal.PROPERTIES_TOO_LARGE  # Of a body, it is told.
    if error.reason == RouteNotFound.reason and error.retriable:
        kind = Refusal.UNAVAILABLE  # A broker that had the topic is away.
    if kind is None:
        kinds = (kind for of_class, kind in _BY_CLASS if isinstance(error, of_class))
        kind = next(kinds, Refusal.FAULT)
    return Refused(kind, str(error))
