"""The first schema.

A revision spells its tables out: it must stay as it is when ``tables.py`` goes on.
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
    """Make the three tables, and the head of an empty trail."""
    _make_audit_trail()
    op.create_table(
        "sample",
        sa.Column("kind", sa.SmallInteger, autoincrement=False, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("time_ms", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("value", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", "time_ms", name="pk_sample"),
    )
    op.create_index("ix_sample_time", "sample", ["time_ms"])


def _make_audit_trail() -> None:
    op.create_table(
        "audit_record",
        sa.Column("sequence", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("entry_id", sa.String(64), nullable=False),
        sa.Column("ended", sa.Boolean, nullable=False),
        sa.Column("time_ms", sa.BigInteger, nullable=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("claimed_user", sa.String(255), nullable=False),
        sa.Column("source_address", sa.String(255), nullable=False),
        sa.Column("method", sa.String(255), nullable=False),
        sa.Column("resource_name", sa.String(255), nullable=False),
        sa.Column("request_json", sa.Text, nullable=False),
        sa.Column("before_json", sa.Text, nullable=False),
        sa.Column("after_json", sa.Text, nullable=False),
        sa.Column("outcome", sa.SmallInteger, nullable=False),
        sa.Column("failure_reason", sa.String(255), nullable=False),
        sa.Column("failure_message", sa.Text, nullable=False),
        sa.Column("sha256", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_audit_record"),
    )
    op.create_index("ix_audit_record_entry", "audit_record", ["entry_id", "ended"], unique=True)
    op.create_index("ix_audit_record_resource", "audit_record", ["resource_name", "sequence"])
    head = op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_head"),
    )
    op.bulk_insert(head, [{"id": 1, "sequence": 0, "sha256": bytes(32)}])
