"""The public errors of brokers with replicas.

::

ServiceError (ariane_servicekit)
+-- by a send       broker_not_primary, too_few_in_sync, replication_unconfirmed
+-- by a replica    epoch_fenced, log_diverged
+-- by an operator  replica_not_found, replica_not_in_sync, replica_too_slow,
                    replica_set_changed, row_away
"""

from __future__ import annotations

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError, refusal


def broker_not_primary(primary: str) -> ServiceError:
    """This broker accepts no messages; the primary does, if its address is known."""
    where = f"the primary is at {primary}" if primary else "a primary is about to be elected"
    return ServiceError(
        ErrorReason.ERROR_REASON_BROKER_NOT_PRIMARY,
        f"this broker is not the primary: {where}",
        {"primary": primary},
    )


@refusal(ErrorReason.ERROR_REASON_TOO_FEW_IN_SYNC)
def too_few_in_sync(in_sync: int, wanted: int) -> str:
    """Nothing is stored while fewer copies are in sync than an acknowledgement promises."""
    return (
        f"in sync are {in_sync} of the {wanted} brokers that in_sync_min wants: nothing was stored"
    )


@refusal(ErrorReason.ERROR_REASON_REPLICATION_UNCONFIRMED)
def replication_unconfirmed() -> str:
    """A message or a change is stored here, but may be lost: its replication is not confirmed."""
    return "it is stored, but not all in sync have confirmed it: it may be lost"


def epoch_fenced(epoch: int, newer: int) -> ServiceError:
    """The caller knows of a newer primary."""
    return ServiceError(
        ErrorReason.ERROR_REASON_EPOCH_FENCED,
        f"this primary is of epoch {epoch}, and epoch {newer} has begun",
        {"epoch": newer, "primary": ""},
    )


def log_diverged(reason: str, begin: int, end: int) -> ServiceError:
    """A replica's log differs from this one."""
    return ServiceError(
        ErrorReason.ERROR_REASON_LOG_DIVERGED,
        f"the replica cannot follow this log from {begin} to {end}: {reason}",
        {"min": begin, "max": end},
    )


@refusal(ErrorReason.ERROR_REASON_REPLICA_NOT_FOUND)
def replica_not_found(broker_id: int) -> str:
    """No broker of that id belongs to the set."""
    return f"no broker with the id {broker_id} belongs to this set"


@refusal(ErrorReason.ERROR_REASON_REPLICA_NOT_IN_SYNC)
def replica_not_in_sync(broker_id: int) -> str:
    """The replica lacks confirmed records, or may lack them."""
    return f"broker {broker_id} is not in sync"


def replica_too_slow(broker_id: int, grace_s: float) -> ServiceError:
    """The replica is in sync, but did not get all records in time; nothing has changed."""
    return ServiceError(
        ErrorReason.ERROR_REASON_REPLICA_NOT_IN_SYNC,
        f"broker {broker_id} did not catch up within {grace_s:g} s; the primary stays",
        {"broker_id": broker_id},
    )


@refusal(ErrorReason.ERROR_REASON_SERVICE_BUSY, retry_after_ms=5_000)
def row_away(cause: str) -> str:
    """The database of the replica set cannot do this now."""
    return f"the database of the replica set does not do this now: {cause}"


def replica_set_changed(version: int) -> ServiceError:
    """Another broker changed the row first."""
    return ServiceError(
        ErrorReason.ERROR_REASON_REPLICA_SET_CHANGED,
        "the replica set was changed by somebody else meanwhile",
        {"version": version},
    )
