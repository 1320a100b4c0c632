"""``RetryService``: takes failed messages back, and sends dead letters back."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from typing import Any, Final

from grpc import aio

from ariane.broker.v1 import retry_service_pb2 as retry_pb
from ariane.broker.v1.retry_service_pb2_grpc import RetryServiceServicer
from ariane_broker.retry.failed_records import RETURN_ID_LENGTH_MAX, DeadLetterReason
from ariane_broker.retry.failures import FailedPlace, Failure, ReturnOutcome
from ariane_broker.retry.redriving import DeadLetterRedrive
from ariane_broker.retry.returning import MessageReturns
from ariane_broker.rpc.translation.wire_time import seconds_of
from ariane_record.control_characters import holds_control_character
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_servicekit.rpc.error_status import status_of

_COUNT_MAX: Final = 1_000_000
MESSAGES_MAX: Final = 4096
"""The most messages that one call returns."""

_REASONS: Final = {
    retry_pb.DEAD_LETTER_REASON_UNSPECIFIED: DeadLetterReason.REJECTED,
    retry_pb.DEAD_LETTER_REASON_ATTEMPTS_EXHAUSTED: DeadLetterReason.ATTEMPTS_EXHAUSTED,
    retry_pb.DEAD_LETTER_REASON_REJECTED: DeadLetterReason.REJECTED,
    retry_pb.DEAD_LETTER_REASON_CONSUMER_DIED: DeadLetterReason.CONSUMER_DIED,
}


class RetryServicer(RetryServiceServicer):
    """Translates returns."""

    asked_methods: Final = frozenset({"RedriveDeadLetters"})
    """Methods that ask for the rights on what their handles touch."""

    def __init__(self, returns: MessageReturns, redrive: DeadLetterRedrive) -> None:
        self._returns = returns
        self._redrive = redrive

    async def ReturnMessage(
        self,
        request: retry_pb.ReturnMessageRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> retry_pb.ReturnMessageResponse:
        """Take a failed message back."""
        taken = await self._returns.take_back_at(_failure(request), request.commit_log_offset)
        return retry_pb.ReturnMessageResponse(
            dead_letter=taken.returned.dead_letter,
            attempts=taken.returned.attempts,
            duplicate=taken.duplicate,
        )

    async def ReturnMessages(
        self,
        request: retry_pb.ReturnMessagesRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> retry_pb.ReturnMessagesResponse:
        """Take failed messages of one queue back."""
        count = len(request.queue_offsets)
        if not 1 <= count <= MESSAGES_MAX:
            raise field_invalid("queue_offsets", f"must be 1 to {MESSAGES_MAX}", count)
        if len(request.commit_log_offsets) != count:
            given = len(request.commit_log_offsets)
            raise field_invalid("commit_log_offsets", f"must be {count} as queue_offsets", given)
        places = list(map(FailedPlace, request.queue_offsets, request.commit_log_offsets))
        outcomes = await self._returns.take_back(_failure(request), places)
        return retry_pb.ReturnMessagesResponse(messages=map(_returned, outcomes))

    async def RedriveDeadLetters(
        self,
        request: retry_pb.RedriveDeadLettersRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> retry_pb.RedriveDeadLettersResponse:
        """Send dead letters back."""
        outcome = await self._redrive.redrive(
            request.consumer_group,
            request.queue_id,
            request.queue_offsets,
            to_group=request.target != retry_pb.REDRIVE_TARGET_ORIGIN,
        )
        return retry_pb.RedriveDeadLettersResponse(
            redriven_count=outcome.redriven_count,
            duplicate_count=outcome.duplicate_count,
            failures=[
                retry_pb.RedriveFailure(queue_offset=queue_offset, cause=cause)
                for queue_offset, cause in sorted(outcome.failures.items())
            ],
        )

    async def FindRedrivenDeadLetters(
        self,
        request: retry_pb.FindRedrivenDeadLettersRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> retry_pb.FindRedrivenDeadLettersResponse:
        """Return which dead letters were sent back."""
        found = self._redrive.redriven(
            request.consumer_group,
            request.queue_id,
            request.begin_queue_offset,
            request.end_queue_offset,
        )
        return retry_pb.FindRedrivenDeadLettersResponse(queue_offsets=found)


def _returned(outcome: ReturnOutcome | ServiceError) -> retry_pb.ReturnedMessage:
    if isinstance(outcome, ServiceError):
        return retry_pb.ReturnedMessage(error=status_of(outcome))
    return retry_pb.ReturnedMessage(
        dead_letter=outcome.returned.dead_letter,
        attempts=outcome.returned.attempts,
        duplicate=outcome.duplicate,
    )


def _failure(
    request: retry_pb.ReturnMessageRequest | retry_pb.ReturnMessagesRequest,
) -> Failure:
    """The failure that a request reports.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    for field in ("attempts_max", "local_attempts"):
        count = getattr(request, field)
        if not 0 <= count <= _COUNT_MAX:
            raise field_invalid(field, f"must be 0 to {_COUNT_MAX}", count)
    return_id = request.return_id
    if len(return_id) > RETURN_ID_LENGTH_MAX or holds_control_character(return_id):
        rule = f"must be at most {RETURN_ID_LENGTH_MAX} characters, none of control"
        raise field_invalid("return_id", rule)
    reason = _REASONS.get(request.dead_letter_reason, DeadLetterReason.REJECTED)
    wait_ms = round(seconds_of(request.delay, "delay") * 1000)
    return Failure(
        consumer_group=request.consumer_group,
        topic=request.topic,
        queue_id=request.queue_id,
        wait_ms=wait_ms if request.HasField("delay") else None,
        reason=reason if request.dead_letter else None,
        cause=request.cause,
        attempts_max=request.attempts_max,
        local_attempts=request.local_attempts,
        return_id=return_id,
    )
