"""``ariane top``: who sends and consumes how much, right now."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime
from itertools import count as numbers
from typing import Final

import click

from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import question_options
from ariane_admin.asking.questions import questions
from ariane_admin.asking.traffic import Look, Traffic, look_at, traffic_between
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row
from ariane_admin.terminal.output_reader import while_read
from ariane_record.names import is_system_group, retry_topic

_TOPIC_COLUMNS: Final = ("topic", "sent_per_s")
_GROUP_COLUMNS: Final = ("group", "topic", "consumed_per_s", "lag")


@click.command("top")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=5.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option(
    "--count", type=click.IntRange(1), help="Stop after so many; by default, go on until Ctrl-C."
)
@click.option(
    "--rows",
    "rows_max",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="The most topics, and the most groups, to show: the fastest.",
)
@question_options
def top(
    *, interval: float, count: int | None, rows_max: int, name_servers: str, output: Output
) -> int:
    """Show how fast topics are filled and groups consume, until Ctrl-C.

    Rates are messages per second between two looks at the offsets. Members of a group store theirs
    every 5 s, so with a shorter interval groups seem to consume in steps. The lag is that of the
    moment.

    A warning names each broker that does not answer; rates then lack its part, and the exit status
    is 3.

    \b
    Examples:
      ariane top
      ariane top --count 1 -o json
      ariane top --interval 1 --rows 5 --count 10
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    return run_async(while_read(_watch(name_servers, interval, count, rows_max, output)))


async def _watch(
    name_servers: str, interval_s: float, count: int | None, rows_max: int, output: Output
) -> ExitStatus:
    async with questions(name_servers) as asked:
        answers = await asked.access.answers()
        before = await look_at(asked.doors, answers, time.monotonic())
        for _ in range(count) if count else numbers():
            await asyncio.sleep(interval_s)
            after = await look_at(asked.doors, answers, time.monotonic())
            _write(after, traffic_between(before, after), rows_max, output)
            before = after
        return asked.status


def _write(now: Look, traffic: Traffic, rows_max: int, output: Output) -> None:
    topics = _topic_rows(traffic)[:rows_max]
    groups = _group_rows(now, traffic)[:rows_max]
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    if output.for_programs:
        seconds = round(traffic.seconds, 3)
        output.line({"time": moment, "seconds": seconds, "topics": topics, "groups": groups})
        return
    if sys.stdout.isatty():
        click.clear()
    click.echo(f"{moment}, over {traffic.seconds:.1f} s\n")
    output.rows(_TOPIC_COLUMNS, topics)
    click.echo()
    output.rows(_GROUP_COLUMNS, groups)


def _topic_rows(traffic: Traffic) -> list[Row]:
    fastest = sorted(traffic.sent.items(), key=lambda each: (-each[1], each[0]))
    return [{"topic": topic, "sent_per_s": round(rate, 1)} for topic, rate in fastest]


def _group_rows(now: Look, traffic: Traffic) -> list[Row]:
    """The groups by rate, then by lag; those of the system, and idle retry topics, are left out."""
    rates = traffic.consumed
    places = [
        (group, topic)
        for (group, topic), lag in now.backlogs.items()
        if not is_system_group(group)
        and (lag or rates.get((group, topic)) or topic != retry_topic(group))
    ]
    places.sort(key=lambda place: (-rates.get(place, 0.0), -now.backlogs[place], place))
    return [
        {
            "group": group,
            "topic": topic,
            "consumed_per_s": round(rates.get((group, topic), 0.0), 1),
            "lag": now.backlogs[group, topic],
        }
        for group, topic in places
    ]
