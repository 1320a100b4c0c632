"""A real PostgreSQL for tests: started, usable by many, gone without a trace."""

from pathlib import Path

import psycopg
import pytest

from ariane_testkit.postgresql import (
    PostgresqlUnavailable,
    find_programs,
    running_postgresql,
)


def plain(url):
    return url.replace("+psycopg", "")


def test_a_server_starts_answers_and_leaves_nothing():
    try:
        with running_postgresql() as url, psycopg.connect(plain(url), autocommit=True) as link:
            (folder,) = link.execute("show data_directory").fetchone()
            link.execute("create database orders")
            with psycopg.connect(plain(url).replace("/postgres", "/orders")) as other:
                assert other.execute("select current_database()").fetchone() == ("orders",)
            assert Path(folder).exists()
    except PostgresqlUnavailable as missing:
        pytest.skip(str(missing))
    assert not Path(folder).parent.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(plain(url), connect_timeout=2)


def test_a_machine_without_it_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr("ariane_testkit.postgresql._newest", lambda _folder: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(PostgresqlUnavailable, match="package postgresql"):
        find_programs()
