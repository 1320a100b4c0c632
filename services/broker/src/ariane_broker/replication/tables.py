"""The table of replica sets, in SQLite for one machine or PostgreSQL for many.

::

    replica_set      one row for each broker name: the version, and the rest as JSON

Changes of the table need a revision below ``versions/``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import BigInteger, Column, MetaData, String, Table, Text

from ariane_servicekit.database import Schema

METADATA: Final = MetaData(naming_convention={"pk": "pk_%(table_name)s"})

NAME_LENGTH_MAX: Final = 255

REPLICA_SET: Final = Table(
    "replica_set",
    METADATA,
    Column("cluster_name", String(NAME_LENGTH_MAX), primary_key=True),
    Column("broker_name", String(NAME_LENGTH_MAX), primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
)

SCHEMA: Final = Schema(
    application="ariane-broker",
    tables=METADATA,
    versions=Path(__file__).with_name("versions"),
    version_table="ariane_broker_version",
    lock_number=0x41_52_42_52,
)
