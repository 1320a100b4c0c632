"""``AuditService``: lists and checks the trail."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from typing import Any, Final

from grpc import aio

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1.audit_service_pb2_grpc import AuditServiceServicer
from ariane_admin.audit.trail import AuditTrail, Entry, Selection
from ariane_admin.servicers.times import milliseconds_in, time_of
from ariane_servicekit import PageRequest, field_invalid
from ariane_servicekit.database import Database

_Context = aio.ServicerContext[Any, Any]

VERIFIED_MAX: Final = 10_000
"""The number of records that one call checks; takes some tenths of a second."""

_SHA256_BYTES: Final = 32


class AuditServicer(AuditServiceServicer):
    """Translates questions about the trail."""

    def __init__(self, trail: AuditTrail, database: Database) -> None:
        self._trail = trail
        self._database = database

    async def ListAuditEntries(
        self, request: audit_pb.ListAuditEntriesRequest, context: _Context
    ) -> audit_pb.ListAuditEntriesResponse:
        """List changes, newest first."""
        wanted = Selection(
            request.user,
            request.method,
            request.resource_name,
            milliseconds_in(request, "begin_time"),
            milliseconds_in(request, "end_time"),
        )
        page = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"audit:{wanted}",
            kinds=(int,),
        )
        before = None if page.last is None else int(page.last[0])
        found = await self._database.call(
            self._trail.entries, wanted, before=before, limit=page.limit + 1
        )
        taken = page.page_of(found, lambda each: (each.begin.record.sequence,))
        return audit_pb.ListAuditEntriesResponse(
            entries=map(entry_message, taken.entries), next_page_token=taken.next_page_token
        )

    async def VerifyAuditTrail(
        self, request: audit_pb.VerifyAuditTrailRequest, context: _Context
    ) -> audit_pb.VerifyAuditTrailResponse:
        """Check a stretch of the chain."""
        for field in ("first_sequence", "known_sequence"):
            if getattr(request, field) < 0:
                raise field_invalid(field, "must be at least 0", getattr(request, field))
        if request.known_sequence and len(request.known_sha256) != _SHA256_BYTES:
            raise field_invalid("known_sha256", "must be 32 bytes beside known_sequence")
        verdict = await self._database.call(
            self._trail.verify, request.first_sequence or 1, limit=VERIFIED_MAX
        )
        answer = audit_pb.VerifyAuditTrailResponse(
            record_count=verdict.record_count,
            next_sequence=verdict.next_sequence,
            last_sequence=verdict.last_sequence,
            last_sha256=verdict.last_sha256,
        )
        if verdict.found is not None:
            # 0 would say that all records fit.
            answer.broken_sequence = max(1, verdict.found.sequence)
            answer.finding = verdict.found.finding
        elif request.known_sequence:
            stored, removed = await self._database.call(
                self._trail.sha256_at, request.known_sequence
            )
            if request.known_sequence < removed.through:
                since = time_of(removed.time_ms).ToJsonString()
                rule = (
                    f"must be at least {removed.through} "
                    f"(record {removed.sequence} of {since} removed those before)"
                )
                raise field_invalid("known_sequence", rule, request.known_sequence)
            if stored != request.known_sha256:
                answer.next_sequence = 0
                answer.broken_sequence = request.known_sequence
                answer.finding = (
                    f"record {request.known_sequence} is not the one whose hash was noted"
                )
        return answer


def entry_message(entry: Entry) -> audit_pb.AuditEntry:
    """A change as a message of the contract."""
    begin, end = entry.begin.record, entry.end
    last = entry.begin if end is None else end
    message = audit_pb.AuditEntry(
        entry_id=begin.entry_id,
        begin_sequence=begin.sequence,
        begin_time=time_of(begin.time_ms),
        user=begin.user,
        claimed_user=begin.claimed_user,
        source_address=begin.source_address,
        method=begin.method,
        resource_name=begin.resource_name,
        request_json=begin.request_json,
        before_json=begin.before_json,
        after_json=last.record.after_json,
        # The number is one of the contract's.
        outcome=last.record.outcome,  # type: ignore[arg-type]
        failure_reason=last.record.failure_reason,
        failure_message=last.record.failure_message,
        record_sha256=last.sha256,
    )
    if end is not None:
        message.end_sequence = end.record.sequence
        message.end_time.CopyFrom(time_of(end.record.time_ms))
    return message
