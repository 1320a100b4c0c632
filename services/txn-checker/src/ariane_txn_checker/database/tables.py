"""The checkers' tables. Instants are milliseconds since 1970, by the database's clock.

::

    checker               one row for each checker that was alive lately
    checker_lease         one row for each broker: which checker watches it, until when, by which
    token
    checked_transaction   one row for each half message that was seen without an outcome
    transaction_check     one row for each question to a producer

All rows except operators' decisions and the history of checks can be rebuilt from the brokers.
Changes need a revision below ``versions/``; a test compares both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
)

from ariane_servicekit.database import Schema

METADATA: Final = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
    }
)

SCHEMA: Final = Schema(
    application="ariane-txn-checker",
    tables=METADATA,
    versions=Path(__file__).parent / "versions",
    version_table="ariane_txn_checker_version",
    lock_number=0x0A21_A4E7_C43C,
)

NAME_LENGTH_MAX: Final = 255

_KEY_NAMES: Final = ("cluster_name", "broker_name", "transaction_id")

CHECKER: Final = Table(
    "checker",
    METADATA,
    Column("checker_id", String(NAME_LENGTH_MAX), primary_key=True),
    Column("expire_ms", BigInteger, nullable=False),
)

LEASE: Final = Table(
    "checker_lease",
    METADATA,
    Column("cluster_name", String(NAME_LENGTH_MAX), primary_key=True),
    Column("broker_name", String(NAME_LENGTH_MAX), primary_key=True),
    Column("checker_id", String(NAME_LENGTH_MAX), nullable=False),
    Column("fencing_token", BigInteger, nullable=False),
    Column("expire_ms", BigInteger, nullable=False),
    # How far the last survey has read the topics.
    Column("half_queue_offset", BigInteger, nullable=False),
    Column("op_queue_offset", BigInteger, nullable=False),
)

TRANSACTION: Final = Table(
    "checked_transaction",
    METADATA,
    Column("cluster_name", String(NAME_LENGTH_MAX), primary_key=True),
    Column("broker_name", String(NAME_LENGTH_MAX), primary_key=True),
    Column("transaction_id", String(NAME_LENGTH_MAX), primary_key=True),
    Column("unique_id", String(NAME_LENGTH_MAX), nullable=False),
    Column("topic", String(NAME_LENGTH_MAX), nullable=False),
    Column("producer_group", String(NAME_LENGTH_MAX), nullable=False),
    Column("message_keys", Text, nullable=False),  # a JSON list
    Column("half_queue_offset", BigInteger, nullable=False),
    Column("store_ms", BigInteger, nullable=False),  # by the broker's clock
    Column("first_seen_ms", BigInteger, nullable=False),
    Column("next_check_ms", BigInteger),  # NULL: nothing is to be done
    Column("check_count", Integer, nullable=False),
    Column("check_number_last", Integer, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("unlisted", Boolean, nullable=False),
    Column("outcome", SmallInteger, nullable=False),
    Column("decider", String(NAME_LENGTH_MAX), nullable=False),
    Column("cause", Text, nullable=False),
    # What an operator is about to decide: written before the broker is told, so that if the checker
    # dies in between, the decision still has its author.
    Column("operator_outcome", SmallInteger, nullable=False),
    Column("operator_cause", Text, nullable=False),
    Column("end_ms", BigInteger),
    Index("ix_checked_transaction_id", "transaction_id"),
    Index("ix_checked_transaction_due", "cluster_name", "broker_name", "next_check_ms"),
    Index("ix_checked_transaction_half", "cluster_name", "broker_name", "half_queue_offset"),
    # Pages are read in this order: the cost of a page does not grow with the table.
    Index("ix_checked_transaction_checked", "next_check_ms", *_KEY_NAMES),
    Index("ix_checked_transaction_ended", "state", "end_ms", *_KEY_NAMES),
)

CHECK: Final = Table(
    "transaction_check",
    METADATA,
    Column("cluster_name", String(NAME_LENGTH_MAX), primary_key=True),
    Column("broker_name", String(NAME_LENGTH_MAX), primary_key=True),
    Column("transaction_id", String(NAME_LENGTH_MAX), primary_key=True),
    Column("check_number", Integer, primary_key=True, autoincrement=False),
    Column("ask_ms", BigInteger, nullable=False),
    Column("answer_ms", BigInteger),
    Column("answer", SmallInteger, nullable=False),
    Column("client_id", String(NAME_LENGTH_MAX), nullable=False),
    Column("checker_id", String(NAME_LENGTH_MAX), nullable=False),
    Column("failure_reason", String(NAME_LENGTH_MAX), nullable=False),
)
