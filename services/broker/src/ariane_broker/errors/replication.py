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
from ariane_servicekit.errors import refusal


@refusal(ErrorReason.ERROR_REASON_BROKER_NOT_PRIMARY)
def broker_not_primary(primary: str) -> str:
    """This broker accepts no messages; the primary does, if its address is known."""
    where = f"the primary is at {primary}" if primary else "a primary is about to be elected"
    return f"this broker is not the primary: {where}"


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


@refusal(ErrorReason.ERROR_REASON_EPOCH_FENCED, without=("epoch",), renamed={"newer": "epoch"})
def epoch_fenced(epoch: int, newer: int, primary: str = "") -> str:
    """The caller knows of a newer primary."""
    return f"this primary is of epoch {epoch}, and epoch {newer} has begun"


@refusal(
    ErrorReason.ERROR_REASON_LOG_DIVERGED,
    without=("reason",),
    renamed={"begin": "min", "end": "max"},
)
def log_diverged(reason: str, begin: int, end: int) -> str:
    """A replica's log differs from this one."""
    return f"the replica cannot follow this log from {begin} to {end}: {reason}"


@refusal(ErrorReason.ERROR_REASON_REPLICA_NOT_FOUND)
def replica_not_found(broker_id: int) -> str:
    """No broker of that id belongs to the set."""
    return f"no broker with the id {broker_id} belongs to this set"


@refusal(ErrorReason.ERROR_REASON_REPLICA_NOT_IN_SYNC)
def replica_not_in_sync(broker_id: int) -> str:
    """The replica lacks confirmed records, or may lack them."""
    return f"broker {broker_id} is not in sync"


@refusal(ErrorReason.ERROR_REASON_REPLICA_NOT_IN_SYNC, without=("grace_s",))
def replica_too_slow(broker_id: int, grace_s: float) -> str:
    """The replica is in sync, but did not get all records in time; nothing has changed."""
    return f"broker {broker_id} did not catch up within {grace_s:g} s; the primary stays"


@refusal(ErrorReason.ERROR_REASON_SERVICE_BUSY, retry_after_ms=5_000)
def row_away(cause: str) -> str:
    """The database of the replica set cannot do this now."""
    return f"the database of the replica set does not do this now: {cause}"


@refusal(ErrorReason.ERROR_REASON_REPLICA_SET_CHANGED)
def replica_set_changed(version: int) -> str:
    """Another broker changed the row first."""
    return "the replica set was changed by somebody else meanwhile"
