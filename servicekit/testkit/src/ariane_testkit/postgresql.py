"""A real PostgreSQL beside a test or an example: a cluster of its own in a folder of its own.

The programs are those of the machine (Debian's package ``postgresql``). Where there are none, they
are fetched from Debian by package name and unpacked, not installed, into a cache folder.

PostgreSQL refuses to run as root. A test that is root (in a container, say) therefore hands the
folder to an unprivileged account and starts the server as that one.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import create_engine, text

from ariane_testkit.free_ports import free_port

DEBIAN_PACKAGES: Final = ("postgresql-15", "postgresql-client-15", "libpq5", "libllvm14")
UNPRIVILEGED_ACCOUNTS: Final = ("postgres", "nobody")
FETCH_TIMEOUT_S: Final = 180
START_TIMEOUT_S: Final = 60

_FAST_BUT_FORGETFUL: Final = {
    # Tests kill clients, never the machine: what PostgreSQL forgets at a power loss is not asked.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "100",
}


class PostgresqlUnavailable(Exception):
    """No PostgreSQL on this machine, and none could be fetched: tests skip with this text."""


@contextlib.contextmanager
def running_postgresql(*, cache_folder: Path | None = None) -> Iterator[str]:
    """Run a PostgreSQL on a free port of loopback; it and its files are gone afterwards.

    Args:
        cache_folder: Where programs are unpacked when the machine has none. None: they are not
            fetched.

    Yields:
        An SQLAlchemy URL (driver psycopg) of an empty database; the account may create others.

    Raises:
        PostgresqlUnavailable: There are no programs.
        RuntimeError: It did not start; with what it said.
    """
    programs = find_programs(cache_folder)
    folder = Path(tempfile.mkdtemp(prefix="ariane-postgresql-"))
    account = _unprivileged_account()
    cluster, log = folder / "cluster", folder / "log"
    try:
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        fresh = f"-D {cluster} -U ariane --auth=trust -E UTF8 --locale=C --no-sync"
        _run([programs / "initdb", *fresh.split()], account, folder)
        port = free_port()
        options = {"port": str(port), "unix_socket_directories": str(folder), **_FAST_BUT_FORGETFUL}
        flags = " ".join(f"-c {name}={value}" for name, value in options.items())
        control = programs / "pg_ctl"
        start: list[str | Path] = [control, "-D", cluster, "-l", log, "-o", flags]
        _run([*start, "-w", "-t", str(START_TIMEOUT_S), "start"], account, folder)
        try:
            yield f"postgresql+psycopg://ariane@127.0.0.1:{port}/postgres"
        finally:
            _run([control, "-D", cluster, "-m", "immediate", "-w", "stop"], account, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def postgresql_or_skip(config: pytest.Config) -> Iterator[str]:
    """Run a PostgreSQL; a machine that has none, and can fetch none, skips the test.

    Yields:
        An SQLAlchemy URL, as ``running_postgresql`` does.
    """
    with contextlib.ExitStack() as running:
        try:
            cache = config.rootpath / ".cache" / "postgresql"
            url = running.enter_context(running_postgresql(cache_folder=cache))
        except PostgresqlUnavailable as missing:
            pytest.skip(str(missing))
        yield url


@contextlib.contextmanager
def empty_database(server_url: str, name: str) -> Iterator[str]:
    """A database of that name on a PostgreSQL, gone afterwards with whoever is still connected.

    Yields:
        Its SQLAlchemy URL.
    """
    server = create_engine(server_url, isolation_level="AUTOCOMMIT")
    with server.connect() as link:
        link.execute(text(f"CREATE DATABASE {name}"))
        yield server.url.set(database=name).render_as_string(hide_password=False)
        link.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    server.dispose()


def find_programs(cache_folder: Path | None = None) -> Path:
    """The folder with ``initdb`` and ``pg_ctl``: the machine's, else fetched into the cache.

    Raises:
        PostgresqlUnavailable: There is none, and none could be fetched.
    """
    found = _newest(Path("/usr/lib/postgresql"))
    if found is None and (program := shutil.which("pg_ctl")) is not None:
        found = Path(program).resolve().parent
    if found is None and cache_folder is not None:
        found = _newest(cache_folder / "usr/lib/postgresql") or _fetched(cache_folder)
    if found is None:
        raise PostgresqlUnavailable("no PostgreSQL here: install Debian's package postgresql")
    return found


def _newest(versions: Path) -> Path | None:
    folders = [path.parent for path in versions.glob("*/bin/pg_ctl")]
    return max(folders, key=lambda folder: int(folder.parent.name), default=None)


def _fetched(cache_folder: Path) -> Path | None:
    """Unpack Debian's packages. Whatever goes wrong, the answer is that there is none."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return None
    cache_folder.mkdir(parents=True, exist_ok=True)
    try:
        for command in (
            ["apt-get", "-q", "download", *DEBIAN_PACKAGES],
            *(["sh", "-c", f"dpkg -x {name}_*.deb ."] for name in DEBIAN_PACKAGES),
        ):
            subprocess.run(  # noqa: S603 - package names from the table above
                command, cwd=cache_folder, check=True, capture_output=True, timeout=FETCH_TIMEOUT_S
            )
    except (subprocess.SubprocessError, OSError):
        return None
    return _newest(cache_folder / "usr/lib/postgresql")


def _unprivileged_account() -> pwd.struct_passwd | None:
    """Whom to be instead of root; None when we are not root."""
    if os.geteuid() != 0:
        return None
    for name in UNPRIVILEGED_ACCOUNTS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise PostgresqlUnavailable("PostgreSQL does not run as root, and there is no other account")


def _run(command: Sequence[str | Path], account: pwd.struct_passwd | None, folder: Path) -> None:
    program = Path(command[0])
    libraries = sorted(str(path.parent) for path in program.parents[3].glob("*/libpq.so.5"))
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "HOME": str(folder)}
    if libraries:
        environment["LD_LIBRARY_PATH"] = ":".join(libraries)
    said = folder / "said"
    with said.open("wb") as output:
        # A file, not a pipe: the server inherits it and would keep a pipe open for ever.
        finished = subprocess.run(  # noqa: S603 - programs found above, arguments of our own
            [str(word) for word in command],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            timeout=START_TIMEOUT_S + 10,
        )
    if finished.returncode != 0:
        log = folder / "log"
        words = said.read_text(errors="replace") + (
            log.read_text(errors="replace") if log.exists() else ""
        )
        raise RuntimeError(f"{program.name} failed: {words.strip()[-2000:]}")
