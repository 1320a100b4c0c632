"""``ariane quota``: how much users, topics and addresses may have and do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from ariane.admin.v1 import quota_service_pb2 as quota_pb
from ariane.admin.v1.quota_service_pb2_grpc import QuotaServiceStub
from ariane.common.v1.quota_pb2 import Quota
from ariane_admin.asking.admin_service import (
    ADMIN_SECONDS_MAX,
    admin_channel,
    admin_option,
    own_name,
)
from ariane_admin.asking.cluster_doors import answer_of, answer_to_question
from ariane_admin.asking.connection import run_async
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row, output_option
from ariane_servicekit.security.limits.meter import (
    CREDENTIALS,
    FIGURE_WORDS,
    GROUPS,
    PREFIX,
    RATES,
    STORED,
    SUBJECT_WORDS,
    TOPIC,
    TOPICS,
)

if TYPE_CHECKING:
    from ariane.admin.v1.quota_service_pb2_grpc import QuotaServiceAsyncStub

_COLUMNS: Final = ("figure", "subject", "name", "limit", "per", "holds_for")
_PAGE: Final = 1000

_FIGURES: Final = {word: figure for figure, word in FIGURE_WORDS.items()}
_SUBJECTS: Final = {word: subject for subject, word in SUBJECT_WORDS.items()}

_figure = click.argument("figure", type=click.Choice(list(_FIGURES)))
_subject = click.argument("subject", type=click.Choice(list(_SUBJECTS)))
_name = click.argument("name")


@asynccontextmanager
async def _quotas(admin: str) -> AsyncIterator[QuotaServiceAsyncStub]:
    async with admin_channel(admin) as channel:
        yield QuotaServiceStub(channel)


async def _all(admin: str) -> list[Quota]:
    found: list[Quota] = []
    request = quota_pb.ListQuotasRequest(page_size=_PAGE)
    async with _quotas(admin) as stub:
        while True:
            call = stub.ListQuotas(request, timeout=ADMIN_SECONDS_MAX)
            page = await answer_to_question(call, f"admin {admin}")
            found += page.quotas
            request.page_token = page.next_page_token
            if not request.page_token:
                return found


@click.command("list")
@admin_option
@output_option
def list_quotas(*, admin: str, output: Output) -> None:
    """List all quotas; * stands for each one without a quota of its own.

    \b
    Example:
      ariane quota list -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    output.rows(_COLUMNS, map(_row, run_async(_all(admin))))


@click.command("show")
@_subject
@_name
@admin_option
@output_option
def show(*, subject: str, name: str, admin: str, output: Output) -> None:
    """Show the quotas that hold for NAME: its own, or those of all without.

    \b
    Examples:
      ariane quota show user anna
      ariane quota show topic orders
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    wanted = "" if name == "*" else name
    held: dict[int, Quota] = {}
    for quota in run_async(_all(admin)):
        # Quotas come by name: the one of all without their own, which has none, is the first.
        if quota.subject == _SUBJECTS[subject] and quota.name in {"", wanted}:
            held[quota.figure] = quota
    output.rows(_COLUMNS, map(_row, held.values()))


@click.command("set")
@_figure
@_subject
@_name
@click.argument("limit", type=click.IntRange(1, (1 << 63) - 1))
@admin_option
@output_option
def set_quota(
    *, figure: str, subject: str, name: str, limit: int, admin: str, output: Output
) -> None:
    """Let NAME, a thing of the kind SUBJECT, have LIMIT of FIGURE; * is each without a quota.

    sent-bytes, received-bytes and calls are for a second, of a user or a topic: who goes beyond is
    answered later, and refused only when he owes more than 5 seconds. stored-bytes is of a topic;
    topics and groups are of all names with a prefix; credentials are of a user; connections of a
    user or an address. The change holds everywhere within seconds.

    \b
    Examples:
      ariane quota set sent-bytes user anna 10485760
      ariane quota set stored-bytes topic orders 1073741824
      ariane quota set topics prefix shop- 100
      ariane quota set connections address '*' 500
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    quota = _quota_of(figure, subject, name, limit)

    async def change() -> Quota:
        async with _quotas(admin) as stub:
            request = quota_pb.SetQuotaRequest(quota=quota)
            call = stub.SetQuota(request, timeout=ADMIN_SECONDS_MAX, metadata=own_name())
            return (await answer_of(call, f"admin {admin}")).quota

    made = run_async(change())
    output.done(f"{subject} {name} may have {limit} {figure}", _row(made))


@click.command("delete")
@_figure
@_subject
@_name
@admin_option
@output_option
def delete(*, figure: str, subject: str, name: str, admin: str, output: Output) -> None:
    """Delete the quota of FIGURE that NAME has.

    \b
    Example:
      ariane quota delete sent-bytes user anna
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    quota = _quota_of(figure, subject, name, 1)

    async def change() -> bool:
        async with _quotas(admin) as stub:
            request = quota_pb.DeleteQuotaRequest(quota=quota)
            call = stub.DeleteQuota(request, timeout=ADMIN_SECONDS_MAX, metadata=own_name())
            return (await answer_of(call, f"admin {admin}")).known

    if not run_async(change()):
        raise CommandFailed(
            f"{subject} {name} has no quota of {figure}; ariane quota list shows all",
            ExitStatus.NOT_FOUND,
        )
    row = {"figure": figure, "subject": subject, "name": name}
    output.done(f"the quota of {figure} of {subject} {name} is deleted", row)


def _quota_of(figure: str, subject: str, name: str, limit: int) -> Quota:
    quota = Quota(name="" if name == "*" else name, limit=limit)
    quota.figure = _FIGURES[figure]  # type: ignore[assignment]  # it came from the contract
    quota.subject = _SUBJECTS[subject]  # type: ignore[assignment]
    return quota


def _row(quota: Quota) -> Row:
    row: dict[str, Any] = {
        "figure": FIGURE_WORDS.get(quota.figure, str(quota.figure)),
        "subject": SUBJECT_WORDS.get(quota.subject, str(quota.subject)),
        "name": quota.name or "*",
        "limit": quota.limit,
        "per": "second" if quota.figure in RATES else "",
        "holds_for": _holds_for(quota),
    }
    return row


def _holds_for(quota: Quota) -> str:
    if quota.figure == CREDENTIALS:
        return "the cluster"
    by_broker = quota.figure in {STORED, TOPICS, GROUPS} or quota.subject in {TOPIC, PREFIX}
    return "each broker" if by_broker else "each process"
