"""The table of replica sets.

Revision ID: 0001
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
    """Make the table."""
    op.create_table(
        "replica_set",
        sa.Column("cluster_name", sa.String(255), nullable=False),
        sa.Column("broker_name", sa.String(255), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster_name", "broker_name", name="pk_replica_set"),
    )
