"""``ariane alert``: what admin watches, and what is or was out of bounds."""

from __future__ import annotations

from typing import Final

import click

from ariane.admin.v1 import alert_service_pb2 as alert_pb
from ariane.admin.v1.alert_service_pb2_grpc import AlertServiceStub
from ariane_admin.asking.admin_service import ADMIN_SECONDS_MAX, admin_channel, admin_option
from ariane_admin.asking.cluster_doors import answer_to_question
from ariane_admin.asking.connection import run_async
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row, first_of, output_option
from ariane_admin.times import moment_text

_COLUMNS: Final = ("figure", "of", "first", "last", "bound", "raised", "ended")
_RULE_COLUMNS: Final = ("figure", "bound", "patience_s", "webhook")
_PAGE_MAX: Final = 1000


@click.command("list")
@click.option("--ended", is_flag=True, help="Include alerts of the last 30 days that have ended.")
@click.option(
    "--count",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Maximum number of rows to list.",
)
@admin_option
@output_option
def list_alerts(*, ended: bool, count: int, admin: str, output: Output) -> int:
    """List alerts, newest first. The exit status is 1 while an alert is active.

    \b
    Examples:
      ariane alert list
      ariane alert list --ended -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> list[Row]:
        rows: list[Row] = []
        request = alert_pb.ListAlertsRequest(include_ended=ended)
        async with admin_channel(admin) as channel:
            stub = AlertServiceStub(channel)
            while len(rows) <= count:
                request.page_size = min(count + 1 - len(rows), _PAGE_MAX)
                call = stub.ListAlerts(request, timeout=ADMIN_SECONDS_MAX)
                page = await answer_to_question(call, f"admin {admin}")
                rows += map(_row, page.alerts)
                request.page_token = page.next_page_token
                if not request.page_token:
                    break
        return rows

    rows = run_async(ask())
    output.rows(_COLUMNS, first_of(rows, count))
    stands = any(row["ended"] is None for row in rows)
    return ExitStatus.FAILED if stands else ExitStatus.DONE


@click.command("rules")
@admin_option
@output_option
def rules(*, admin: str, output: Output) -> None:
    """List the alert rules; the settings of admin define them.

    \b
    Example:
      ariane alert rules
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> alert_pb.ListAlertRulesResponse:
        async with admin_channel(admin) as channel:
            request = alert_pb.ListAlertRulesRequest()
            call = AlertServiceStub(channel).ListAlertRules(request, timeout=ADMIN_SECONDS_MAX)
            return await answer_to_question(call, f"admin {admin}")

    answer = run_async(ask())
    output.rows(
        _RULE_COLUMNS,
        [
            {
                "figure": _word(each.figure),
                "bound": each.threshold,
                "patience_s": each.patience.ToMilliseconds() / 1000,
                "webhook": answer.webhook,
            }
            for each in answer.rules
        ],
    )


def _row(alert: alert_pb.Alert) -> Row:
    return {
        "figure": _word(alert.figure),
        "of": alert.subject,
        "first": alert.first_value,
        "last": alert.last_value,
        "bound": alert.threshold,
        "raised": moment_text(alert, "raise_time"),
        "ended": moment_text(alert, "end_time"),
    }


def _word(figure: alert_pb.AlertFigure.ValueType) -> str:
    return alert_pb.AlertFigure.Name(figure).removeprefix("ALERT_FIGURE_").lower()
