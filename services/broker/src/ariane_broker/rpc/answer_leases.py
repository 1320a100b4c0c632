"""Memory for the answers of calls, and the time that a call may be held."""

from __future__ import annotations

from typing import Any, Final

from grpc import aio

from ariane_servicekit import AnswerBudget, AnswerLease

ANSWER_SECONDS: Final = 0.1
"""A held call is answered this long before its deadline, so that the answer still arrives."""


def lease_of(answers: AnswerBudget, context: aio.ServicerContext[Any, Any]) -> AnswerLease:
    """Memory for the answers of a call, which is released when the call has ended."""
    lease = answers.lease(context.peer())
    release: Any = lease.release  # The type of callbacks is only in the stubs.
    context.add_done_callback(release)
    return lease


def hold_seconds_max(context: aio.ServicerContext[Any, Any]) -> float | None:
    """The longest hold that the call's deadline allows; None when it has no deadline."""
    remaining: float | None = context.time_remaining()
    return None if remaining is None else max(0.0, remaining - ANSWER_SECONDS)
