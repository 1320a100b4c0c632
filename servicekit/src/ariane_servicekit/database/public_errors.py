"""Public errors for failures of a database."""

from __future__ import annotations

import sqlite3
from typing import Final

from sqlalchemy.exc import DataError, DBAPIError

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_servicekit.rpc.error_status import ErrorRules


def _database_refuses(error: DBAPIError) -> ServiceError:
    """The database is unreachable, or refuses changes: read-only, full, or without rights."""
    return _sqlite_refuses(error.orig or error)


def _sqlite_refuses(error: BaseException) -> ServiceError:
    cause = " ".join(str(error).split())
    return ServiceError(
        ErrorReason.ERROR_REASON_SERVICE_BUSY,
        f"the database does not do this now: {cause}",
        {"cause": cause},
        retry_after_ms=5_000,
    )


def _unkeepable(_: DataError) -> ServiceError:
    return field_invalid("request", "holds text that no database keeps")


DATABASE_ERROR_RULES: Final[ErrorRules] = {
    DBAPIError: _database_refuses,
    # SQLAlchemy does not wrap errors raised while a connection is set up.
    sqlite3.Error: _sqlite_refuses,
    DataError: _unkeepable,
}
