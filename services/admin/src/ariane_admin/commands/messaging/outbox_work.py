"""The work of ``ariane outbox``, on the database of an application."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final

from sqlalchemy import URL, Engine, create_engine, func, inspect, select
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.orm import Session, sessionmaker

from ariane_admin.counted import counted
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.client_warnings import client_warnings, say_warning
from ariane_admin.terminal.error_statuses import exit_status_of
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Row
from ariane_admin.terminal.progress import progress
from ariane_sdk.errors import ArianeError
from ariane_sdk.sql import METADATA, Outbox, OutboxRelay, ParkedMessage, Standstill

LOOK_INTERVAL_S: Final = 0.5
PAGE_SIZE: Final = 1000

_OUTBOX: Final = METADATA.tables["ariane_outbox"]
_PARTITIONS: Final = METADATA.tables["ariane_outbox_partition"]


async def relayed(
    sessions: sessionmaker[Session],
    name: str,
    name_servers: str,
    *,
    until_empty: bool,
    attempts_max: int,
    give_up_s: float,
) -> Row:
    """Send the messages of an outbox, until it is empty or for ever.

    Args:
        sessions: Sessions of the database.
        name: The outbox.
        name_servers: "host:port" of each, separated by commas.
        until_empty: Whether to end when no message waits any more.
        attempts_max: Refusals after which a message is parked.
        give_up_s: The longest time without progress, in seconds; 0: no limit.

    Returns:
        The state of the outbox at the end.

    Raises:
        CommandFailed: Messages wait, and no relay made progress for too long.
    """
    with sessions() as session:
        _doubt(session, name)
        kept = Outbox.as_kept(session, name)
    sender = OutboxRelay(kept, sessions, name_servers, attempts_max=attempts_max)
    patience = _Patience(give_up_s)
    with progress() as show, client_warnings(except_for=CommandFailed):
        async with sender:
            while True:
                now, last_sent = await asyncio.to_thread(_standing, sessions, kept)
                show(
                    f"{now['waiting']:,} wait, the oldest for {now['oldest_s']:.0f} s; "
                    f"{now['parked']:,} are parked"
                )
                if until_empty and not now["waiting"]:
                    return now
                patience.check(now, last_sent, sender.standstill())
                await asyncio.sleep(LOOK_INTERVAL_S)


def parked_rows(session: Session, name: str, topic: str, count: int) -> list[Row]:
    """The first messages of an outbox that brokers refused, for one topic or all."""
    kept = Outbox(name)
    rows: list[Row] = []
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
    return rows


def requeued(session: Session, name: str, row_ids: Sequence[int], topic: str) -> int:
    """Let parked messages be sent again, named ones or all that match; return their number."""
    count = Outbox(name).requeue(session, row_ids=row_ids or None, topic=topic)
    if not count:
        _doubt(session, name)
    return count


def _doubt(session: Session, name: str) -> None:
    """Warn if the database has no rows of an outbox: its name may be mistyped."""
    for table in (_OUTBOX, _PARTITIONS):
        if session.execute(select(table.c.outbox).where(table.c.outbox == name).limit(1)).first():
            return
    known = session.scalars(select(_PARTITIONS.c.outbox).distinct().order_by("outbox")).all()
    others = f"; relays have served {', '.join(known)}" if known else ""
    say_warning(f"this database has no outbox {name!r}{others}")


@contextmanager
def sessions_of(database: str) -> Iterator[sessionmaker[Session]]:
    """Sessions of a database; its errors become one line.

    Raises:
        CommandFailed: The address is invalid, the database refuses, or its file does not exist.
    """
    try:
        engine = create_engine(database)
    except (ArgumentError, NoSuchModuleError) as error:
        raise CommandFailed(f"--database: {error}", ExitStatus.USAGE) from error
    except ModuleNotFoundError as error:
        raise CommandFailed(f"--database: its driver is not installed: {error.name}") from error
    _check_file(engine.url)
    try:
        yield sessionmaker(engine)
    except DBAPIError as error:
        lost = ExitStatus.UNREACHABLE if error.connection_invalidated else ExitStatus.FAILED
        hint = "" if lost is ExitStatus.UNREACHABLE else _hint_of_tables(engine)
        raise CommandFailed(
            f"the database refused the request: {error.orig}{hint}", lost
        ) from error
    finally:
        engine.dispose()


def _check_file(url: URL) -> None:
    """Refuse a missing file: for a mistyped path SQLite would create an empty database."""
    path = url.database
    if url.get_backend_name() != "sqlite" or not path or path.startswith((":memory:", "file:")):
        return
    if not Path(path).is_file():
        raise CommandFailed(f"--database: there is no file {path}", ExitStatus.USAGE)


def _hint_of_tables(engine: Engine) -> str:
    """Advice on missing tables; each driver has its own text for that error."""
    try:
        missing = sorted(set(METADATA.tables) - set(inspect(engine).get_table_names()))
    except DBAPIError:
        return ""
    if not missing:
        return ""
    return (
        f"; tables are missing ({', '.join(missing)}): ariane_sdk.sql.create_tables(connection)"
        " creates them, or Alembic with ariane_sdk.sql.METADATA"
    )


class _Patience:
    """Checks that messages make progress."""

    def __init__(self, give_up_s: float) -> None:
        self._give_up_s = give_up_s
        self._last_sent: datetime | None = None
        self._quiet_since_s = monotonic()

    def check(self, now: dict[str, Any], last_sent: datetime | None, still: Standstill) -> None:
        """Check for progress.

        Raises:
            CommandFailed: Messages wait, and no relay made progress for too long.
        """
        if not now["waiting"] or last_sent != self._last_sent:
            self._last_sent = last_sent
            self._quiet_since_s = monotonic()
        quiet_s = min(monotonic() - self._quiet_since_s, still.idle_s)
        if not self._give_up_s or quiet_s < self._give_up_s:
            return
        status, why = ExitStatus.FAILED, "another relay may hold the messages, and be stuck"
        if still.error is not None:
            why = f"the last failure: {still.error}"
            if isinstance(still.error, ArianeError):
                status = exit_status_of(still.error)
        raise CommandFailed(
            f"outbox {now['outbox']} has {counted(now['waiting'], 'message')} that"
            f" {'waits' if now['waiting'] == 1 else 'wait'}, and none was sent or parked for"
            f" {quiet_s:.0f} s; {why}",
            status,
        )


def _standing(
    sessions: sessionmaker[Session], kept: Outbox
) -> tuple[dict[str, Any], datetime | None]:
    """The state of an outbox, and when a message of it was last sent."""
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
