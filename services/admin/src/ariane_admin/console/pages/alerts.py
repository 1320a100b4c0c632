"""The page of alerts: the watched rules, and present and past alerts."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request

from ariane.admin.v1 import alert_service_pb2 as alert_pb
from ariane_admin.console.api import Asker
from ariane_admin.console.blocks import (
    Block,
    Cell,
    Form,
    Input,
    Notice,
    Page,
    Table,
    number,
    span,
    to,
)
from ariane_admin.console.pages.topics import moment

_WORDS: Final[dict[int, str]] = {
    alert_pb.ALERT_FIGURE_LAG_MESSAGE_COUNT: "Messages not consumed yet",
    alert_pb.ALERT_FIGURE_LAG_SECONDS: "Age of the oldest message in seconds",
    alert_pb.ALERT_FIGURE_DEAD_LETTER_COUNT: "Dead letters",
    alert_pb.ALERT_FIGURE_DISK_USED_RATIO: "Disk in use",
    alert_pb.ALERT_FIGURE_REPLICAS_OUT_OF_SYNC: "Replicas out of sync",
}
_OF_BROKERS: Final = {
    alert_pb.ALERT_FIGURE_DISK_USED_RATIO,
    alert_pb.ALERT_FIGURE_REPLICAS_OUT_OF_SYNC,
}


async def alerts(ask: Asker, request: Request) -> Page:
    """Alerts, newest first, and the watched rules."""
    query = request.query_params
    ended = query.get("ended", "")
    told, watched = await asyncio.gather(
        ask(
            ask.api.alerts.ListAlerts,
            alert_pb.ListAlertsRequest(
                include_ended=bool(ended), page_token=query.get("token", "")
            ),
        ),
        ask(ask.api.alerts.ListAlertRules, alert_pb.ListAlertRulesRequest()),
    )
    search = Form(
        "", "/alerts", (Input("ended", "Those too that ended", ended, "checkbox"),), "Show", "get"
    )
    token = told.next_page_token
    more = to("alerts", ended=ended, token=token) if token else ""
    columns = ("Figure", "Of", "First", "Last", "Bound", "Raised", "Ended")
    table = Table("", columns, [_row(each) for each in told.alerts], "No alert stands.", more)
    rules = Table(
        "What is watched",
        ("Figure", "Bound", "Out of it for"),
        [
            (
                Cell(_WORDS.get(each.figure, "?")),
                _value(each.figure, each.threshold),
                span(each.patience.ToMilliseconds() / 1000),
            )
            for each in watched.rules
        ],
        "Nothing is watched.",
    )
    if watched.webhook:
        hook = Notice("A webhook is told.", "good")
    else:
        hook = Notice("No webhook is told: alert_webhook names one.", "warn")
    blocks: list[Block] = [search, table, rules, hook]
    return Page("Alerts", blocks, "Alerts", 5)


def _row(alert: alert_pb.Alert) -> tuple[Cell, ...]:
    section = "cluster" if alert.figure in _OF_BROKERS else "groups"
    ended = moment(alert, "end_time")
    return (
        Cell(_WORDS.get(alert.figure, "?")),
        Cell(alert.subject, to(section, alert.subject)),
        _value(alert.figure, alert.first_value),
        _value(alert.figure, alert.last_value),
        _value(alert.figure, alert.threshold),
        Cell(moment(alert, "raise_time"), kind="time"),
        Cell(ended, kind="quiet") if ended else Cell("it stands", kind="bad"),
    )


def _value(figure: int, value: float) -> Cell:
    if figure == alert_pb.ALERT_FIGURE_DISK_USED_RATIO:
        return Cell(f"{value:.0%}", kind="number")
    return number(value)
