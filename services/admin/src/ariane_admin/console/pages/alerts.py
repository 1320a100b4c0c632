"""The page of alerts: the watched rules, and present and past alerts."""

from __future__ import annotations

import asyncio

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
    next_page,
    span,
)
from ariane_admin.console.pages.alert_rows import WORDS, alerts_table, figure_value


async def alerts(ask: Asker, request: Request) -> Page:
    """Alerts, newest first, and the watched rules."""
    query = request.query_params
    ended = query.get("ended", "")
    answer, watched = await asyncio.gather(
        ask(
            ask.api.alerts.ListAlerts,
            alert_pb.ListAlertsRequest(
                include_ended=bool(ended), page_token=query.get("token", "")
            ),
        ),
        ask(ask.api.alerts.ListAlertRules, alert_pb.ListAlertRulesRequest()),
    )
    search = Form(
        "",
        "/alerts",
        (Input("ended", "Also those that have ended", ended, "checkbox"),),
        "Show",
        "get",
    )
    table = alerts_table("", answer.alerts, next_page(answer, "alerts", ended=ended))
    rules = Table(
        "What is watched",
        ("Figure", "Bound", "For longer than"),
        [
            (
                Cell(WORDS.get(each.figure, "?")),
                figure_value(each.figure, each.threshold),
                span(each.patience.ToMilliseconds() / 1000),
            )
            for each in watched.rules
        ],
        "Nothing is watched.",
    )
    if watched.webhook:
        hook = Notice("A webhook is called.", "good")
    else:
        hook = Notice(
            "Nobody is told of alerts: admin's setting alert_webhook names a URL to call.", "warn"
        )
    blocks: list[Block] = [search, table, rules, hook]
    return Page("Alerts", blocks, "Alerts", 5)
