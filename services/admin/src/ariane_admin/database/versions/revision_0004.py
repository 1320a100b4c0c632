"""Credentials of users."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0004"
down_revision: Final = "0003"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Make the table of credentials."""
    op.create_table(
        "access_credential",
        sa.Column("credential_id", sa.String(255), nullable=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("kind", sa.SmallInteger, nullable=False),
        sa.Column("material", sa.LargeBinary, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("expire_ms", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("credential_id", name="pk_access_credential"),
    )
    op.create_index("ix_access_credential_user", "access_credential", ["user"])
