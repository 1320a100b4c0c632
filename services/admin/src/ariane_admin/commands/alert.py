"""``ariane alert``: what admin watches, and what is or was out of bounds."""

from __future__ import annotations

from typing import Final

import click

from ariane.admin.v1 import alert_service_pb2 as alert_pb
from ariane.admin.v1.alert_service_pb2_grpc import AlertServiceStub
from ariane_admin.asking.admin_service import (
    admin_option,
    answer_of_admin,
    entries_of_admin,
)
from ariane_admin.asking.options import count_option
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row, output_option
from ariane_admin.times import moment_text

_COLUMNS: Final = ("figure", "of", "first", "last", "bound", "raised", "ended")
_RULE_COLUMNS: Final = ("figure", "bound", "patience_s", "webhook")


@click.command("list")
@click.option("--ended", is_flag=True, help="Include alerts of the last 30 days that have ended.")
@count_option(100)
@admin_option
@output_option
def list_alerts(*, ended: bool, count: int, admin: str, output: Output) -> int:
    """List alerts, newest first. The exit status is 1 while an alert is active.

    \b
    Examples:
      ariane alert list
      ariane alert list --ended -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    found = entries_of_admin(
        admin,
        lambda channel: AlertServiceStub(channel).ListAlerts,
        alert_pb.ListAlertsRequest(include_ended=ended),
        lambda page: page.alerts,
        count=count,
    )
    rows = list(map(_row, found))
    output.rows(_COLUMNS, rows)
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
    answer = answer_of_admin(
        admin,
        lambda channel: AlertServiceStub(channel).ListAlertRules,
        alert_pb.ListAlertRulesRequest(),
    )
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
