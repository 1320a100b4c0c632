"""``ariane sink``: the names that exactly-once writes leave on brokers."""

from __future__ import annotations

from typing import Final

import click

from ariane.admin.v1.sink_service_pb2 import (
    ClusterSink,
    DeleteSinkRequest,
    ListSinksRequest,
    ListSinksResponse,
    MoveSinkRequest,
)
from ariane_admin.asking.changing.changes import AdminChoice, change_options, changed
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import question_options
from ariane_admin.asking.questions import Questions, answered, expect_topic, questions
from ariane_admin.counted import counted
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.output import Output, Row
from ariane_admin.times import moment_text
from ariane_sdk.errors import ServiceUnavailable, SinkNotFound

_COLUMNS: Final = (
    *("name", "topic", "home", "state", "batch", "rows", "committed", "staged_rows"),
    "staged_bytes",
)


@click.command("list")
@click.option("--topic", default="", help="Only sinks that write to this topic.")
@question_options
def list_sinks(*, topic: str, name_servers: str, output: Output) -> int:
    """List the sinks of exactly-once writes by name.

    The list shows the broker that decides about the batches of each sink (its home), the last
    committed batch with the number of rows, and the rows staged but not committed. The state names
    brokers that have a part of a batch and wait for the word of the home (prepared), and those that
    do not know yet that a batch is committed (not notified). Brokers forget a sink that has not
    been used for 90 days. The exit status is 3 if a broker does not answer.

    \b
    Examples:
      ariane sink list
      ariane sink list --topic copies -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    def found(answer: ListSinksResponse) -> list[ClusterSink]:
        return [sink for sink in answer.sinks if topic in ("", sink.topic)]

    async def believed(asked: Questions, answer: ListSinksResponse) -> None:
        if topic and not found(answer):
            await expect_topic(asked, topic)

    asked, answer = answered(
        name_servers,
        lambda one: one.sinks.ListSinks,
        ListSinksRequest(),
        warn_of_absent=True,
        believed=believed,
    )
    output.rows(_COLUMNS, map(_row, found(answer)))
    return asked.status


@click.command("move")
@click.argument("name")
@click.argument("broker")
@click.option(
    "--home-is-gone",
    is_flag=True,
    help="Move the sink although its current broker does not answer.",
)
@click.option(
    "--committed-batch",
    type=click.IntRange(0, (1 << 63) - 1),
    metavar="BATCH",
    help="With --home-is-gone: the last batch known to be committed on the old broker.",
)
@click.option(
    "--topic",
    help="The topic of a sink that no broker knows; '' if its rows name topics.",
)
@yes_option
@change_options
def move(
    *,
    name: str,
    broker: str,
    home_is_gone: bool,
    committed_batch: int | None,
    topic: str | None,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Have BROKER decide about the batches of sink NAME.

    It first asks all other brokers of the sink which batches are committed, so that none is written
    twice; a running stream follows. If the old broker is gone for good, give --home-is-gone: the
    other brokers are asked all the same. Only what the old broker had committed without any other
    broker is not known then: the stream writes the batch that is open in its checkpoint, unless
    --committed-batch says that it was committed. The same holds if no broker that answers knows the
    sink: --home-is-gone then gives up on those that are away, and --topic says what the sink writes
    to. It belongs to the next user that writes to it.

    \b
    Examples:
      ariane sink move 6f0c.../copies broker-b
      ariane sink move 6f0c.../copies broker-b --home-is-gone
      ariane sink move 6f0c.../copies broker-b --home-is-gone --topic copies
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if committed_batch is not None and not home_is_gone:
        raise click.UsageError(
            "--committed-batch requires --home-is-gone: a live broker knows its last batch"
        )

    request = MoveSinkRequest(
        sink_name=name,
        broker_name=broker,
        home_is_gone=home_is_gone,
        committed_batch_id=committed_batch,
        topic=topic,
    )
    question = f"Move sink {name} to {broker} without asking its current broker?"
    if not home_is_gone:
        sink = run_async(_sink(name_servers, name))
        question = f"Move sink {name} from {sink.home} to {broker}?"
    else:
        question += " What it alone had committed may be there twice if it comes back."
    confirm(question, yes=yes)
    try:
        moved = changed(name_servers, admin, lambda one: one.sinks.MoveSink, request)
    except ServiceUnavailable as error:
        if not home_is_gone:
            error.add_note(
                "if a broker is gone for good, wait until ariane broker list no longer shows"
                " it, and give --home-is-gone"
            )
        raise
    for broker_name in moved.unnotified_broker_names:
        say_warning(f"broker {broker_name} was not notified; the next write does that")
    before = moved.previous_home
    known = "; no broker that answers knew it" if not before else ""
    if before and not moved.previous_home_answered:
        known = f"; what {before} alone had committed is not known"
    output.done(
        f"{moved.home} now decides for sink {name}{known}.",
        {
            "sink": name,
            "home": moved.home,
            "home_before": before,
            "home_before_answered": moved.previous_home_answered,
            "batch": moved.batch_id if moved.HasField("batch_id") else None,
        },
    )


@click.command("delete")
@click.argument("name")
@dry_run_option
@yes_option
@change_options
def delete(
    *,
    name: str,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Delete sink NAME from all brokers, with the rows that it has staged.

    Committed rows stay. Delete only sinks that are no longer used: if the stream continues or the
    write is repeated, its first batch may be written a second time.

    \b
    Examples:
      ariane sink delete write/job-1/copies --dry-run
      ariane sink delete write/job-1/copies
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if dry_run or not yes:
        sink = run_async(_sink(name_servers, name))
        if dry_run:
            output.done(
                f"Sink {name}, {_last_use(sink)}, would be deleted.",
                {**_row(sink), "dry_run": True},
            )
            return
        confirm(f"Delete sink {name}, {_last_use(sink)}?", yes=yes)
    request = DeleteSinkRequest(sink_name=name)
    deleted = changed(name_servers, admin, lambda one: one.sinks.DeleteSink, request)
    count = len(deleted.broker_names)
    staged = f"{counted(deleted.dropped_row_count, 'staged row')} dropped"
    if deleted.lost_row_count:
        lost = counted(deleted.lost_row_count, "committed row")
        staged += f", and lost, since nothing could read it: {lost}"
    output.done(
        f"Deleted sink {name} from {counted(count, 'broker')}; {staged}.",
        {
            "sink": name,
            "brokers": list(deleted.broker_names),
            "dropped_rows": deleted.dropped_row_count,
            "lost_rows": deleted.lost_row_count,
        },
    )


async def _sink(name_servers: str, name: str) -> ClusterSink:
    async with questions(name_servers, complete=True) as asked:
        found = (await asked.sinks.ListSinks(ListSinksRequest(name=name))).sinks
    if not found:
        raise SinkNotFound(f"no broker knows sink {name!r}; ariane sink list shows all")
    return found[0]


def _row(sink: ClusterSink) -> Row:
    return {
        "name": sink.name,
        "topic": sink.topic,
        "home": sink.home,
        "state": _state(sink),
        "batch": sink.batch_id if sink.HasField("batch_id") else None,
        "rows": sink.row_count if sink.HasField("row_count") else None,
        "committed": moment_text(sink, "commit_time"),
        "staged_rows": sink.staged_row_count,
        "staged_bytes": sink.staged_bytes,
        "staged": moment_text(sink, "stage_time"),
        "failure": sink.failure,
        "brokers": list(sink.broker_names),
        "staged_by_broker": dict(sink.staged_bytes_by_broker),
        "prepared": dict(sink.prepared_batch_ids),
        "unnotified": list(sink.unnotified_broker_names),
    }


def _state(sink: ClusterSink) -> str:
    if sink.failure:
        return "damaged"
    if sink.home and not sink.home_is_live:
        return "home does not answer"
    if sink.unnotified_broker_names:
        return f"not notified: {', '.join(sink.unnotified_broker_names)}"
    if sink.publishing:
        return "publishing"
    return f"prepared: {', '.join(sink.prepared_batch_ids)}" if sink.prepared_batch_ids else "ok"


def _last_use(sink: ClusterSink) -> str:
    """When something was written last, and what would go."""
    times = [moment_text(sink, field) for field in ("commit_time", "stage_time")]
    latest = max(filter(None, times), default="")
    used = f"used last at {latest}" if latest else "never written to"
    return f"{used}, with {counted(sink.staged_row_count, 'staged row')}"
