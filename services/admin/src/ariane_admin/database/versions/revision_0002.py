"""Alerts."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Make the table of alerts."""
    op.create_table(
        "alert",
        sa.Column(
            "alert_id",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("figure", sa.SmallInteger, nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("threshold", sa.Float(53), nullable=False),
        sa.Column("first_value", sa.Float(53), nullable=False),
        sa.Column("last_value", sa.Float(53), nullable=False),
        sa.Column("raised_ms", sa.BigInteger, nullable=False),
        sa.Column("ended_ms", sa.BigInteger, nullable=True),
        sa.Column("told_raise", sa.Boolean, nullable=False),
        sa.Column("told_end", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("alert_id", name="pk_alert"),
    )
    op.create_index(
        "ix_alert_standing",
        "alert",
        ["figure", "subject"],
        unique=True,
        sqlite_where=sa.text("ended_ms IS NULL"),
        postgresql_where=sa.text("ended_ms IS NULL"),
    )
