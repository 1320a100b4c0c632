"""``ariane outbox``: relays, and what brokers refused."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker

from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import Message
from ariane_sdk.sql import METADATA, Outbox, create_tables
from ariane_testkit.postgresql import postgresql_or_skip


@pytest.fixture(scope="module")
def postgresql_url(request):
    with postgresql_or_skip(request.config) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def sessions(request, tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/shop.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_url")
    monkeypatch.setenv("ARIANE_OUTBOX_DATABASE", url)
    engine = create_engine(url)
    with engine.begin() as connection:
        create_tables(connection)
    yield sessionmaker(engine)
    with engine.begin() as connection:
        METADATA.drop_all(connection)
    engine.dispose()


@pytest.mark.parametrize("command", ["list", "relay", "requeue"])
def test_a_mistyped_path_of_a_database_is_refused_and_makes_no_file(capfd, tmp_path, command):
    path = tmp_path / "shpo.db"
    more = ["--yes"] if command == "requeue" else []
    arguments = ["outbox", command, "shop", "--database", f"sqlite:///{path}", *more]
    assert main(arguments) == ExitStatus.USAGE
    [line] = capfd.readouterr().err.splitlines()
    assert f"there is no file {path}" in line
    assert not path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only there it can be hidden")
def test_a_list_of_processes_does_not_show_the_database_of_a_command():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql+psycopg://me:hunter2@127.0.0.1:{silent.getsockname()[1]}/shop"
        words = ["-m", "ariane_admin", "outbox", "list", "shop", "--database", url]
        environment = {**os.environ, "ARIANE_OUTBOX_DATABASE": url}
        with subprocess.Popen([sys.executable, *words], env=environment) as command:
            silent.settimeout(60)
            asking, _ = silent.accept()
            folder = Path(f"/proc/{command.pid}")
            shown = [(folder / name).read_text() for name in ("cmdline", "environ")]
            command.kill()
            asking.close()
    assert "--database" in shown[0]
    assert [text for text in shown if "hunter2" in text] == []


def test_refused_rows_are_listed_and_sent_again(sessions, ariane, ariane_json, request):
    topic = f"outbox-{request.node.callspec.id}"
    ariane("topic", "create", topic)
    # The application believes that brokers take more than they do.
    shop = Outbox("shop", body_bytes_max=16 << 20)
    large = bytes(5 << 20)
    with sessions.begin() as session:
        shop.add(session, *(Message(topic, b"%d" % number) for number in range(20)))
        shop.add(session, Message(topic, large, keys=("o-1",)), Message(topic, b"last"))
    done = ariane_json("outbox", "relay", "shop", "--until-empty")
    assert done == {"outbox": "shop", "waiting": 0, "oldest_s": 0.0, "parked": 1}
    assert sum(queue["messages"] for queue in ariane_json("topic", "show", topic)) == 21

    [row] = ariane_json("outbox", "list", "shop")
    assert (row["topic"], row["keys"], row["attempts"]) == (topic, ["o-1"], 1)
    assert row["reason"] in {"MESSAGE_TOO_LARGE", "REQUEST_TOO_LARGE"}
    assert row["body_bytes"] == len(large)
    assert row["reason"] in ariane("outbox", "list", "shop", "--topic", topic)
    assert ariane_json("outbox", "list", "shop", "--topic", "other") == []
    assert ariane_json("outbox", "list", "other") == []

    number = str(row["row_id"])
    assert "--yes" in ariane("outbox", "requeue", "shop", status=ExitStatus.USAGE)
    ariane("outbox", "requeue", "shop", "999999", status=ExitStatus.NOT_FOUND)
    assert ariane_json("outbox", "requeue", "shop", number) == {"outbox": "shop", "requeued": 1}
    assert ariane_json("outbox", "list", "shop") == []
    assert "1 are parked" in ariane("outbox", "relay", "shop", "--until-empty")
    assert "1 message is waiting" in ariane("outbox", "requeue", "shop", "--topic", topic, "--yes")


def test_an_outbox_that_the_database_has_nothing_of_is_doubted(sessions, ariane, capfd):
    shop = Outbox("shop")

    def said(*arguments):
        assert main(["outbox", *arguments]) == ExitStatus.DONE
        return capfd.readouterr().err

    assert "has no outbox 'shpo'\n" in said("list", "shpo")
    with sessions.begin() as session:
        shop.add(session, Message("nowhere", b"x"))
    assert said("list", "shop") == ""
    ariane("outbox", "relay", "mail", "--until-empty")
    for command in (("list",), ("requeue", "--yes"), ("relay", "--until-empty")):
        assert "has no outbox 'shpo'; relays have served mail" in said(*command, "shpo")
        with sessions.begin() as session:
            partitions = METADATA.tables["ariane_outbox_partition"]
            session.execute(partitions.delete().where(partitions.c.outbox == "shpo"))


def test_a_refusal_of_the_database_is_one_line(tmp_path, ariane, monkeypatch):
    monkeypatch.delenv("ARIANE_OUTBOX_DATABASE", raising=False)
    assert "--database" in ariane("outbox", "list", "shop", status=ExitStatus.USAGE)
    (tmp_path / "empty.db").touch()
    for url, status in (
        ("no url", ExitStatus.USAGE),
        ("nothing://", ExitStatus.USAGE),
        (f"sqlite:///{tmp_path}/empty.db", ExitStatus.FAILED),
        ("postgresql+psycopg://nobody:secret@127.0.0.1:1/shop", ExitStatus.FAILED),
    ):
        told = ariane("outbox", "list", "shop", "--database", url, status=status)
        assert len(told.splitlines()) == 1
        assert "secret" not in told


def test_an_error_for_missing_tables_says_how_to_make_them(sessions, ariane):
    for arguments in (("list", "shop"), ("relay", "shop", "--until-empty")):
        ariane("outbox", *arguments)
    with sessions.begin() as session:
        METADATA.drop_all(session.connection())
    for arguments in (("list", "shop"), ("relay", "shop", "--until-empty")):
        [line] = ariane("outbox", *arguments, status=ExitStatus.FAILED).splitlines()
        assert "ariane_outbox" in line
        assert "ariane_sdk.sql.create_tables" in line


@pytest.mark.parametrize("sessions", ["sqlite"], indirect=True)
def test_a_relay_that_gets_nowhere_says_why_and_ends_with_a_status(sessions, capfd):
    with sessions.begin() as session:
        Outbox("shop").add(session, Message("orders", b"x"), Message("orders", b"y"))
    nobody = ("--name-servers", "127.0.0.1:1", "--give-up-after", "1")
    assert main(["outbox", "relay", "shop", *nobody]) == ExitStatus.UNREACHABLE
    *warnings, end = capfd.readouterr().err.splitlines()
    assert "messages of the outbox for orders wait" in warnings[0]
    assert "outbox shop has 2 messages that wait, and none was sent or parked for 1 s" in end
    assert "127.0.0.1:1" in end
