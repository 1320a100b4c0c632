"""What a client calls a transaction: the broker's name and the message's id."""

from __future__ import annotations

from typing import Final, NamedTuple

from ariane_gateway.refusal_kinds import Refusal
from ariane_gateway.refusals import Refused

_SEPARATOR: Final = "@"
"""Names of brokers have no such character."""


class TransactionHandle(NamedTuple):
    """Where a half message is.

    The broker is named and looked up in the routes: whoever ends a transaction names no broker
    besides, and may call any gateway.
    """

    broker_name: str
    """The broker that has it."""
    unique_id: str
    """The message's id."""

    def encode(self) -> str:
        """The handle as text."""
        return f"{self.broker_name}{_SEPARATOR}{self.unique_id}"


def decode_transaction_handle(text: str) -> TransactionHandle:
    """Decode a handle.

    Raises:
        Refused: ``TRANSACTION_UNKNOWN``.
    """
    broker_name, separator, unique_id = text.partition(_SEPARATOR)
    if not (broker_name and separator and unique_id):
        raise Refused(
            Refusal.TRANSACTION_UNKNOWN, f"transaction id {text!r:.80} is none of this cluster"
        )
    return TransactionHandle(broker_name, unique_id)
