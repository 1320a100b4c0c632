"""The tables for applications to create beside their own, in one ``MetaData``.

::

    ariane_inbox          consumer | message_key | taken_at          one row for each message taken
    ariane_inbox_offset   consumer | topic | broker_name | queue_id | next_queue_offset | updated_at
    ariane_transaction_outcome   transaction_id | outcome | decided_at
    ariane_outbox...             see _outbox/tables.py

Give ``METADATA`` to Alembic's ``target_metadata`` beside your own, or call ``create_tables``.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Index,
    Integer,
    MetaData,
    String,
    Table,
)

from ariane_sdk.checks.inbox_keys import CONSUMER_LENGTH_MAX, KEY_LENGTH_MAX

METADATA: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""Every table of this package."""

INBOX: Final = Table(
    "ariane_inbox",
    METADATA,
    Column("consumer", String(CONSUMER_LENGTH_MAX), primary_key=True),
    Column("message_key", String(KEY_LENGTH_MAX), primary_key=True),
    Column("taken_at", DateTime(timezone=True), nullable=False),
    Index(None, "consumer", "taken_at"),
)

INBOX_OFFSET: Final = Table(
    "ariane_inbox_offset",
    METADATA,
    Column("consumer", String(CONSUMER_LENGTH_MAX), primary_key=True),
    Column("topic", String(255), primary_key=True),
    Column("broker_name", String(255), primary_key=True),
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("next_queue_offset", BigInteger, nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False),
)

TRANSACTION_OUTCOME: Final = Table(
    "ariane_transaction_outcome",
    METADATA,
    Column("transaction_id", String(KEY_LENGTH_MAX), primary_key=True),
    Column("outcome", String(8), nullable=False),
    Column("decided_at", DateTime(timezone=True), nullable=False),
    Index(None, "decided_at"),
)


def create_tables(connection: Connection) -> None:
    """Create missing tables; for applications without migrations, and for tests.

    Asynchronous: ``await connection.run_sync(create_tables)``.
    """
    METADATA.create_all(connection)
