"""Room for the answers of calls."""

from __future__ import annotations

from typing import Any, cast

from grpc import aio

from ariane_servicekit import AnswerBudget, AnswerLease


def lease_of(answers: AnswerBudget, context: aio.ServicerContext[Any, Any]) -> AnswerLease:
    """Room for the answers of a call, which is free again when the last of them has left."""
    lease = answers.lease(context.peer())

    def release(_: aio.ServicerContext[Any, Any]) -> None:
        lease.release()

    context.add_done_callback(cast("Any", release))  # Its type is only in the stubs.
    return lease
