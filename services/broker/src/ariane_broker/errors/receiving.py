"""Errors of receiving; see ``public_errors`` for the others."""

from __future__ import annotations

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import refusal


@refusal(ErrorReason.ERROR_REASON_RECEIPT_HANDLE_EXPIRED)
def receipt_expired(receipt_handle: str) -> str:
    """The message has a newer receipt by now, or is settled."""
    return (
        "the receipt is used up: its time was over and the message went to another consumer, or "
        "it was settled"
    )


@refusal(ErrorReason.ERROR_REASON_RECEIPT_HANDLE_INVALID)
def receipt_invalid(receipt_handle: str) -> str:
    """The receipt was not made by this broker, or belongs to another group."""
    return "the receipt was not made by this broker for this group"


@refusal(ErrorReason.ERROR_REASON_GROUP_OWNS_QUEUES)
def group_owns_queues(consumer_group: str, client_id: str) -> str:
    """Members of the group own queues."""
    return f"group {consumer_group!r} consumes by owning queues: client {client_id!r} is attached"
