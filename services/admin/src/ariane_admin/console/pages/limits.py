"""The page of quotas: what users, topics and addresses may have, and what they use of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from grpc import StatusCode
from grpc.aio import AioRpcError
from starlette.requests import Request

from ariane.admin.v1 import quota_service_pb2 as quota_pb
from ariane_admin.console.api import Asker, silence
from ariane_admin.console.blocks import (
    Block,
    Cell,
    CellKind,
    Form,
    Input,
    Notice,
    Page,
    Table,
    number,
    to,
)
from ariane_admin.console.changing.change import Change, Given, NotDone, number_in
from ariane_admin.quota_rows import (
    FIGURES,
    QUOTA_COLUMNS,
    REFUSED,
    SLOWED,
    SUBJECTS,
    USE_COLUMNS,
    quota_of,
    quota_row,
    use_row,
)

SECTION: Final = "Limits"

_HEADS: Final[Mapping[str, str]] = {
    "figure": "Of what",
    "subject": "Whose",
    "holds_for": "Holds for",
    "part": "Part",
    "state": "Now",
    "waited_s": "Held back, s",
    "age_s": "Last, s ago",
}
"""Heads of columns that are not their names with a capital."""

_STATE_KINDS: Final[Mapping[str, CellKind]] = {REFUSED: "bad", SLOWED: "warn"}


async def limits(ask: Asker, request: Request) -> Page:
    """What is used of quotas, and all that are set, a hundred of each on a page."""
    query = request.query_params
    used, stated = query.get("used", ""), query.get("token", "")
    quotas, uses = await asyncio.gather(
        ask(ask.api.quotas.ListQuotas, quota_pb.ListQuotasRequest(page_token=stated)),
        _uses(ask, quota_pb.ListQuotaUsesRequest(page_token=used)),
    )
    more = quotas.next_page_token
    blocks: list[Block] = []
    if isinstance(uses, Notice):
        blocks.append(uses)
    else:
        further = uses.next_page_token
        blocks += [
            *silence(uses),
            uses_table(
                "What is used",
                uses.uses,
                to("limits", used=further, token=stated) if further else "",
            ),
        ]
    blocks += [
        Table(
            "What is set",
            _heads(QUOTA_COLUMNS),
            [_cells(QUOTA_COLUMNS, quota_row(each)) for each in quotas.quotas],
            "No quota is set.",
            to("limits", used=used, token=more) if more else "",
        ),
        *_forms(),
    ]
    return Page("Limits", blocks, SECTION, 5)


def uses_table(title: str, uses: Iterable[quota_pb.BrokerQuotaUse], more: str = "") -> Table:
    """A table of what is used; ``more`` leads to its next page."""
    rows = [_cells(USE_COLUMNS, use_row(each)) for each in uses]
    return Table(title, _heads(USE_COLUMNS), rows, "Nobody with a quota uses anything.", more)


async def _uses(
    ask: Asker, asked: quota_pb.ListQuotaUsesRequest
) -> quota_pb.ListQuotaUsesResponse | Notice:
    try:
        return await ask(ask.api.quotas.ListQuotaUses, asked)
    except AioRpcError as error:
        # Limits are shown even if no broker says what is used.
        if error.code() not in {StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED}:
            raise
        return Notice(error.details() or "No broker answers.")


def _heads(columns: Iterable[str]) -> list[str]:
    return [_HEADS.get(each, each.capitalize()) for each in columns]


def _cells(columns: Iterable[str], row: Mapping[str, Any]) -> list[Cell]:
    return [_cell(column, row[column]) for column in columns]


def _cell(column: str, value: Any) -> Cell:
    if value is None:
        return Cell("", kind="number")
    if column == "part":
        return Cell(f"{value:.0%}", kind="number")
    if column == "broker":
        return Cell(value, to("cluster", value))
    if isinstance(value, int | float):
        return number(value)
    kind = "code" if column == "name" else _STATE_KINDS.get(value, "")
    return Cell(value, kind=kind)


def _forms() -> tuple[Form, Form]:
    whose = (
        Input("figure", "Of what", "sent-bytes", "select", _options(FIGURES)),
        Input("subject", "Whose", "user", "select", _options(SUBJECTS)),
        Input("name", "Name; * is each without a quota", required=True),
    )
    limit = Input("limit", "Limit", required=True)
    return (
        Form("Set a quota", "/limits/set", (*whose, limit), "Set"),
        Form("Delete a quota", "/limits/delete", whose, "Delete", danger=True),
    )


def _options(words: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((word, word) for word in words)


async def _set(ask: Asker, given: Given) -> str:
    quota = quota_of(given["figure"], given["subject"], given["name"], number_in(given, "limit"))
    answer = await ask(ask.api.quotas.SetQuota, quota_pb.SetQuotaRequest(quota=quota))
    row = quota_row(answer.quota)
    return f"{row['subject']} {row['name']} may have {row['limit']:,} {row['figure']}."


async def _delete(ask: Asker, given: Given) -> str:
    quota = quota_of(given["figure"], given["subject"], given["name"])
    answer = await ask(ask.api.quotas.DeleteQuota, quota_pb.DeleteQuotaRequest(quota=quota))
    row = quota_row(quota)
    if not answer.known:
        raise NotDone(f"{row['subject']} {row['name']} has no quota of {row['figure']}.")
    return f"The quota of {row['figure']} of {row['subject']} {row['name']} is deleted."


def _back(_: Given) -> str:
    return "/limits"


LIMIT_CHANGES: Final[Mapping[str, Change]] = {
    "/limits/set": Change("Let {subject} {name} have {limit} of {figure}?", _set, _back),
    "/limits/delete": Change(
        "Delete the quota of {figure} that {subject} {name} has?", _delete, _back, danger=True
    ),
}
"""The changes of quotas, by the path of their forms."""
