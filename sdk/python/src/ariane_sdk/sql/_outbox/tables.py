"""The tables of outboxes, in the same ``METADATA``.

::

    ariane_outbox             row_id | outbox | partition | topic | ... | body | sent_at
    ariane_outbox_partition   outbox | partition | producer_id | owner | lease_epoch | lease_until
    ariane_outbox_stream      outbox | partition | topic | broker_name | queue_id
                              | epoch | next_sequence | pending_rows
    ariane_outbox_parked      row_id | outbox | attempts | reason | error | parked_at

``pending_rows`` is the batch that a relay has begun to send and that is not known to be stored. It
is recorded before it is sent, so that the next owner sends the same rows under the same numbers. A
message with a row in the last table is not sent.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
)

from ariane_sdk.sql._tables import METADATA

OUTBOX_LENGTH_MAX: Final = 120
_ROW_ID: Final = BigInteger().with_variant(Integer, "sqlite")

OUTBOX: Final = Table(
    "ariane_outbox",
    METADATA,
    Column("row_id", _ROW_ID, primary_key=True),
    Column("outbox", String(OUTBOX_LENGTH_MAX), nullable=False),
    Column("partition", Integer, nullable=False),
    Column("topic", String(255), nullable=False),
    Column("message_group", String(255), nullable=False),
    Column("tag", String(255), nullable=False),
    Column("message_keys", JSON, nullable=False),
    Column("properties", JSON, nullable=False),
    Column("flag", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("body_bytes", Integer, nullable=False),
    # Size of the record as it is sent: relays make batches by it, without reading bodies.
    Column("record_bytes", Integer, nullable=False),
    Column("unique_id", String(64), nullable=False),
    Column("written_at", DateTime(timezone=True), nullable=False),
    Column("sent_at", DateTime(timezone=True)),
    # Otherwise SQLite would give the id of a purged row to a new one.
    sqlite_autoincrement=True,
)
Index(
    "ix_ariane_outbox_waiting",
    OUTBOX.c.outbox,
    OUTBOX.c.partition,
    OUTBOX.c.row_id,
    postgresql_where=OUTBOX.c.sent_at.is_(None),
    sqlite_where=OUTBOX.c.sent_at.is_(None),
)
Index(None, OUTBOX.c.outbox, OUTBOX.c.sent_at)

OUTBOX_PARTITION: Final = Table(
    "ariane_outbox_partition",
    METADATA,
    Column("outbox", String(OUTBOX_LENGTH_MAX), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("producer_id", BigInteger, nullable=False),
    Column("owner", String(64), nullable=False),
    Column("lease_epoch", BigInteger, nullable=False),
    Column("lease_until", DateTime(timezone=True), nullable=False),
)

OUTBOX_STREAM: Final = Table(
    "ariane_outbox_stream",
    METADATA,
    Column("outbox", String(OUTBOX_LENGTH_MAX), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("topic", String(255), primary_key=True),
    Column("broker_name", String(255), primary_key=True),
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", Integer, nullable=False),
    Column("next_sequence", BigInteger, nullable=False),
    Column("pending_rows", JSON, nullable=False),
)

OUTBOX_PARKED: Final = Table(
    "ariane_outbox_parked",
    METADATA,
    Column("row_id", _ROW_ID, primary_key=True, autoincrement=False),
    Column("outbox", String(OUTBOX_LENGTH_MAX), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("reason", String(64), nullable=False),
    Column("error", Text, nullable=False),
    Column("parked_at", DateTime(timezone=True), nullable=False),
    Index(None, "outbox"),
)
