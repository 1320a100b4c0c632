"""Users and their policies."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0003"
down_revision: Final = "0002"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Make the tables of users, and their version."""
    op.create_table(
        "access_user",
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("kind", sa.SmallInteger, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("roles", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_access_user"),
    )
    op.create_table(
        "access_policy",
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("policy", sa.LargeBinary, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("subject", name="pk_access_policy"),
    )
    version = op.create_table(
        "access_version",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_access_version"),
    )
    op.bulk_insert(version, [{"id": 1, "version": 0}])
