"""``ariane dead-letter``: messages that a group has given up, and sending them back."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import ExitStack, aclosing
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click

from ariane.admin.v1 import dead_letter_service_pb2 as letter_pb
from ariane_admin.asking.changing.changes import AdminChoice, administration, change_options
from ariane_admin.asking.cluster_doors import answer_to_question
from ariane_admin.asking.connection import name_servers_option, run_async
from ariane_admin.asking.options import count_option, question_options, with_options
from ariane_admin.asking.questions import Questions, expect_group, expect_topic, questions
from ariane_admin.counted import counted
from ariane_admin.errors import CommandFailed
from ariane_admin.group_texts import gets_returned
from ariane_admin.messages.message_lines import as_row
from ariane_admin.messages.start_position import MomentType
from ariane_admin.messages.stored_messages import shortened
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.named_files import FileToWrite
from ariane_admin.terminal.output import Output, Row, first_of
from ariane_admin.terminal.progress import progress
from ariane_admin.times import timestamp_of
from ariane_sdk import DeadLetter, DeadLetterFilter, DeadLetters, LiveBroker
from ariane_sdk.errors import AccessDenied, GroupNotFound

_COLUMNS: Final = (
    *("place", "died", "topic", "queue_id", "queue_offset", "attempts", "reason"),
    *("last_error", "redriven", "body"),
)
_REASONS: Final = ("ATTEMPTS_EXHAUSTED", "REJECTED", "CONSUMER_DIED")
_FAILURES_SHOWN: Final = 10
_CHUNK: Final = 5000
"""Dead letters that one call sends back, and one entry of the audit trail tells of."""

_CHUNK_SECONDS_MAX: Final = 600.0
_PLACE_DIGITS_MAX: Final = 19
"""Digits of the largest queue offset."""

_filter_options = with_options(
    click.option("--topic", default="", help="Only dead letters from this topic."),
    click.option("--key", default="", help="Only dead letters with this key or unique id."),
    click.option(
        "--reason",
        type=click.Choice(_REASONS),
        default=None,
        help="Only dead letters with this reason.",
    ),
    click.option(
        "--from",
        "begin",
        type=MomentType(),
        help="Only those that became dead letters at this time or later.",
    ),
    click.option(
        "--until",
        "end",
        type=MomentType(),
        help="Only those that became dead letters before this time.",
    ),
)


@click.command("list")
@click.argument("group")
@_filter_options
@click.option("--not-redriven", is_flag=True, help="Only dead letters that were not sent back yet.")
@count_option(100)
@question_options
def list_letters(
    *, group: str, not_redriven: bool, count: int, name_servers: str, output: Output, **which: Any
) -> int:
    """List the dead letters of GROUP, the oldest of each queue first.

    A warning names each broker that does not answer; the dead letters of the others are listed, and
    the exit status is 3. JSON output does not contain the warning: programs must check the exit
    status.

    \b
    Examples:
      ariane dead-letter list billing
      ariane dead-letter list billing --topic orders --reason REJECTED -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> tuple[Questions, list[Row]]:
        async with questions(name_servers) as asked:
            letters, answers = await asked.access.reader(), await asked.access.answers()

            async def at(broker: LiveBroker) -> list[Row]:
                wanted = replace(
                    _wanted(**which),
                    broker_name=broker.broker_name,
                    redriven=False if not_redriven else None,
                )
                return await _rows(letters, group, wanted, count + 1)

            rows = [row for found in await answers.ask(at) for row in found]
            if not rows:
                await _expect(asked, group, which["topic"])
            return asked, rows

    asked, found = run_async(ask())
    rows = first_of(found, count)
    output.rows(_COLUMNS, rows if output.for_programs else map(shortened, rows))
    return asked.status


