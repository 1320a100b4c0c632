"""``ariane audit``: who changed what through admin, and whether the trail is whole."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import click

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1.audit_service_pb2_grpc import AuditServiceStub
from ariane_admin.asking.admin_service import (
    ADMIN_SECONDS_MAX,
    admin_channel,
    admin_option,
    entries_of_admin,
)
from ariane_admin.asking.cluster_doors import answer_from
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import count_option
from ariane_admin.counted import counted
from ariane_admin.errors import CommandFailed
from ariane_admin.messages.start_position import MomentType
from ariane_admin.terminal.output import Output, Row, output_option
from ariane_admin.times import moment_text, timestamp_of

_COLUMNS: Final = ("sequence", "begun", "user", "from", "method", "name", "outcome", "reason")
_SHA256_BYTES: Final = 32


@click.command("list")
@click.option("--user", default="", help="Only changes by this user.")
@click.option("--method", default="", help="Only this method, such as DeleteTopic.")
@click.option("--name", default="", help="Only changes to this topic, group or broker.")
@click.option(
    "--from", "begin", type=MomentType(), help="Only changes begun at this time or later."
)
@click.option("--until", "end", type=MomentType(), help="Only changes begun before this time.")
@count_option(100)
@admin_option
@output_option
def list_entries(
    *,
    user: str,
    method: str,
    name: str,
    begin: datetime | None,
    end: datetime | None,
    count: int,
    admin: str,
    output: Output,
) -> None:
    """List the changes made through admin, newest first.

    A user name in brackets is unverified: it is what the client claimed. The outcome "begun" means
    that no end was recorded: the change is still running, or admin died during it and it may or may
    not have taken effect.

    \b
    Examples:
      ariane audit list --name orders
      ariane audit list --method DeleteTopic -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    request = audit_pb.ListAuditEntriesRequest(
        user=user,
        method=method,
        resource_name=name,
        begin_time=timestamp_of(begin),
        end_time=timestamp_of(end),
    )
    found = entries_of_admin(
        admin,
        lambda channel: AuditServiceStub(channel).ListAuditEntries,
        request,
        lambda page: page.entries,
        count=count,
    )
    output.rows(_COLUMNS, map(_row, found))


@click.command("verify")
@click.option(
    "--known",
    metavar="SEQUENCE:SHA256",
    default="",
    help="A record that was noted elsewhere, such as in admin's log.",
)
@admin_option
@output_option
def verify(*, known: str, admin: str, output: Output) -> None:
    """Check that no record of the audit trail was altered or removed.

    A trail that was rewritten from beginning to end is consistent in itself. To detect that, keep
    the last record's number and hash elsewhere (this command prints both, and admin logs them) and
    pass them with --known. The exit status is 1 if the trail is broken.

    \b
    Examples:
      ariane audit verify
      ariane audit verify --known 1042:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    """  # noqa: D301, E501 - \b is click's mark for text that keeps its lines
    request = audit_pb.VerifyAuditTrailRequest()
    if known:
        request.known_sequence, request.known_sha256 = _known(known)

    async def ask() -> dict[str, Any]:
        count = 0
        async with admin_channel(admin) as channel:
            stub = AuditServiceStub(channel)
            while True:
                answer = await answer_from(
                    f"admin {admin}", stub.VerifyAuditTrail, request, seconds_max=ADMIN_SECONDS_MAX
                )
                count += answer.record_count
                if answer.broken_sequence:
                    raise CommandFailed(f"the audit trail is broken: {answer.finding}")
                if not answer.next_sequence:
                    break
                request.first_sequence = answer.next_sequence
        return {
            "records": count,
            "last_sequence": answer.last_sequence,
            "last_sha256": answer.last_sha256.hex(),
        }

    row = run_async(ask())
    last = f"{row['last_sequence']}:{row['last_sha256']}"
    records = counted(row["records"], "record")
    output.done(f"The audit trail is intact: {records}; the last is {last}", row)


def _row(entry: audit_pb.AuditEntry) -> Row:
    return {
        "sequence": entry.begin_sequence,
        "begun": moment_text(entry, "begin_time"),
        "ended": moment_text(entry, "end_time"),
        "user": entry.user or (f"({entry.claimed_user})" if entry.claimed_user else ""),
        "from": entry.source_address,
        "method": entry.method.rpartition("/")[2],
        "name": entry.resource_name,
        "outcome": audit_pb.AuditOutcome.Name(entry.outcome).removeprefix("AUDIT_OUTCOME_").lower(),
        "reason": entry.failure_reason,
        "message": entry.failure_message,
        "request": entry.request_json,
        "before": entry.before_json,
        "after": entry.after_json,
        "sha256": entry.record_sha256.hex(),
    }


def _known(text: str) -> tuple[int, bytes]:
    sequence, _, digits = text.partition(":")
    try:
        sha256 = bytes.fromhex(digits)
    except ValueError:
        sha256 = b""
    if not sequence.isdecimal() or len(sha256) != _SHA256_BYTES:
        raise click.BadParameter(
            f"{text!r}: expected SEQUENCE:SHA256, as ariane audit verify prints it"
        )
    return int(sequence), sha256
