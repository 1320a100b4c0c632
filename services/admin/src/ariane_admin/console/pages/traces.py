"""The page of message traces."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane_admin.console.api import Asker, silence
from ariane_admin.console.blocks import (
    Cell,
    Form,
    Input,
    Notice,
    Page,
    Table,
    moment,
    next_page,
)

SECTION: Final = "Traces"

_KINDS: Final = {
    message_pb.MESSAGE_TRACE_KIND_SEND: "sent",
    message_pb.MESSAGE_TRACE_KIND_CONSUME: "consumed",
    message_pb.MESSAGE_TRACE_KIND_END_TRANSACTION: "transaction ended",
    message_pb.MESSAGE_TRACE_KIND_RECALL: "taken back",
}


async def traces(ask: Asker, request: Request) -> Page:
    """The trace of the message with a unique id."""
    unique_id = request.query_params.get("unique_id", "").strip()
    search = Form(
        "",
        "/traces",
        (Input("unique_id", "Unique id", unique_id, "search", required=True),),
        "Search",
        "get",
    )
    if not unique_id:
        hint = "Say of which message. Clients tell of theirs with message_trace in their settings."
        return Page("Traces", [search, Notice(hint)], SECTION)
    answer = await ask(
        ask.api.messages.ListMessageTraces,
        message_pb.ListMessageTracesRequest(
            unique_id=unique_id, page_token=request.query_params.get("token", "")
        ),
    )
    rows = [_row(trace) for trace in answer.traces]
    more = next_page(answer, "traces", unique_id=unique_id)
    columns = ("Began", "What", "Group", "Client", "User", "Attempt", "Took", "Outcome", "Trace")
    table = Table("Its life", columns, rows, "Nobody recorded it.", more)
    return Page("Traces", [search, *silence(answer), table], SECTION)


def _row(trace: message_pb.MessageTrace) -> tuple[Cell, ...]:
    took = f"{trace.duration.ToMilliseconds():,} ms" if trace.HasField("duration") else ""
    good = trace.successful
    return (
        Cell(moment(trace, "begin_time"), kind="time"),
        Cell(_KINDS.get(trace.kind, "not known")),
        Cell(trace.group),
        Cell(trace.client_id),
        Cell(trace.user),
        Cell(str(trace.attempts or ""), kind="number"),
        Cell(took, kind="number"),
        Cell("done" if good else "failed, or not ended", kind="good" if good else "bad"),
        Cell(trace.trace_id),
    )
