"""Admin's tables. Instants are milliseconds since 1970, by the database's clock.

::

    audit_record   one row for each begin and each end of a change; the oldest go by settings
    audit_head     one row: the last place in the chain, and its hash; locked to add a record
    sample         one row for each sample of a series
    alert          one row for each time that a figure was out of bounds; a present one has no end
    access_user    one row for each user
    access_deleted_user one row for each name of a user that was deleted, and not made again
    access_policy  one row for each user or role with entries: a serialized ``AccessPolicy``
    access_credential one row for each credential of a user
    access_quota   one row for each limit of a user, topic, address or beginning of names
    access_version one row: grows with each change of these five; locked to change them

Changes need a revision below ``versions/``; a test holds both together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    text,
)

from ariane_servicekit.database import Schema

METADATA: Final = MetaData(naming_convention={"pk": "pk_%(table_name)s"})

SCHEMA: Final = Schema(
    application="ariane-admin",
    tables=METADATA,
    versions=Path(__file__).parent / "versions",
    version_table="ariane_admin_version",
    lock_number=0x0A21_A4E7_AD31,
)

NAME_LENGTH_MAX: Final = 255

AUDIT_RECORD: Final = Table(
    "audit_record",
    METADATA,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("entry_id", String(64), nullable=False),
    Column("ended", Boolean, nullable=False),
    Column("time_ms", BigInteger, nullable=False),
    Column("user", String(NAME_LENGTH_MAX), nullable=False),
    Column("claimed_user", String(NAME_LENGTH_MAX), nullable=False),
    Column("source_address", String(NAME_LENGTH_MAX), nullable=False),
    Column("method", String(NAME_LENGTH_MAX), nullable=False),
    Column("resource_name", String(NAME_LENGTH_MAX), nullable=False),
    Column("request_json", Text, nullable=False),
    Column("before_json", Text, nullable=False),
    Column("after_json", Text, nullable=False),
    Column("outcome", SmallInteger, nullable=False),
    Column("failure_reason", String(NAME_LENGTH_MAX), nullable=False),
    Column("failure_message", Text, nullable=False),
    Column("sha256", LargeBinary(32), nullable=False),
    # A change has one begin and one end.
    Index("ix_audit_record_entry", "entry_id", "ended", unique=True),
    Index("ix_audit_record_resource", "resource_name", "sequence"),
)

AUDIT_HEAD: Final = Table(
    "audit_head",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, nullable=False),
    Column("sha256", LargeBinary(32), nullable=False),
)

SAMPLE: Final = Table(
    "sample",
    METADATA,
    Column("kind", SmallInteger, primary_key=True, autoincrement=False),
    Column("name", String(NAME_LENGTH_MAX), primary_key=True),
    Column("time_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("value", Float(53), nullable=False),
    Index("ix_sample_time", "time_ms"),
)

ALERT: Final = Table(
    "alert",
    METADATA,
    # SQLite numbers only rows of this type, and never reuses a number.
    Column(
        "alert_id",
        BigInteger().with_variant(Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
    ),
    Column("figure", SmallInteger, nullable=False),
    Column("subject", String(NAME_LENGTH_MAX), nullable=False),
    Column("threshold", Float(53), nullable=False),
    Column("first_value", Float(53), nullable=False),
    Column("last_value", Float(53), nullable=False),
    Column("raised_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger, nullable=True),
    Column("told_raise", Boolean, nullable=False),
    Column("told_end", Boolean, nullable=False),
    # Only one of several admins raises an alert.
    Index(
        "ix_alert_standing",
        "figure",
        "subject",
        unique=True,
        sqlite_where=text("ended_ms IS NULL"),
        postgresql_where=text("ended_ms IS NULL"),
    ),
)

ACCESS_USER: Final = Table(
    "access_user",
    METADATA,
    Column("name", String(NAME_LENGTH_MAX), primary_key=True),
    Column("kind", SmallInteger, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("description", Text, nullable=False),
    Column("roles", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

ACCESS_DELETED_USER: Final = Table(
    "access_deleted_user",
    METADATA,
    Column("name", String(NAME_LENGTH_MAX), primary_key=True),
)

ACCESS_POLICY: Final = Table(
    "access_policy",
    METADATA,
    Column("subject", String(NAME_LENGTH_MAX), primary_key=True),
    Column("policy", LargeBinary, nullable=False),
    Column("version", BigInteger, nullable=False),
)

ACCESS_CREDENTIAL: Final = Table(
    "access_credential",
    METADATA,
    Column("credential_id", String(NAME_LENGTH_MAX), primary_key=True),
    Column("user", String(NAME_LENGTH_MAX), nullable=False),
    Column("kind", SmallInteger, nullable=False),
    # A public key, or a secret that is sealed with a key outside of the database.
    Column("material", LargeBinary, nullable=False),
    Column("description", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expire_ms", BigInteger, nullable=True),
    Index("ix_access_credential_user", "user"),
)

ACCESS_QUOTA: Final = Table(
    "access_quota",
    METADATA,
    Column("figure", SmallInteger, primary_key=True, autoincrement=False),
    Column("subject", SmallInteger, primary_key=True, autoincrement=False),
    Column("name", String(NAME_LENGTH_MAX), primary_key=True),
    Column("limit", BigInteger, nullable=False),
)

ACCESS_VERSION: Final = Table(
    "access_version",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)
