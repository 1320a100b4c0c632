"""``ariane outbox``: sending what applications wrote into their databases, and what was refused.

Here the commands are described; the work, and with it SQLAlchemy, is loaded when one runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import count_option, question_options
from ariane_admin.counted import are, counted
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, first_of, output_option
from ariane_servicekit.running.process_list import hide

DATABASE_VARIABLE: Final = "ARIANE_OUTBOX_DATABASE"

_COLUMNS: Final = (
    *("row_id", "topic", "message_group", "keys", "body_bytes", "attempts", "reason", "parked"),
    "error",
)

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _hidden(_context: click.Context, _option: click.Parameter, url: str) -> str:
    hide(flags=("--database",), variables=(DATABASE_VARIABLE,))
    return url


def _database_option(command: _Command) -> _Command:
    """Give a command the option ``--database`` and the argument `database`."""
    option = click.option(
        "--database",
        required=True,
        envvar=DATABASE_VARIABLE,
        show_envvar=True,
        metavar="URL",
        callback=_hidden,
        help="SQLAlchemy URL of the application's database. Prefer the environment variable:"
        " shells remember options, and lists of processes show one until the command has read it.",
    )
    return option(command)


@click.command("relay")
@click.argument("name")
@click.option("--until-empty", is_flag=True, help="End when no message is waiting.")
@click.option(
    "--attempts-max",
    type=click.IntRange(1, (1 << 31) - 1),
    default=50,
    show_default=True,
    help="Park a message after it was refused this many times.",
)
@click.option(
    "--give-up-after",
    "give_up_s",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="End with an error when messages are waiting and no relay has sent or parked"
    " one for this many seconds; 0 means never.",
)
@_database_option
@question_options
def relay(
    *,
    name: str,
    until_empty: bool,
    attempts_max: int,
    give_up_s: float,
    database: str,
    name_servers: str,
    output: Output,
) -> None:
    """Send the messages of outbox NAME until Ctrl-C; any number of relays may run.

    A message that cannot be sent is reported and retried. A relay that makes no progress
    (--give-up-after) ends with the exit status of its last failure.

    \b
    Examples:
      ariane outbox relay shop --database postgresql+psycopg://shop@127.0.0.1/shop
      ariane outbox relay shop --until-empty -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    from ariane_admin.commands.messaging import outbox_work  # noqa: PLC0415 - see above

    with outbox_work.sessions_of(database) as sessions:
        work = outbox_work.relayed(
            sessions,
            name,
            name_servers,
            until_empty=until_empty,
            attempts_max=attempts_max,
            give_up_s=give_up_s,
        )
        row = run_async(work)
    output.done(f"No message is waiting in outbox {name}; {row['parked']:,} are parked.", row)


@click.command("list")
@click.argument("name")
@click.option("--topic", default="", help="Only messages for this topic.")
@count_option(100)
@_database_option
@output_option
def list_parked(*, name: str, topic: str, count: int, database: str, output: Output) -> None:
    """List the messages of outbox NAME that brokers refused, oldest first.

    \b
    Examples:
      ariane outbox list shop
      ariane outbox list shop --topic paid-orders -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    from ariane_admin.commands.messaging import outbox_work  # noqa: PLC0415 - see above

    with outbox_work.sessions_of(database) as sessions, sessions() as session:
        rows = outbox_work.parked_rows(session, name, topic, count + 1)
    output.rows(_COLUMNS, first_of(rows, count))


@click.command("requeue")
@click.argument("name")
@click.argument("row_ids", type=int, nargs=-1, metavar="[ROW_ID]...")
@click.option("--topic", default="", help="Only messages for this topic.")
@yes_option
@_database_option
@output_option
def requeue(
    *, name: str, row_ids: tuple[int, ...], topic: str, yes: bool, database: str, output: Output
) -> None:
    """Queue refused messages of outbox NAME to be sent again: those given, or all that match.

    First fix what they were refused for; messages that are refused again are parked again. Within
    their message groups they come after those that were sent in the meantime.

    \b
    Examples:
      ariane outbox requeue shop 4711 4712
      ariane outbox requeue shop --topic paid-orders --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if not row_ids:
        what = f"for {topic}" if topic else "of all topics"
        confirm(f"Send all parked messages of outbox {name} again, {what}?", yes=yes)
    from ariane_admin.commands.messaging import outbox_work  # noqa: PLC0415 - see above

    with outbox_work.sessions_of(database) as sessions, sessions.begin() as session:
        count = outbox_work.requeued(session, name, row_ids, topic)
    if row_ids and not count:
        raise CommandFailed(f"outbox {name} has no such parked messages", ExitStatus.NOT_FOUND)
    text = f"{counted(count, 'message')} {are(count)} waiting again."
    output.done(text, {"outbox": name, "requeued": count})