@click.command("show")
@click.argument("group")
@click.argument("place")
@question_options
def show(*, group: str, place: str, name_servers: str, output: Output) -> None:
    """Show the dead letter of GROUP at PLACE (BROKER/QUEUE/OFFSET, as `list` shows it).

    \b
    Example:
      ariane dead-letter show billing broker-a/0/17
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    wanted = _at(place)

    async def ask() -> list[Row]:
        async with questions(name_servers) as asked:
            await asked.doors.primaries([wanted.broker_name])
            letters, peer = await asked.access.reader(), f"broker {wanted.broker_name}"
            return await answer_to_question(_rows(letters, group, wanted, 1), peer)

    rows = run_async(ask())
    if not rows:
        raise _nothing_at(group, place)
    output.record(rows[0])


@click.command("export")
@click.argument("group")
@_filter_options
@click.option(
    "--to",
    "target",
    type=FileToWrite(allow_dash=True),
    default="-",
    help="File to write; standard output by default.",
)
@name_servers_option
def export(*, group: str, target: Path, name_servers: str, **which: Any) -> int:
    """Write dead letters of GROUP as JSON lines, each with its whole body.

    A warning names each broker that does not answer; the dead letters of the others are written,
    and the exit status is 3.

    \b
    Example:
      ariane dead-letter export billing --to billing.jsonl
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def write() -> tuple[Questions, int]:
        async with questions(name_servers) as asked:
            letters, answers = await asked.access.reader(), await asked.access.answers()
            turn = asyncio.Lock()
            count = 0
            # Only now: an older export under this name stays if there is nobody to ask.
            file = opened.enter_context(click.open_file(os.fspath(target), "w", encoding="utf-8"))

            async def at(broker: LiveBroker) -> None:
                nonlocal count
                wanted = replace(_wanted(**which), broker_name=broker.broker_name)
                # One after another: the lines are in the order of the queues.
                async with turn, aclosing(letters.read(group, wanted)) as found:
                    async for letter in found:
                        file.write(json.dumps(_row(letter), ensure_ascii=False) + "\n")
                        count += 1

            await answers.ask(at)
            if not count:
                await _expect(asked, group, which["topic"])
            return asked, count

    with ExitStack() as opened:
        asked, count = run_async(write())
    click.echo(f"{counted(count, 'dead letter')} written", err=True)
    return asked.status


