"""``ariane quota``: how much users, topics and addresses may have and do."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ariane.admin.v1 import quota_service_pb2 as quota_pb
from ariane.admin.v1.quota_service_pb2_grpc import QuotaServiceStub
from ariane.common.v1.quota_pb2 import Quota
from ariane_admin.asking.admin_service import admin_option, changed_by_admin, entries_of_admin
from ariane_admin.errors import CommandFailed
from ariane_admin.quota_rows import (
    FIGURES,
    QUOTA_COLUMNS,
    SUBJECTS,
    USE_COLUMNS,
    quota_of,
    quota_row,
    use_row,
)
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, output_option

_figure = click.argument("figure", type=click.Choice(list(FIGURES)))
_subject = click.argument("subject", type=click.Choice(list(SUBJECTS)))
_name = click.argument("name")


def _all(admin: str) -> Sequence[Quota]:
    return entries_of_admin(
        admin,
        lambda channel: QuotaServiceStub(channel).ListQuotas,
        quota_pb.ListQuotasRequest(),
        lambda page: page.quotas,
    )


@click.command("list")
@admin_option
@output_option
def list_quotas(*, admin: str, output: Output) -> None:
    """List all quotas; * stands for each one without a quota of its own.

    \b
    Example:
      ariane quota list -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    output.rows(QUOTA_COLUMNS, map(quota_row, _all(admin)))


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
    for quota in _all(admin):
        # Quotas come by name: the one of all without their own, which has none, is the first.
        if quota.subject == SUBJECTS[subject] and quota.name in {"", wanted}:
            held[quota.figure] = quota
    output.rows(QUOTA_COLUMNS, map(quota_row, held.values()))


@click.command("usage")
@admin_option
@output_option
def usage(*, admin: str, output: Output) -> int:
    """List what is used of quotas at brokers: first who is kept back now, then who uses most.

    Of rates, used is what a second took on average over the last 10 seconds, and of all others how
    much there is. refused and waited_s count since the broker began. A broker tells of 100 at most.

    \b
    Examples:
      ariane quota usage
      ariane quota usage -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    silent: dict[str, str] = {}

    def uses_of(page: quota_pb.ListQuotaUsesResponse) -> Sequence[quota_pb.BrokerQuotaUse]:
        silent.update((s.broker_name, s.error.message) for s in page.silent_brokers)
        return page.uses

    uses = entries_of_admin(
        admin,
        lambda channel: QuotaServiceStub(channel).ListQuotaUses,
        quota_pb.ListQuotaUsesRequest(),
        uses_of,
    )
    output.rows(USE_COLUMNS, map(use_row, uses))
    for message in silent.values():
        say_warning(f"a broker does not answer, and the result lacks it: {message}")
    return ExitStatus.UNREACHABLE if silent else ExitStatus.DONE


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
    quota = quota_of(figure, subject, name, limit)
    request = quota_pb.SetQuotaRequest(quota=quota)
    made = changed_by_admin(admin, lambda channel: QuotaServiceStub(channel).SetQuota, request)
    output.done(f"{subject} {name} may have {limit} {figure}", quota_row(made.quota))


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
    quota = quota_of(figure, subject, name, 1)
    request = quota_pb.DeleteQuotaRequest(quota=quota)
    done = changed_by_admin(admin, lambda channel: QuotaServiceStub(channel).DeleteQuota, request)
    if not done.known:
        raise CommandFailed(
            f"{subject} {name} has no quota of {figure}; ariane quota list shows all",
            ExitStatus.NOT_FOUND,
        )
    row = {"figure": figure, "subject": subject, "name": name}
    output.done(f"the quota of {figure} of {subject} {name} is deleted", row)
