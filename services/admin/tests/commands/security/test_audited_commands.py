"""Commands that change a cluster leave their entries where admin is, and work where it is not."""

import json
import socket
import socketserver
import threading
from contextlib import contextmanager, suppress

import pytest

from ariane_admin.cli import main
from ariane_admin.commands.topic import topic
from ariane_admin.terminal.exits import ExitStatus


@contextmanager
def relay(target):
    """Another address of a server."""

    def pump(source, sink):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    class Link(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.create_connection(target) as other:
                back = threading.Thread(target=pump, args=(other, self.request), daemon=True)
                back.start()
                pump(self.request, other)
                back.join(60)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Link) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def trail(ariane_json):
    """What the trail tells since it was last asked: method, name, outcome; oldest first."""
    seen = set()

    def read():
        rows = [row for row in ariane_json("audit", "list") if row["sequence"] not in seen]
        seen.update(row["sequence"] for row in rows)
        return [(row["method"], row["name"], row["outcome"]) for row in reversed(rows)]

    return read


def test_each_changing_command_leaves_its_entry(admin_beside, ariane, ariane_json, trail, lines):
    ariane("topic", "create", "au-orders", "--queues", "1", "--type", "fifo")
    ariane("topic", "update", "au-orders", "--queues", "2")
    ariane("topic", "order", "au-orders", "--set", "--yes")
    ariane("group", "retry", "au-billing", "--attempts", "3")
    assert trail() == [
        ("CreateTopic", "au-orders", "done"),
        ("UpdateTopic", "au-orders", "done"),
        ("UpdateTopicQueueOrder", "au-orders", "done"),
        ("UpdateGroup", "au-billing", "done"),
    ]
    reset = ("group", "reset", "au-billing", "au-orders", "--to", "earliest")
    ariane(*reset, "--dry-run")
    ariane("group", "retry", "au-billing")
    assert trail() == []
    moved = ariane_json(*reset, "--yes")
    assert {row["consumer_offset"] for row in moved} == {0}
    ariane("group", "clone", "au-billing", "au-trial", "au-orders", "--yes")
    ariane("group", "forget", "au-trial", "au-orders", "--yes")
    ariane("dead-letter", "redrive", "au-billing", "--yes")
    ariane("group", "delete", "au-billing", "--yes")
    ariane("broker", "drain", "broker-b", "--yes")
    ariane("broker", "restore", "broker-b")
    ariane("topic", "delete", "au-orders", "--yes")
    assert trail() == [
        ("ResetGroupOffsets", "au-billing", "done"),
        ("CloneGroupOffsets", "au-trial", "done"),
        ("DeleteGroupOffsets", "au-trial", "done"),
        ("RedriveDeadLetters", "au-billing", "done"),
        ("DeleteGroup", "au-billing", "done"),
        ("DrainBroker", "broker-b", "done"),
        ("RestoreBroker", "broker-b", "done"),
        ("DeleteTopic", "au-orders", "done"),
    ]
    [entry, *_] = ariane_json("audit", "list", "--method", "DeleteTopic")
    assert "@" in entry["user"]
    assert json.loads(entry["before"])["queue_order"] == "broker-a:2;broker-b:2"


def test_a_disconnection_has_an_audit_entry(admin_beside, ariane, trail):
    trail()
    ariane("client", "disconnect", "au-nobody", "--yes", status=ExitStatus.NOT_FOUND)
    assert trail() == [("DisconnectClient", "au-nobody", "failed")]


def test_a_recall_has_an_audit_entry(admin_beside, ariane, trail, lines, tmp_path):
    ariane("topic", "create", "au-later", "--queues", "1")
    handles = tmp_path / "handles"
    ariane("produce", "au-later", lines("x"), "--delay", "1h", "--handles", str(handles))
    trail()
    ariane("message", "recall", handles.read_text().strip())
    assert trail() == [("RecallMessage", "au-later", "done")]
    ariane("topic", "delete", "au-later", "--yes")


