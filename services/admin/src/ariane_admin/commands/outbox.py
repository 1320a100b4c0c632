"""``ariane outbox``: sending what applications wrote into their databases, and what was refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from time import monotonic
from typing import Any, Final, TypeVar

import click
from sqlalchemy import Engine, create_engine, func, inspect, select
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.orm import Session, sessionmaker

from ariane_admin.asking.connection import name_servers_option, run_async
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.client_warnings import client_warnings, say_warning
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.error_statuses import exit_status_of
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row, output_option
from ariane_admin.terminal.progress import progress
from ariane_sdk.errors import ArianeError
from ariane_sdk.sql import METADATA, Outbox, OutboxRelay, ParkedMessage, Standstill

DATABASE_VARIABLE: Final = "ARIANE_OUTBOX_DATABASE"
LOOK_INTERVAL_S: Final = 0.5
PAGE_SIZE: Final = 1000

_COLUMNS: Final = (
    *("row_id", "topic", "message_group", "keys", "body_bytes", "attempts", "reason", "parked"),
    "error",
)

_OUTBOX: Final = METADATA.tables["ariane_outbox"]
_PARTITIONS: Final = METADATA.tables["ariane_outbox_partition"]

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _database_option(command: _Command) -> _Command:
    """Give a command the option ``--database`` and the argument `database`."""
    option = click.option(
        "--database",
        required=True,
        envvar=DATABASE_VARIABLE,
        show_envvar=True,
        metavar="URL",
        help="SQLAlchemy's URL of the application's database; better in the environment, where no "
        "list of processes shows its password.",
    )
    return option(command)


@click.command("relay")
@click.argument("name")
@click.option("--until-empty", is_flag=True, help="End when nothing waits any more.")
@click.option(
    "--attempts-max",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Park what was refused so often.",
)
@click.option(
    "--give-up-after",
    "give_up_s",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="End with a status when messages wait and none was sent or parked for so long, by this "
    "relay or another; 0: never.",
)
@_database_option
@name_servers_option
@output_option
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
    """Send the messages of outbox NAME until Ctrl-C, beside any number of other relays.

    What cannot be sent now is told, and tried again. A relay that gets nowhere ends: with the
    status of its last failure.

    \b
    Examples:
      ariane outbox relay shop --database postgresql+psycopg://shop@127.0.0.1/shop
      ariane outbox relay shop --until-empty -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def run(sessions: sessionmaker[Session]) -> Row:
        with sessions() as session:
            _doubt(session, name)
            kept = Outbox.as_kept(session, name)
        sender = OutboxRelay(kept, sessions, name_servers, attempts_max=attempts_max)
        patience = _Patience(give_up_s)
        with progress() as tell, client_warnings(except_for=CommandFailed):
            async with sender:
                while True:
                    now, last_sent = await asyncio.to_thread(_standing, sessions, kept)
                    tell(
                        f"{now['waiting']:,} wait, the oldest for {now['oldest_s']:.0f} s; "
                        f"{now['parked']:,} are parked"
                    )
                    if until_empty and not now["waiting"]:
                        return now
                    patience.check(now, last_sent, sender.standstill())
                    await asyncio.sleep(LOOK_INTERVAL_S)

    with _sessions(database) as sessions:
        row = run_async(run(sessions))
    output.done(f"Nothing waits in outbox {name}; {row['parked']:,} are parked.", row)


@click.command("list")
@click.argument("name")
@click.option("--topic", default="", help="Only for this topic.")
@click.option(
    "--count", type=click.IntRange(1), default=100, show_default=True, help="At most so many."
)
@_database_option
@output_option
def list_parked(*, name: str, topic: str, count: int, database: str, output: Output) -> None:
    """List messages of outbox NAME that brokers refused, the oldest first.

    \b
    Examples:
      ariane outbox list shop
      ariane outbox list shop --topic paid-orders -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    rows: list[Row] = []
    with _sessions(database) as sessions, sessions() as session:
        kept = Outbox(name)
        last_row_id = 0
        while len(rows) < count:
            page = kept.parked(
                session,
                topic=topic,
                after_row_id=last_row_id,
                count_max=min(PAGE_SIZE, count - len(rows)),
            )
            if not page:
                break
            rows += map(_row, page)
            last_row_id = page[-1].row_id
        if not rows:
            _doubt(session, name)
    output.rows(_COLUMNS, rows)


@click.command("requeue")
@click.argument("name")
@click.argument("row_ids", type=int, nargs=-1, metavar="[ROW_ID]...")
@click.option("--topic", default="", help="Only for this topic.")
@yes_option
@_database_option
@output_option
def requeue(
    *, name: str, row_ids: tuple[int, ...], topic: str, yes: bool, database: str, output: Output
) -> None:
    """Have refused messages of outbox NAME be sent again: those named, or all that match.

    Mend first what they were refused for; what is refused again is parked again. They come behind
    what was sent of their message groups meanwhile.

    \b
    Examples:
      ariane outbox requeue shop 4711 4712
      ariane outbox requeue shop --topic paid-orders --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if not row_ids:
        what = f"for {topic}" if topic else "whatever they are for"
        confirm(f"Send all parked messages of outbox {name} again, {what}?", yes=yes)
    with _sessions(database) as sessions, sessions.begin() as session:
        count = Outbox(name).requeue(session, row_ids=row_ids or None, topic=topic)
        if not count:
            _doubt(session, name)
    if row_ids and not count:
        raise CommandFailed(f"outbox {name} has none of these parked", ExitStatus.NOT_FOUND)
    what = "message waits" if count == 1 else "messages wait"
    output.done(f"{count:,} {what} again.", {"outbox": name, "requeued": count})


