"""The pages of processes, transactions and the audit trail."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from google.protobuf.json_format import MessageToDict
from grpc import StatusCode
from grpc.aio import AioRpcError
from starlette.requests import Request

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import cluster_service_pb2 as cluster_pb
from ariane.admin.v1 import transaction_service_pb2 as transaction_pb
from ariane.admin.v1.quota_service_pb2 import BrokerQuotaUse
from ariane.common.v1.quota_pb2 import QuotaUse
from ariane_admin.console.api import Asker
from ariane_admin.console.blocks import (
    Block,
    Cell,
    Fields,
    Form,
    Input,
    Listing,
    Notice,
    Page,
    Table,
    moment,
    next_page,
    number,
    size,
    to,
    yes,
)
from ariane_admin.console.changing.broker_forgetting import away_blocks
from ariane_admin.console.pages.limits import uses_table
from ariane_admin.console.pages.replicas import replica_blocks
from ariane_admin.counted import counted

_OUTCOMES: Final[dict[int, Cell]] = {
    audit_pb.AUDIT_OUTCOME_BEGUN: Cell("begun, no end", kind="warn"),
    audit_pb.AUDIT_OUTCOME_DONE: Cell("done", kind="good"),
    audit_pb.AUDIT_OUTCOME_PARTLY: Cell("in part", kind="warn"),
    audit_pb.AUDIT_OUTCOME_FAILED: Cell("failed", kind="bad"),
    audit_pb.AUDIT_OUTCOME_UNKNOWN: Cell("not known", kind="warn"),
}


async def cluster(ask: Asker, request: Request) -> Page:
    """Brokers and name servers."""
    token = request.query_params.get("token", "")
    answer = await ask(ask.api.cluster.ListBrokers, cluster_pb.ListBrokersRequest(page_token=token))
    servers = await ask(ask.api.cluster.ListNameServers, cluster_pb.ListNameServersRequest())
    more = next_page(answer, "cluster")
    columns = (
        *("Broker", "Id", "Address", "Version", "Takes messages", "Led away", "Disk"),
        *("In a second", "Out a second", "Clients", "State"),
    )
    rows = [_broker_row(each) for each in answer.brokers]
    brokers = Table("Brokers", columns, rows, "No broker is registered.", more)
    names = [
        (
            Cell(each.address, kind="code"),
            number(each.broker_count),
            number(each.topic_count),
            Cell(f"{each.answer_duration.ToMilliseconds()} ms", kind="number"),
            Cell(each.error.message, kind="bad")
            if each.HasField("error")
            else Cell("", kind="good"),
        )
        for each in servers.name_servers
    ]
    name_columns = ("Name server", "Brokers", "Topics, system's too", "Answers in", "Error")
    servers_table = Table("Name servers", name_columns, names)
    blocks = [brokers, *away_blocks(answer.away_brokers), servers_table]
    return Page("Cluster", blocks, "Cluster", 5)


async def broker(ask: Asker, request: Request) -> Page:
    """One broker, by its own state."""
    name = request.path_params["broker"]
    answer = await ask(ask.api.cluster.GetBroker, cluster_pb.GetBrokerRequest(broker_name=name))
    found = answer.broker
    trail = [Cell("Cluster", "/cluster")]
    if found.HasField("error"):
        return Page(name, [Notice(found.error.message, "bad")], "Cluster", trail=trail)
    state = MessageToDict(found.state, preserving_proto_field_name=True)
    named = Input("broker", value=name, kind="hidden")
    led_away = not found.writable or found.liveness.write_wiped
    drain = Form("Take it out of service", "/cluster/drain", (named,), "Drain", danger=True)
    restore = Form("Let it take messages again", "/cluster/restore", (named,), "Restore")
    blocks: list[Block] = [
        Fields(
            "",
            [
                ("Address", Cell(found.liveness.identity.address, kind="code")),
                ("Version", Cell(found.version)),
                ("Takes messages", yes(is_so=found.writable)),
                ("Producers are led away", yes(is_so=found.liveness.write_wiped, bad=True)),
                ("Disk in use", Cell(f"{found.store.disk_used_ratio:.0%}")),
                ("Log kept", size(_kept(found))),
                ("Flush", Cell(found.store.flush_mode)),
                ("Clients", number(found.client_count)),
                ("Settings", Cell("see", to("settings", service="broker"))),
            ],
        ),
        *(Notice(each) for each in found.state.recovery_findings),
        *await replica_blocks(ask, name),
        *quota_blocks(name, found.state.quota_uses),
        Listing("All that it says", json.dumps(state, indent=2)),
        restore if led_away else drain,
    ]
    return Page(name, blocks, "Cluster", trail=trail)


def quota_blocks(broker_name: str, uses: Iterable[QuotaUse]) -> Sequence[Block]:
    """What is used of quotas at a broker; nothing if nobody has one."""
    rows = [BrokerQuotaUse(broker_name=broker_name, use=use) for use in uses]
    return (uses_table("Quotas", rows),) if rows else ()


async def transactions(ask: Asker, request: Request) -> Page:
    """Half messages without an outcome."""
    query = request.query_params
    parked, chosen = query.get("parked", ""), query.get("id", "")
    asked = transaction_pb.ListTransactionsRequest(
        parked=bool(parked),
        producer_group=query.get("group", ""),
        topic=query.get("topic", ""),
        page_token=query.get("token", ""),
    )
    given = {"group": asked.producer_group, "topic": asked.topic, "parked": parked}
    search = Form(
        "",
        "/transactions",
        (
            Input("group", "Producer group", asked.producer_group, "search"),
            Input("topic", "Topic", asked.topic, "search"),
            Input("parked", "Those nobody could answer for", parked, "checkbox"),
        ),
        "Search",
        "get",
    )
    try:
        answer = await ask(ask.api.transactions.ListTransactions, asked)
    except AioRpcError as error:
        if error.code() is not StatusCode.UNIMPLEMENTED:
            raise
        none = Notice("Admin knows no transaction checker: its setting checkers names them.")
        return Page("Transactions", [none], "Transactions")
    rows = [
        (
            Cell(each.transaction_id, to("transactions", **given, id=each.transaction_id), "code"),
            Cell(each.topic, to("topics", each.topic)),
            Cell(each.producer_group),
            Cell(" ".join(each.keys)),
            Cell(moment(each, "store_time"), kind="time"),
            Cell(f"{each.check_count} of {each.check_count_max}", kind="number"),
            Cell(moment(each, "next_check_time"), kind="time"),
        )
        for each in answer.transactions
    ]
    columns = ("Transaction", "Topic", "Producers", "Keys", "Stored", "Asked", "Next question")
    more = next_page(answer, "transactions", **given)
    decide = Form(
        "End a transaction",
        "/transactions/decide",
        (
            Input("id", "Transaction", chosen, required=True),
            Input(
                "outcome",
                "Outcome",
                "ROLLBACK",
                "select",
                (("ROLLBACK", "roll back"), ("COMMIT", "commit")),
            ),
            Input("cause", "Why, for people", required=True),
        ),
        "End it",
        danger=True,
        is_open=bool(chosen),
    )
    resume = Form(
        "Have the producers of a parked one asked again",
        "/transactions/resume",
        (Input("id", "Transaction", chosen, required=True),),
        "Ask again",
    )
    table = Table("", columns, rows, "No transaction waits.", more)
    return Page("Transactions", [search, table, decide, resume], "Transactions")


async def audit(ask: Asker, request: Request) -> Page:
    """The audit trail."""
    query = request.query_params
    given = {name: query.get(name, "") for name in ("user", "method", "resource")}
    answer = await ask(
        ask.api.audit.ListAuditEntries,
        audit_pb.ListAuditEntriesRequest(
            user=given["user"],
            method=given["method"],
            resource_name=given["resource"],
            page_size=50,
            page_token=query.get("token", ""),
        ),
    )
    checked = await ask(ask.api.audit.VerifyAuditTrail, audit_pb.VerifyAuditTrailRequest())
    if checked.broken_sequence:
        seal = Notice(f"The trail is broken: {checked.finding}.", "bad")
    elif not checked.record_count:
        seal = Notice("The trail is empty.", "good")
    else:
        so_far = " so far" if checked.next_sequence else ""
        seal = Notice(
            f"The trail is intact{so_far}: {counted(checked.record_count, 'record')};"
            f" record {checked.last_sequence} has hash {checked.last_sha256.hex()[:16]}...",
            "good",
        )
    rows = [
        (
            Cell(moment(each, "begin_time"), to("audit", str(each.begin_sequence)), "time"),
            Cell(_who(each)),
            Cell(each.source_address, kind="code"),
            Cell(each.method.rpartition("/")[2]),
            Cell(each.resource_name),
            _OUTCOMES.get(each.outcome, Cell("?")),
            Cell(each.failure_reason),
        )
        for each in answer.entries
    ]
    search = Form(
        "",
        "/audit",
        (
            Input("resource", "Name", given["resource"], "search"),
            Input("method", "Method", given["method"], "search"),
            Input("user", "Who", given["user"], "search"),
        ),
        "Search",
        "get",
    )
    more = next_page(answer, "audit", **given)
    columns = ("When", "Who", "From", "What", "Of what", "Outcome", "Reason")
    table = Table("", columns, rows, "Nothing was changed.", more)
    return Page("Audit trail", [seal, search, table], "Audit")


async def entry(ask: Asker, request: Request) -> Page:
    """One change with the state before and after."""
    sequence = request.path_params["sequence"]
    asked = audit_pb.ListAuditEntriesRequest(page_size=1000)
    while True:
        answer = await ask(ask.api.audit.ListAuditEntries, asked)
        found = [each for each in answer.entries if each.begin_sequence == sequence]
        asked.page_token = answer.next_page_token
        if found or not asked.page_token or answer.entries[-1].begin_sequence < sequence:
            break
    trail = [Cell("Audit trail", "/audit")]
    if not found:
        return Page("No such entry", [Notice("There is none.")], "Audit", status=404, trail=trail)
    [one] = found
    blocks: list[Block] = [
        Fields(
            "",
            [
                ("What", Cell(one.method)),
                ("Of what", Cell(one.resource_name)),
                ("Who", Cell(_who(one))),
                ("From", Cell(one.source_address)),
                ("Begun", Cell(moment(one, "begin_time"))),
                ("Ended", Cell(moment(one, "end_time") or "nobody wrote an end")),
                ("Outcome", _OUTCOMES.get(one.outcome, Cell("?"))),
                ("Reason", Cell(f"{one.failure_reason} {one.failure_message}".strip())),
                ("Hash of its last record", Cell(one.record_sha256.hex(), kind="code")),
            ],
        ),
        Listing("Asked", _pretty(one.request_json)),
        Listing("Before", _pretty(one.before_json)),
        Listing("After", _pretty(one.after_json)),
    ]
    return Page(f"Change {sequence}", blocks, "Audit", trail=trail)


def _who(entry: audit_pb.AuditEntry) -> str:
    return entry.user or (f"{entry.claimed_user} (claimed)" if entry.claimed_user else "")


def _broker_row(each: cluster_pb.ClusterBroker) -> tuple[Cell, ...]:
    identity = each.liveness.identity
    state = Cell("silent", kind="bad") if each.HasField("error") else Cell("answers", kind="good")
    refusal = each.store.refusal
    return (
        Cell(identity.broker_name, to("cluster", identity.broker_name)),
        number(identity.broker_id),
        Cell(identity.address, kind="code"),
        Cell(each.version),
        yes(is_so=each.writable),
        yes(is_so=each.liveness.write_wiped, bad=True),
        Cell(f"{each.store.disk_used_ratio:.0%}", kind="number"),
        number(each.throughput.stored_messages_per_second),
        number(each.throughput.pulled_messages_per_second),
        number(each.client_count),
        Cell(refusal, kind="bad") if refusal else state,
    )


def _kept(found: cluster_pb.ClusterBroker) -> int:
    return found.store.max_commit_log_offset - found.store.min_commit_log_offset


def _pretty(text: str) -> str:
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False) if text else "(nothing)"
