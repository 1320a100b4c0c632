"""The kinds of refusals, and which of them each reason of the contract is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class Refusal(Enum):
    """The kinds of refusals."""

    TOPIC_ILLEGAL = auto()
    TOPIC_UNKNOWN = auto()
    GROUP_ILLEGAL = auto()
    GROUP_UNKNOWN = auto()
    MESSAGE_ILLEGAL = auto()
    BODY_TOO_LARGE = auto()
    PROPERTIES_TOO_LARGE = auto()
    MESSAGE_TYPE = auto()
    DELIVERY_TIME = auto()
    FILTER_ILLEGAL = auto()
    RECEIPT_INVALID = auto()
    MESSAGE_UNKNOWN = auto()
    TRANSACTION_UNKNOWN = auto()
    FORBIDDEN = auto()
    """Its user has no right to it."""
    PREVENTED = auto()
    """The cluster is not in a state for it, whoever calls."""
    UNAUTHORIZED = auto()
    BUSY = auto()
    UNAVAILABLE = auto()
    UNCONFIRMED_FLUSH = auto()
    UNCONFIRMED_REPLICATION = auto()
    NO_ANSWER = auto()
    UNSUPPORTED = auto()
    FAULT = auto()


PASSING: Final = frozenset({Refusal.BUSY, Refusal.NO_ANSWER, Refusal.UNAVAILABLE})
"""Kinds that say nothing of the call itself: the same one may succeed soon, or elsewhere."""

BY_REASON: Final[Mapping[str, Refusal]] = {
    "ACCESS_DENIED": Refusal.FORBIDDEN,
    "BATCH_DIFFERS": Refusal.FAULT,
    "CREDENTIALS_INVALID": Refusal.UNAUTHORIZED,
    "DELIVERY_TIME_TOO_LATE": Refusal.DELIVERY_TIME,
    "FEATURE_NOT_AVAILABLE": Refusal.UNSUPPORTED,
    "FIELD_INVALID": Refusal.MESSAGE_ILLEGAL,
    "FILTER_EXPRESSION_INVALID": Refusal.FILTER_ILLEGAL,
    "FLUSH_UNCONFIRMED": Refusal.UNCONFIRMED_FLUSH,
    "GROUP_LIMIT_REACHED": Refusal.PREVENTED,
    "GROUP_NAME_ILLEGAL": Refusal.GROUP_ILLEGAL,
    "GROUP_NOT_FOUND": Refusal.GROUP_UNKNOWN,
    "GROUP_OWNS_QUEUES": Refusal.PREVENTED,
    "GROUP_PAUSED": Refusal.PREVENTED,
    "HELD_PULLS_EXHAUSTED": Refusal.BUSY,
    "MESSAGE_ILLEGAL": Refusal.MESSAGE_ILLEGAL,
    "MESSAGE_NOT_FOUND": Refusal.MESSAGE_UNKNOWN,
    "MESSAGE_TOO_LARGE": Refusal.BODY_TOO_LARGE,
    "MESSAGE_TYPE_MISMATCH": Refusal.MESSAGE_TYPE,
    "RECEIPT_HANDLE_EXPIRED": Refusal.RECEIPT_INVALID,
    "RECEIPT_HANDLE_INVALID": Refusal.RECEIPT_INVALID,
    "REPLICATION_UNCONFIRMED": Refusal.UNCONFIRMED_REPLICATION,
    "ROUTE_NOT_FOUND": Refusal.TOPIC_UNKNOWN,
    "SERVICE_BUSY": Refusal.BUSY,
    "QUOTA_EXCEEDED": Refusal.BUSY,
    "SUBSCRIPTION_CONFLICT": Refusal.PREVENTED,
    "TOO_FEW_IN_SYNC": Refusal.UNCONFIRMED_REPLICATION,
    "TOPIC_LIMIT_REACHED": Refusal.PREVENTED,
    "TOPIC_NAME_ILLEGAL": Refusal.TOPIC_ILLEGAL,
    "TOPIC_NOT_FOUND": Refusal.TOPIC_UNKNOWN,
    "TOPIC_NOT_READABLE": Refusal.PREVENTED,
    "TOPIC_NOT_WRITABLE": Refusal.PREVENTED,
    "TOPIC_RESERVED": Refusal.PREVENTED,
    "TRANSACTION_DECIDED": Refusal.TRANSACTION_UNKNOWN,
    "TRANSACTION_FOREIGN": Refusal.TRANSACTION_UNKNOWN,
    "TRANSACTION_NOT_FOUND": Refusal.TRANSACTION_UNKNOWN,
}