@click.command("redrive")
@click.argument("group")
@click.argument("place", required=False)
@_filter_options
@click.option(
    "--to-topic",
    is_flag=True,
    help="Send them to their topic: every group of it gets them again, not only GROUP.",
)
@dry_run_option
@yes_option
@change_options
def redrive(
    *,
    group: str,
    place: str | None,
    to_topic: bool,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
    **which: Any,
) -> int:
    """Send dead letters of GROUP back to their topics: one at PLACE, or all that match.

    Other groups of their topic do not get them again, unless --to-topic is given; without it, a
    group that polls is refused, since it gets none that are sent back to it.

    A dead letter is sent back only once, ever: if the command is interrupted, run it again. All
    brokers must answer, or the command fails; with PLACE only the broker of that dead letter must.

    \b
    Examples:
      ariane dead-letter redrive billing broker-a/0/17
      ariane dead-letter redrive billing --topic orders --from 2026-01-31T10:00:00Z
      ariane dead-letter redrive billing --dry-run
      ariane dead-letter redrive billing --to-topic --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if place is not None and any(which.values()):
        raise click.UsageError("give either PLACE or options that select dead letters")
    request = letter_pb.RedriveDeadLettersRequest(
        consumer_group=group, to_topic=to_topic, message_count_max=_CHUNK
    )
    if place is None:
        request.query.CopyFrom(_query(**which))
    else:
        request.places.append(_place(place))

    run_async(_refuse_pollers(name_servers, group, to_topic=to_topic))

    if dry_run:
        wanted = _wanted(**which) if place is None else _at(place)
        fresh, before = run_async(_counted(name_servers, group, wanted))
        status = (
            ExitStatus.DONE
            if fresh + before
            else _of_none(name_servers, group, place, which["topic"])
        )
        output.done(
            f"{fresh:,} would be sent back; {before:,} were sent back before.",
            {"group": group, "redriven": fresh, "redriven_before": before, "dry_run": True},
        )
        return status
    if place is None:
        which_ones = "the dead letters that match" if any(which.values()) else "all dead letters"
        where = "to all groups of their topics" if to_topic else "to it"
        confirm(f"Send {which_ones} of group {group} back {where}?", yes=yes)

    try:
        done = run_async(_sent_back(name_servers, admin, request))
    except GroupNotFound:
        _refuse_orphans(group, run_async(_counted(name_servers, group, _wanted(**which))))
        done = letter_pb.RedriveDeadLettersResponse()
    some = done.redriven_count or done.duplicate_count or done.failures
    status = ExitStatus.DONE if some else _of_none(name_servers, group, place, which["topic"])
    _write(output, group, done)
    return status


def _of_none(name_servers: str, group: str, place: str | None, topic: str) -> ExitStatus:
    """The exit status of a command that has found no dead letter to send back.

    Raises:
        CommandFailed: One was named.
        GroupNotFound: No broker knows the group.
    """
    if place is not None:
        raise _nothing_at(group, place)

    async def ask() -> ExitStatus:
        async with questions(name_servers) as asked:
            await _expect(asked, group, topic)
            return asked.status

    return run_async(ask())


async def _refuse_pollers(name_servers: str, group: str, *, to_topic: bool) -> None:
    """Refuse to send dead letters back to a group whose members have no retry topic.

    Raises:
        CommandFailed: It is such a group now.
    """
    if to_topic:
        return
    async with questions(name_servers) as asked:
        try:
            found = await asked.group(group)
        except (GroupNotFound, CommandFailed, AccessDenied):
            return  # What follows fails with it, or it is none of the caller's business.
    if not gets_returned(found):
        raise CommandFailed(
            f"group {group} polls for messages, and gets none that are sent back to it: --to-topic"
            " sends its dead letters to all groups of their topics",
            ExitStatus.REFUSED,
        )


def _refuse_orphans(group: str, counts: tuple[int, int]) -> None:
    """Refuse to send dead letters back to a group that was deleted.

    Raises:
        CommandFailed: There are some.
    """
    if sum(counts):
        raise CommandFailed(
            f"group {group} was deleted, so nobody would get them: --to-topic sends its dead"
            " letters to all groups of their topics",
            ExitStatus.NOT_FOUND,
        )


async def _counted(name_servers: str, group: str, wanted: DeadLetterFilter) -> tuple[int, int]:
    """How many dead letters wait, and how many were sent back; no broker may be silent."""
    counts = [0, 0]
    async with questions(name_servers) as asked:
        letters = await asked.access.reader()
        with progress() as show:
            async for letter in letters.read(group, wanted):
                counts[letter.redriven] += 1
                show(f"{sum(counts):,} looked at")
    return counts[0], counts[1]


async def _sent_back(
    name_servers: str, admin: AdminChoice, request: letter_pb.RedriveDeadLettersRequest
) -> letter_pb.RedriveDeadLettersResponse:
    """Send all back that are asked for, some thousand a call."""
    done = letter_pb.RedriveDeadLettersResponse()
    with progress() as show:
        async with administration(name_servers, admin) as changes:
            while True:
                redrive = changes.dead_letters.RedriveDeadLetters
                answer = await changes.ask(redrive, request, seconds_max=_CHUNK_SECONDS_MAX)
                done.redriven_count += answer.redriven_count
                done.duplicate_count += answer.duplicate_count
                done.failures.extend(answer.failures)
                show(
                    f"{done.redriven_count:,} sent back;"
                    f" {done.duplicate_count:,} were sent back before"
                )
                if not answer.HasField("continue_after"):
                    return done
                request.continue_after.CopyFrom(answer.continue_after)


async def _expect(asked: Questions, group: str, topic: str) -> None:
    """Refuse names that nobody knows where no dead letter is found: they may be mistyped.

    Raises:
        GroupNotFound: No broker knows the group, and it has left no dead letter.
        CommandFailed: The same of brokers that answer.
        RouteNotFound: No broker has the topic, if it is not empty.
    """
    try:
        await expect_group(asked, group)
    except (CommandFailed, GroupNotFound):
        letters = await asked.access.reader()
        if not await _rows(letters, group, DeadLetterFilter(), 1):
            raise
    if topic:
        await expect_topic(asked, topic)


def _write(output: Output, group: str, done: letter_pb.RedriveDeadLettersResponse) -> None:
    failures = done.failures
    pairs = [text.partition(": ") for text in failures]
    row = {
        "group": group,
        "redriven": done.redriven_count,
        "redriven_before": done.duplicate_count,
        "failures": [{"place": place, "cause": cause} for place, _, cause in pairs],
    }
    output.done(
        f"{done.redriven_count:,} sent back; {done.duplicate_count:,} were sent back before;"
        f" {len(failures):,} failed.",
        row,
    )
    if failures:
        raise CommandFailed("; ".join(failures[:_FAILURES_SHOWN]), ExitStatus.FAILED)


def _nothing_at(group: str, place: str) -> CommandFailed:
    return CommandFailed(f"group {group} has no dead letter {place}", ExitStatus.NOT_FOUND)


def _wanted(
    *, topic: str, key: str, reason: str | None, begin: datetime | None, end: datetime | None
) -> DeadLetterFilter:
    return DeadLetterFilter(topic=topic, key=key, reason=reason or "", begin=begin, end=end)


def _query(
    *, topic: str, key: str, reason: str | None, begin: datetime | None, end: datetime | None
) -> letter_pb.DeadLetterQuery:
    return letter_pb.DeadLetterQuery(
        origin_topic=topic,
        key=key,
        reason=reason or "",
        begin_time=timestamp_of(begin),
        end_time=timestamp_of(end),
        include_redriven=True,
    )


def _place(text: str) -> letter_pb.DeadLetterPlace:
    broker_name, *numbers = text.rsplit("/", 2)
    if len(numbers) != 2 or not all(
        number.isdecimal() and len(number) <= _PLACE_DIGITS_MAX for number in numbers
    ):
        raise click.UsageError(f"{text!r} is not a place: give BROKER/QUEUE/OFFSET")
    return letter_pb.DeadLetterPlace(
        broker_name=broker_name, queue_id=int(numbers[0]), queue_offset=int(numbers[1])
    )


def _at(place: str) -> DeadLetterFilter:
    at = _place(place)
    return DeadLetterFilter(
        broker_name=at.broker_name, dead_queue_id=at.queue_id, dead_queue_offset=at.queue_offset
    )


async def _rows(
    letters: DeadLetters, group: str, wanted: DeadLetterFilter, count: int
) -> list[Row]:
    rows: list[Row] = []
    async with aclosing(letters.read(group, wanted)) as found:
        async for letter in found:
            rows.append(_row(letter))
            if len(rows) >= count:
                break
    return rows


def _row(letter: DeadLetter) -> Row:
    message, queue = letter.message, letter.message_queue
    place = f"{queue.broker_name}/{queue.queue_id}/{message.queue_offset}"
    described = as_row(message)
    first = {
        "place": place,
        "died": described["store_time"],
        "topic": letter.topic,
        "broker": queue.broker_name,
        "queue_id": letter.queue_id,
        "queue_offset": letter.queue_offset,
        "origin_message_id": letter.origin_message_id,
        "attempts": message.attempts,
        "reason": letter.reason,
        "last_error": letter.last_error,
        "redriven": letter.redriven,
    }
    names = ("unique_id", "tag", "keys", "message_group", "properties", "body", "body_hex")
    rest = {name: described[name] for name in names if name in described}
    return dict(chain(first.items(), rest.items()))