def test_failed_and_partial_changes_have_audit_entries(admin_beside, ariane, trail):
    ariane("topic", "delete", "au-none", "--yes", status=ExitStatus.NOT_FOUND)
    ariane("group", "delete", "au-none", "--yes", status=ExitStatus.NOT_FOUND)
    ariane("topic", "create", "au-half", "--queues", "1", "--broker", "broker-a")
    said = ariane("topic", "create", "au-half", "--queues", "2", status=ExitStatus.REFUSED)
    assert "1 of 2 brokers did it" in said
    ariane("topic", "delete", "au-half", "--yes")
    assert trail() == [
        ("DeleteTopic", "au-none", "failed"),
        ("DeleteGroup", "au-none", "failed"),
        ("CreateTopic", "au-half", "done"),
        ("CreateTopic", "au-half", "partly"),
        ("DeleteTopic", "au-half", "done"),
    ]


def test_an_admin_that_is_wanted_and_away_refuses_every_change(ariane, ariane_json, monkeypatch):
    monkeypatch.setenv("ARIANE_ADMIN", "127.0.0.1:1")
    said = ariane("topic", "create", "au-away", status=ExitStatus.UNREACHABLE)
    [line] = said.splitlines()
    assert "nothing was changed: admin 127.0.0.1:1" in line
    assert "--admin none" in line
    assert "au-away" not in {row["topic"] for row in ariane_json("topic", "list")}


def test_an_admin_of_another_cluster_changes_nothing(admin_beside, ariane, trail, monkeypatch):
    other = ("--name-servers", "127.0.0.1:1")
    said = ariane("topic", "create", "au-astray", *other, status=ExitStatus.UNREACHABLE)
    assert "serves another cluster, with name servers" in said
    checker = ("--checker", "127.0.0.1:1", "--cause", "x", "--commit", "--yes")
    said = ariane("transaction", "decide", "t-1", *checker, status=ExitStatus.UNREACHABLE)
    assert "serves another cluster, with transaction checkers" in said
    assert trail() == []


def test_an_admin_is_known_although_it_has_other_addresses(
    admin_beside, ariane, trail, cluster, monkeypatch
):
    """As from outside of containers, whose name servers have other addresses inside."""
    first = cluster.name_servers.split(",")[0].rpartition(":")
    with relay((first[0], int(first[2]))) as address:
        monkeypatch.setenv("ARIANE_NAME_SERVERS", address)
        ariane("topic", "create", "au-outside")
        ariane("topic", "delete", "au-outside", "--yes")
    assert trail() == [
        ("CreateTopic", "au-outside", "done"),
        ("DeleteTopic", "au-outside", "done"),
    ]


def test_none_changes_without_admin_and_says_so(ariane, capfd, monkeypatch):
    monkeypatch.setenv("ARIANE_ADMIN", "127.0.0.1:1")
    assert main(["topic", "create", "au-alone", "--admin", "none"]) == ExitStatus.DONE
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("ariane: warning: this change is not recorded")
    assert main(["topic", "delete", "au-alone", "--admin", "none", "--yes"]) == ExitStatus.DONE


def test_an_admin_at_the_usual_place_is_found_if_it_serves_this_cluster(
    admin_beside, ariane, trail, monkeypatch
):
    monkeypatch.delenv("ARIANE_ADMIN")
    for command in (topic.create, topic.delete):
        [option] = [each for each in command.params if each.name == "admin"]
        monkeypatch.setattr(option, "default", admin_beside)
    ariane("topic", "create", "au-found")
    ariane("topic", "delete", "au-found", "--yes")
    elsewhere = ("--name-servers", "127.0.0.1:1")
    said = ariane("topic", "create", "au-found", *elsewhere, status=ExitStatus.UNREACHABLE)
    assert "this change is not recorded" in said
    assert "serves another cluster" in said
    monkeypatch.setenv("ARIANE_ADMIN", admin_beside)
    assert trail() == [("CreateTopic", "au-found", "done"), ("DeleteTopic", "au-found", "done")]
