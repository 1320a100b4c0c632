"""Quotas."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0005"
down_revision: Final = "0004"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Make the table of quotas."""
    op.create_table(
        "access_quota",
        sa.Column("figure", sa.SmallInteger, nullable=False, autoincrement=False),
        sa.Column("subject", sa.SmallInteger, nullable=False, autoincrement=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("limit", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("figure", "subject", "name", name="pk_access_quota"),
    )
