"""The first schema.

A revision spells its tables out: it must stay as it is when ``tables.py`` changes.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0001"
down_revision: Final = None
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Make the four tables."""
    op.create_table(
        "checker",
        sa.Column("checker_id", sa.String(255), nullable=False),
        sa.Column("expire_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("checker_id", name="pk_checker"),
    )
    op.create_table(
        "checker_lease",
        sa.Column("cluster_name", sa.String(255), nullable=False),
        sa.Column("broker_name", sa.String(255), nullable=False),
        sa.Column("checker_id", sa.String(255), nullable=False),
        sa.Column("fencing_token", sa.BigInteger, nullable=False),
        sa.Column("expire_ms", sa.BigInteger, nullable=False),
        sa.Column("half_queue_offset", sa.BigInteger, nullable=False),
        sa.Column("op_queue_offset", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("cluster_name", "broker_name", name="pk_checker_lease"),
    )
    _make_transactions()
    op.create_table(
        "transaction_check",
        *_transaction_key(),
        sa.Column("check_number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("ask_ms", sa.BigInteger, nullable=False),
        sa.Column("answer_ms", sa.BigInteger),
        sa.Column("answer", sa.SmallInteger, nullable=False),
        sa.Column("client_id", sa.String(255), nullable=False),
        sa.Column("checker_id", sa.String(255), nullable=False),
        sa.Column("failure_reason", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint(
            *("cluster_name", "broker_name", "transaction_id", "check_number"),
            name="pk_transaction_check",
        ),
    )


def _make_transactions() -> None:
    table = "checked_transaction"
    op.create_table(
        table,
        *_transaction_key(),
        sa.Column("unique_id", sa.String(255), nullable=False),
        sa.Column("topic", sa.String(255), nullable=False),
        sa.Column("producer_group", sa.String(255), nullable=False),
        sa.Column("message_keys", sa.Text, nullable=False),
        sa.Column("half_queue_offset", sa.BigInteger, nullable=False),
        sa.Column("store_ms", sa.BigInteger, nullable=False),
        sa.Column("first_seen_ms", sa.BigInteger, nullable=False),
        sa.Column("next_check_ms", sa.BigInteger),
        sa.Column("check_count", sa.Integer, nullable=False),
        sa.Column("check_number_last", sa.Integer, nullable=False),
        sa.Column("state", sa.SmallInteger, nullable=False),
        sa.Column("unlisted", sa.Boolean, nullable=False),
        sa.Column("outcome", sa.SmallInteger, nullable=False),
        sa.Column("decider", sa.String(255), nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("operator_outcome", sa.SmallInteger, nullable=False),
        sa.Column("operator_cause", sa.Text, nullable=False),
        sa.Column("end_ms", sa.BigInteger),
        sa.PrimaryKeyConstraint(
            *("cluster_name", "broker_name", "transaction_id"), name=f"pk_{table}"
        ),
    )
    for name, columns in (
        ("id", ["transaction_id"]),
        ("due", ["cluster_name", "broker_name", "next_check_ms"]),
        ("half", ["cluster_name", "broker_name", "half_queue_offset"]),
        ("checked", ["next_check_ms", "cluster_name", "broker_name", "transaction_id"]),
        ("ended", ["state", "end_ms", "cluster_name", "broker_name", "transaction_id"]),
    ):
        op.create_index(f"ix_{table}_{name}", table, columns)


def _transaction_key() -> list[sa.Column[str]]:
    names = ("cluster_name", "broker_name", "transaction_id")
    return [sa.Column(name, sa.String(255), nullable=False) for name in names]
