"""Exactly once in effect, with the application's own SQL database (extra ``ariane-sdk[sql]``)."""

from ariane_sdk.sql._inbox import Inbox
from ariane_sdk.sql._offset_inbox import OffsetInbox
from ariane_sdk.sql._outbox.outbox import Outbox, OutboxLag
from ariane_sdk.sql._outbox.parked import ParkedMessage
from ariane_sdk.sql._outbox.pulse import Standstill
from ariane_sdk.sql._outbox.relay import OutboxRelay
from ariane_sdk.sql._seen_keys import LatestKeys, SeenKeys
from ariane_sdk.sql._tables import METADATA, create_tables
from ariane_sdk.sql._transaction_outcomes import (
    AsyncTransactionOutcomes,
    IdentifiedTransaction,
    TransactionOutcomes,
)

__all__ = [
    "METADATA",
    "AsyncTransactionOutcomes",
    "IdentifiedTransaction",
    "Inbox",
    "LatestKeys",
    "OffsetInbox",
    "Outbox",
    "OutboxLag",
    "OutboxRelay",
    "ParkedMessage",
    "SeenKeys",
    "Standstill",
    "TransactionOutcomes",
    "create_tables",
]
