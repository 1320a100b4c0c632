"""The overview: brokers, throughput, backlogs, and findings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, TypeVar

from google.protobuf.duration_pb2 import Duration
from grpc import StatusCode
from grpc.aio import AioRpcError
from markupsafe import Markup, escape
from starlette.requests import Request

from ariane.admin.v1 import alert_service_pb2 as alert_pb
from ariane.admin.v1 import cluster_service_pb2 as cluster_pb
from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1 import history_service_pb2 as history_pb
from ariane.admin.v1 import lag_service_pb2 as lag_pb
from ariane_admin.console.api import Asker, silence
from ariane_admin.console.blocks import (
    Block,
    Cell,
    Chart,
    Charts,
    Notice,
    Page,
    Table,
    Tiles,
    number,
    size,
    span,
    to,
)
from ariane_admin.console.pages.alert_rows import alerts_table
from ariane_admin.counted import counted

REFRESH_S: Final = 5

_SERIES: Final = (
    ("Stored messages a second", history_pb.SERIES_KIND_STORED_RATE),
    ("Messages handed out a second", history_pb.SERIES_KIND_PULLED_RATE),
    ("Messages not consumed yet", history_pb.SERIES_KIND_GROUP_LAG),
)
_LONGEST: Final = lag_pb.ListGroupLagsRequest(
    order=lag_pb.LAG_ORDER_MESSAGE_COUNT, message_count_min=1, page_size=10
)

_SHOWN_IN_PLACE: Final[Mapping[StatusCode, Literal["bad", "warn"]]] = {
    StatusCode.UNAVAILABLE: "bad",
    StatusCode.DEADLINE_EXCEEDED: "bad",
    StatusCode.PERMISSION_DENIED: "warn",
}

_Answer = TypeVar("_Answer")

RECEIVING: Final = ("In flight", "Delayed", "Ready")
"""States of the messages of members that receive without owning queues, as column names."""

WIDTH: Final = 480

HEIGHT: Final = 130

_LEFT: Final = 46

_BOTTOM: Final = 18

_TOP: Final = 8


async def overview(ask: Asker, _request: Request) -> Page:
    """The whole cluster on one page; of a user with few rights, the part that he may see."""
    api = ask.api
    parts = await asyncio.gather(
        or_failure(ask(api.cluster.ListClusters, cluster_pb.ListClustersRequest())),
        or_failure(ask(api.cluster.DiagnoseCluster, cluster_pb.DiagnoseClusterRequest())),
        or_failure(ask(api.alerts.ListAlerts, alert_pb.ListAlertsRequest())),
        or_failure(ask(api.lags.ListGroupLags, _LONGEST)),
        or_failure(asyncio.gather(*(chart(ask, title, kind) for title, kind in _SERIES))),
    )
    clusters, findings, standing, behind, charts = parts
    # One cause may stand for many parts.
    blocks: list[Block] = [*dict.fromkeys(part for part in parts if isinstance(part, Notice))]
    if not isinstance(clusters, Notice):
        for cluster in clusters.clusters:
            blocks += silence(cluster)
            blocks.append(_tiles(cluster))
        if not clusters.clusters and not blocks:
            blocks.append(Notice("No broker is registered with the name servers.", "bad"))
    alerts = () if isinstance(standing, Notice) else standing.alerts
    if alerts:
        blocks.append(alerts_table("Alerts", alerts))
    if not isinstance(findings, Notice):
        if findings.findings:
            blocks.append(_findings(findings))
        elif not alerts:
            blocks.append(_all_well(findings))
    if not isinstance(charts, Notice):
        blocks.append(Charts(charts))
    if not isinstance(behind, Notice):
        blocks.append(_behind(behind))
    return Page("Overview", blocks, "Overview", REFRESH_S)


def _all_well(answer: cluster_pb.DiagnoseClusterResponse) -> Notice:
    servers, brokers = answer.name_server_count, answer.broker_count
    named = f"{counted(servers, 'name server')} and {counted(brokers, 'broker')}"
    return Notice(f"All is well: {named} answer.", "good")


async def or_failure(answer: Awaitable[_Answer]) -> _Answer | Notice:
    """An answer, or what is shown in its place: nobody is there to ask, or the user may not.

    Raises:
        AioRpcError: It failed for another reason.
    """
    try:
        return await answer
    except AioRpcError as error:
        kind = _SHOWN_IN_PLACE.get(error.code())
        if kind is None:
            raise
        return Notice(error.details() or str(error.code()), kind)


async def chart(
    ask: Asker, title: str, kind: history_pb.SeriesKind.ValueType, name: str = ""
) -> Chart:
    """The last hour of a series."""
    # At the resolution of samples: admin widens the steps if there are too many.
    asked = history_pb.GetHistoryRequest(kind=kind, name=name, step_duration=Duration(seconds=1))
    answer = await ask(ask.api.history.GetHistory, asked)
    points = [(each.time.ToMilliseconds(), each.value) for each in answer.points]
    gap_ms = 3 * answer.step_duration.ToMilliseconds()
    return Chart(title, line_chart(points, title, gap_ms=gap_ms))


def _tiles(cluster: cluster_pb.Cluster) -> Tiles:
    flow = cluster.throughput
    away = cluster.silent_broker_count
    brokers = f"{cluster.broker_count - away} of {cluster.broker_count}" if away else None
    return Tiles(
        [
            ("Cluster", Cell(cluster.cluster_name, to("cluster"))),
            (
                "Brokers",
                Cell(brokers, to("cluster"), "bad")
                if brokers
                else _linked(cluster.broker_count, "cluster"),
            ),
            ("Topics", _linked(cluster.topic_count, "topics")),
            ("Groups", _linked(cluster.consumer_group_count, "groups")),
            ("Clients", _linked(cluster.client_count, "clients")),
            ("Stored a second", number(flow.stored_messages_per_second)),
            ("Handed out a second", number(flow.pulled_messages_per_second)),
            ("Bytes in a second", size(flow.stored_bytes_per_second)),
            ("Not consumed yet", number(cluster.lag_message_count)),
        ]
    )


def _linked(count: int, section: str) -> Cell:
    return Cell(f"{count:,}", to(section))


def _findings(answer: cluster_pb.DiagnoseClusterResponse) -> Table:
    kinds: dict[int, Cell] = {
        cluster_pb.DIAGNOSIS_SEVERITY_ERROR: Cell("error", kind="bad"),
        cluster_pb.DIAGNOSIS_SEVERITY_WARNING: Cell("warning", kind="warn"),
    }
    rows = [
        (
            kinds.get(each.severity, Cell("note", kind="quiet")),
            Cell(each.subject),
            Cell(each.finding),
            Cell(each.advice),
        )
        for each in answer.findings
    ]
    return Table("What is wrong, and what to do", ("", "With what", "Finding", "Advice"), rows)


def receiving_cells(lag: lag_pb.GroupLag | group_pb.ClusterGroup) -> tuple[Cell, Cell, Cell]:
    """Messages in flight, delayed and ready; empty if no member receives without owning queues."""
    if not lag.HasField("receiving"):
        return Cell(""), Cell(""), Cell("")
    counts = lag.receiving
    return (
        number(counts.in_flight_count),
        number(counts.delayed_count),
        number(counts.ready_count),
    )


def _behind(answer: lag_pb.ListGroupLagsResponse) -> Table:
    receiving = any(each.HasField("receiving") for each in answer.lags)
    shown = RECEIVING if receiving else ()
    rows = [
        (
            Cell(each.consumer_group, to("groups", each.consumer_group)),
            Cell(each.topic, to("topics", each.topic)),
            number(each.message_count),
            span(each.delay.ToMilliseconds() / 1000),
            *(receiving_cells(each) if receiving else ()),
            Cell(
                str(each.member_count),
                kind="number" if each.member_count or each.HasField("receiving") else "number bad",
            ),
        )
        for each in answer.lags
    ]
    columns = ("Group", "Topic", "Messages", "Oldest", *shown, "Members")
    return Table("Longest backlogs", columns, rows, "No group is behind.")


def line_chart(points: Sequence[tuple[int, float]], label: str, *, gap_ms: int) -> Markup:
    """A line over time, with its greatest value and its ends named.

    Args:
        points: Milliseconds since 1970 and value, oldest first.
        label: The text for screen readers.
        gap_ms: Points further apart than this are not joined: there are no samples between them.
    """
    if not points:
        return Markup('<p class="quiet">No samples yet.</p>')
    begin, end = points[0][0], points[-1][0]
    top = max(value for _, value in points) or 1.0
    span_ms = max(1, end - begin)

    def place(time_ms: int, value: float) -> tuple[float, float]:
        x = _LEFT + (time_ms - begin) / span_ms * (WIDTH - _LEFT - 4)
        y = _TOP + (1 - value / top) * (HEIGHT - _TOP - _BOTTOM)
        return round(x, 1), round(y, 1)

    runs: list[list[tuple[float, float]]] = []
    last_ms: int | None = None
    for time_ms, value in points:
        if last_ms is None or time_ms - last_ms > gap_ms:
            runs.append([])
        runs[-1].append(place(time_ms, value))
        last_ms = time_ms
    floor = HEIGHT - _BOTTOM
    drawn = []
    for run in runs:
        line = " ".join(f"{x},{y}" for x, y in run)
        if len(run) == 1:
            drawn.append(f'<circle class="line" cx="{run[0][0]}" cy="{run[0][1]}" r="1.5"/>')
            continue
        area = f"{run[0][0]},{floor} {line} {run[-1][0]},{floor}"
        drawn.append(f'<polygon class="area" points="{area}"/>')
        drawn.append(f'<polyline class="line" points="{line}"/>')
    now = f"{label}, now {_short(points[-1][1])}, at most {_short(top)}"
    return Markup(  # noqa: S704 - all that comes from elsewhere is escaped, the rest are numbers
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(now)}">'
        f'<line class="axis" x1="{_LEFT}" y1="{floor}" x2="{WIDTH}" y2="{floor}"/>'
        f'<text x="{_LEFT - 4}" y="{_TOP + 8}" text-anchor="end">{_short(top)}</text>'
        f'<text x="{_LEFT - 4}" y="{floor}" text-anchor="end">0</text>'
        f'<text x="{_LEFT}" y="{HEIGHT - 4}">{_clock(begin)}</text>'
        f'<text x="{WIDTH - 4}" y="{HEIGHT - 4}" text-anchor="end">{_clock(end)} UTC</text>'
        f"{''.join(drawn)}</svg>"
    )


def _clock(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%H:%M")


def _short(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.1f}{unit}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2f}"
