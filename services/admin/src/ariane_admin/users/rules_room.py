"""How large the rules may be: every process gets all of them after each change.

Without a limit, whoever may make users or policies could fill the memory of every process, or make
the rules larger than processes take: from then on no change would reach any of them. Names of
deleted users are kept until they are made again, so they count as users do.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, func, select

from ariane_admin.database.tables import (
    ACCESS_CREDENTIAL,
    ACCESS_DELETED_USER,
    ACCESS_POLICY,
    ACCESS_USER,
)
from ariane_servicekit import field_invalid

RECORDS_MAX: Final = 200_000
"""Users, names of deleted users, policies and credentials, together."""

RECORDS_BYTES_MAX: Final = 32 << 20
"""Their bytes, all of which every process gets: half of what one takes."""

_RECORD_BYTES: Final = 32
"""Of each record, beside its texts."""

_U, _D, _P, _C = (
    ACCESS_USER.c,
    ACCESS_DELETED_USER.c,
    ACCESS_POLICY.c,
    ACCESS_CREDENTIAL.c,
)
_SIZES: Final = (
    (ACCESS_USER, func.length(_U.name) + func.length(_U.roles)),
    (ACCESS_DELETED_USER, func.length(_D.name)),
    (ACCESS_POLICY, func.length(_P.policy)),
    (ACCESS_CREDENTIAL, func.length(_C.credential_id) + func.length(_C.material)),
)


def check_room(connection: Connection) -> None:
    """Refuse a change that has made the rules too large, in its transaction.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    count = size_bytes = 0
    for table, size in _SIZES:
        asked = select(func.count(), func.coalesce(func.sum(size), 0)).select_from(table)
        records, texts_bytes = connection.execute(asked).one()
        count += records
        size_bytes += int(texts_bytes) + records * _RECORD_BYTES
    if count > RECORDS_MAX:
        rule = (
            f"must be one of {RECORDS_MAX} users, policies, credentials and names of deleted users"
            " at most; create a deleted user again instead of a new one"
        )
        raise field_invalid("user", rule)
    if size_bytes > RECORDS_BYTES_MAX:
        rule = f"must not make all users and policies larger than {RECORDS_BYTES_MAX} bytes"
        raise field_invalid("user", rule)