def _doubt(session: Session, name: str) -> None:
    """Warn of an outbox that the database has nothing of: its name may be mistyped."""
    for table in (_OUTBOX, _PARTITIONS):
        if session.execute(select(table.c.outbox).where(table.c.outbox == name).limit(1)).first():
            return
    known = session.scalars(select(_PARTITIONS.c.outbox).distinct().order_by("outbox")).all()
    others = f"; relays have served {', '.join(known)}" if known else ""
    say_warning(f"this database has nothing of an outbox {name!r}{others}")


@contextmanager
def _sessions(database: str) -> Iterator[sessionmaker[Session]]:
    """Sessions of a database; what it refuses is one line."""
    try:
        engine = create_engine(database)
    except (ArgumentError, NoSuchModuleError) as error:
        raise CommandFailed(f"--database: {error}", ExitStatus.USAGE) from error
    except ModuleNotFoundError as error:
        raise CommandFailed(f"--database: its driver is not installed: {error.name}") from error
    try:
        yield sessionmaker(engine)
    except DBAPIError as error:
        lost = ExitStatus.UNREACHABLE if error.connection_invalidated else ExitStatus.FAILED
        hint = "" if lost is ExitStatus.UNREACHABLE else _hint_of_tables(engine)
        raise CommandFailed(f"the database refuses: {error.orig}{hint}", lost) from error
    finally:
        engine.dispose()


def _hint_of_tables(engine: Engine) -> str:
    """How to make tables that are missing, which each driver says in its own words."""
    try:
        missing = sorted(set(METADATA.tables) - set(inspect(engine).get_table_names()))
    except DBAPIError:
        return ""
    if not missing:
        return ""
    return (
        f"; tables are missing ({', '.join(missing)}): ariane_sdk.sql.create_tables(connection)"
        " makes them, or Alembic with ariane_sdk.sql.METADATA"
    )


class _Patience:
    """Waits for messages to move, for a while."""

    def __init__(self, give_up_s: float) -> None:
        self._give_up_s = give_up_s
        self._last_sent: datetime | None = None
        self._quiet_since_s = monotonic()

    def check(self, now: dict[str, Any], last_sent: datetime | None, still: Standstill) -> None:
        """Look whether anything moves.

        Raises:
            CommandFailed: Messages wait, and for too long no relay has got anywhere.
        """
        if not now["waiting"] or last_sent != self._last_sent:
            self._last_sent = last_sent
            self._quiet_since_s = monotonic()
        quiet_s = min(monotonic() - self._quiet_since_s, still.idle_s)
        if not self._give_up_s or quiet_s < self._give_up_s:
            return
        status, why = ExitStatus.FAILED, "another relay may have its share, and stand still"
        if still.error is not None:
            why = f"the last failure: {still.error}"
            if isinstance(still.error, ArianeError):
                status = exit_status_of(still.error)
        raise CommandFailed(
            f"{now['waiting']:,} messages of outbox {now['outbox']} wait, and none was sent or "
            f"parked for {quiet_s:.0f} s; {why}",
            status,
        )


def _standing(
    sessions: sessionmaker[Session], kept: Outbox
) -> tuple[dict[str, Any], datetime | None]:
    """How an outbox stands, and when something of it was last sent."""
    with sessions() as session:
        lag = kept.lag(session)
        now = {
            "outbox": kept.name,
            "waiting": lag.waiting_count,
            "oldest_s": lag.oldest_s,
            "parked": kept.parked_count(session),
        }
        sent_at = _OUTBOX.c.sent_at
        return now, session.scalar(select(func.max(sent_at)).where(_OUTBOX.c.outbox == kept.name))


def _row(message: ParkedMessage) -> Row:
    return {
        "row_id": message.row_id,
        "topic": message.topic,
        "message_group": message.message_group,
        "keys": list(message.keys),
        "unique_id": message.unique_id,
        "body_bytes": message.body_bytes,
        "written": message.written_at.isoformat(timespec="milliseconds"),
        "parked": message.parked_at.isoformat(timespec="milliseconds"),
        "attempts": message.attempts,
        "reason": message.reason,
        "error": message.error,
    }
