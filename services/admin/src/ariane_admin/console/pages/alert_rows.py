"""Alerts as rows of tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ariane.admin.v1 import alert_service_pb2 as alert_pb
from ariane_admin.console.blocks import Cell, Table, moment, number, to

WORDS: Final[dict[int, str]] = {
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

_COLUMNS: Final = ("Figure", "Of", "First", "Last", "Bound", "Raised", "Ended")


def alerts_table(title: str, alerts: Iterable[alert_pb.Alert], more: str = "") -> Table:
    """A table of alerts; ``more`` leads to its next page."""
    return Table(title, _COLUMNS, [_row(each) for each in alerts], "No alert is active.", more)


def _row(alert: alert_pb.Alert) -> tuple[Cell, ...]:
    section = "cluster" if alert.figure in _OF_BROKERS else "groups"
    ended = moment(alert, "end_time")
    return (
        Cell(WORDS.get(alert.figure, "?")),
        Cell(alert.subject, to(section, alert.subject)),
        figure_value(alert.figure, alert.first_value),
        figure_value(alert.figure, alert.last_value),
        figure_value(alert.figure, alert.threshold),
        Cell(moment(alert, "raise_time"), kind="time"),
        Cell(ended, kind="quiet") if ended else Cell("still active", kind="bad"),
    )


def figure_value(figure: int, value: float) -> Cell:
    """A value of a figure, in its unit."""
    if figure == alert_pb.ALERT_FIGURE_DISK_USED_RATIO:
        return Cell(f"{value:.0%}", kind="number")
    return number(value)
