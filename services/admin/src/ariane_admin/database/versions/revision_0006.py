"""Names of deleted users."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0006"
down_revision: Final = "0005"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Make the table of names that stay out."""
    op.create_table(
        "access_deleted_user",
        sa.Column("name", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_access_deleted_user"),
    )
