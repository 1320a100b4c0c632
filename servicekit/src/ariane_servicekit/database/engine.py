"""The database: SQLite in a file for one machine, PostgreSQL for many.

One synchronous engine, used from threads: services write little and rarely, both databases are used
in the same way, and Alembic supports no other kind.

Instants are of the database's clock, so that processes with differing clocks agree about leases.
SQLite has no clock of its own: it uses ours as a function.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Timer
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakSet

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    cast,
    create_engine,
    event,
    extract,
    func,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from ariane_servicekit.clock import Clock
from ariane_servicekit.database.errors import DatabaseUnusable
from ariane_servicekit.database.schema import Schema, migrate
from ariane_servicekit.observability.logs import get_logger
from ariane_servicekit.observability.passwords import without_passwords

BUSY_S_MAX: Final = 10.0
"""Seconds that a writer of SQLite waits for a writer of another process."""

RETRY_S: Final = 0.5
"""Seconds between two tries to reach the database at the start."""

DEAD_SERVER_OPTIONS: Final[dict[str, object]] = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
}
"""Options of libpq, in seconds, but ``tcp_user_timeout`` in milliseconds: a call to a PostgreSQL
server that is cut off fails after 10 s to 20 s, not after the quarter of an hour of the system's
default.

A long statement on a live server is not ended: a migration may take long.
"""

CLOSE_S_MAX: Final = 1.0
"""Seconds that calls in work have at the end before their connections are cut."""

_WRITES: Final = "ariane_writes"

_log = get_logger(__name__)

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class Database:
    """One database, opened once."""

    def __init__(
        self,
        url: str,
        schema: Schema,
        clock: Clock,
        *,
        threads: int = 4,
        survives_power_loss: bool = False,
    ) -> None:
        """Take the parts, without access to the database.

        Args:
            url: A URL of SQLAlchemy, with the driver ``sqlite`` or ``postgresql+psycopg``. Options
                of libpq in its query override those set here.
            schema: The tables.
            clock: The clock for SQLite.
            threads: Calls in work at once. 0: calls run in the caller's thread, for tests whose
                time stands still meanwhile.
            survives_power_loss: Whether SQLite, too, keeps the last changes in a power failure:
                each of them waits for the disk then.

        Raises:
            DatabaseUnusable: The URL is invalid, or of another database.
        """
        parsed = _parse(url)
        self._schema = schema
        self._clock = clock
        self._synchronous = "FULL" if survives_power_loss else "NORMAL"
        self._is_sqlite = parsed.get_backend_name() == "sqlite"
        self._threads = ThreadPoolExecutor(threads, "database") if threads else None
        options: dict[str, Any] = {"pool_pre_ping": True}
        if self._is_sqlite:
            options["connect_args"] = {"timeout": BUSY_S_MAX}
        else:
            wanted: dict[str, Any] = {
                **DEAD_SERVER_OPTIONS,
                "application_name": schema.application,
                # Without an encoding of the database (SQL_ASCII), texts would be bytes.
                "client_encoding": "utf8",
            }
            own = {name: value for name, value in wanted.items() if name not in parsed.query}
            options["connect_args"] = own
            options.update(pool_size=max(1, threads), max_overflow=0)
        try:
            self._engine: Engine = create_engine(parsed, **options)
        except ImportError as error:
            raise DatabaseUnusable(f"{parsed.drivername}: {error}") from None
        # SQLite's readers see one state as it is.
        self._reads = (
            self._engine
            if self._is_sqlite
            else self._engine.execution_options(isolation_level="REPEATABLE READ")
        )
        self._connections: WeakSet[Any] = WeakSet()
        if self._is_sqlite:
            self._prepare_sqlite()
        else:
            event.listen(self._engine, "connect", lambda one, _: self._connections.add(one))
        self.now: ColumnElement[int] = (
            func.ariane_now_ms(type_=BigInteger)
            if self._is_sqlite
            else cast(extract("epoch", func.clock_timestamp()) * 1000, BigInteger)
        )
        """SQL expression: the time now, milliseconds since 1970, by the database's clock. It goes
        on inside a transaction."""

    async def open(self, *, wait_s: float) -> None:
        """Bring the schema up to date; wait for a database that is still starting.

        Raises:
            SchemaNewer: It is of a later version.
            DatabaseUnusable: It could not be reached within ``wait_s``.
        """
        end_s = self._clock.monotonic() + wait_s
        while True:
            try:
                return await self.call(self._migrate)
            except (DBAPIError, sqlite3.Error) as error:
                cause = error.orig if isinstance(error, DBAPIError) else error
                if self._clock.monotonic() >= end_s:
                    text = " ".join(str(cause).split())
                    shown = without_passwords(
                        self._engine.url.render_as_string(hide_password=False)
                    )
                    raise DatabaseUnusable(f"{shown}: {text}") from error
                _log.warning("database_unreachable", error=str(cause))
                await self._clock.sleep(RETRY_S)

    async def call(
        self, work: Callable[_Given, _Result], *given: _Given.args, **named: _Given.kwargs
    ) -> _Result:
        """Run work on the database in a thread of its own."""
        if self._threads is None:
            return work(*given, **named)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: work(*given, **named))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that writes nothing; all its statements see one state of the database."""
        with self._reads.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that may write: committed at the end of the block, undone by an error."""
        with self._engine.connect() as connection:
            connection.info[_WRITES] = True
            try:
                with connection.begin():
                    yield connection
            finally:
                connection.info.pop(_WRITES, None)

    def cut(self) -> None:
        """Cut all connections: calls in work fail, which a server that hangs would keep for ever.

        Calls of SQLite end by themselves, after ``BUSY_S_MAX``. From any thread.
        """
        closed = self._engine.dialect.loaded_dbapi.Error
        for connection in list(self._connections):
            with (
                suppress(OSError, closed),
                socket.socket(fileno=os.dup(connection.fileno())) as way,
            ):
                way.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Wait a moment for calls in work, and close the connections."""
        if self._threads is not None:
            cutting = Timer(CLOSE_S_MAX, self.cut)
            cutting.start()
            self._threads.shutdown(cancel_futures=True)
            cutting.cancel()
        self._engine.dispose()

    def _migrate(self) -> None:
        with self.writing() as connection:
            migrate(connection, self._schema)

    def _prepare_sqlite(self) -> None:
        @event.listens_for(self._engine, "connect")
        def connected(connection: sqlite3.Connection, _record: object) -> None:
            # Python's module would begin transactions implicitly; they begin below.
            connection.isolation_level = None
            connection.create_function("ariane_now_ms", 0, self._clock.now_ms)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={self._synchronous}")

        @event.listens_for(self._engine, "begin")
        def begun(connection: Connection) -> None:
            # A reader that becomes a writer is refused if another one wrote meanwhile: so
            # a transaction that may write begins as a writer.
            writes = connection.info.get(_WRITES)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise DatabaseUnusable("the database's URL is none of SQLAlchemy's") from None
    if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        name = parsed.get_backend_name()
        raise DatabaseUnusable(f"{name}: the database is sqlite or postgresql+psycopg")
    return parsed
