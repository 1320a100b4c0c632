"""Commands that ask admin, and how it starts in a process of its own."""

import json
import sqlite3
import subprocess
import sys

import pytest

from ariane_admin.terminal.exits import ExitStatus


@pytest.mark.parametrize("content", ["[" * 100_000, '{"topics":' * 900 + "1" + "}" * 900, "{", "7"])
def test_a_file_that_holds_no_definitions_is_one_line(ariane, tmp_path, content):
    file = tmp_path / "definitions.json"
    file.write_text(content)
    said = ariane("definition", "import", str(file), "--yes", status=ExitStatus.USAGE)
    assert f"{file} holds no definitions: " in said
    assert len(said.splitlines()) == 1


def test_definitions_leave_entries_and_an_altered_trail_is_found(
    admin_process, ariane, ariane_json, tmp_path
):
    _, database = admin_process
    ariane("topic", "create", "defined-here", "--queues", "3")
    file = tmp_path / "definitions.json"
    ariane("definition", "export", "--to", str(file))
    taken = json.loads(file.read_text())
    assert "defined-here" in {each["topic"] for each in taken["topics"]}
    ariane("topic", "delete", "defined-here", "--yes")
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(json.dumps({**taken, "cluster_name": "another"}))
    said = ariane("definition", "import", str(elsewhere), "--dry-run", status=ExitStatus.USAGE)
    assert "definitions.cluster_name must be this one" in said
    there = ("definition", "import", str(elsewhere), "--dry-run", "--other-cluster")
    assert "topic defined-here" in {row["subject"] for row in ariane_json(*there)}
    file.write_text(
        json.dumps(
            {"topics": [{"topic": "defined-here", "read_queue_count": 3, "write_queue_count": 3}]}
        )
    )
    planned = ariane_json("definition", "import", str(file), "--dry-run")
    assert {each["action"] for each in planned} == {"created"}
    assert ariane_json("audit", "list", "--method", "ImportDefinitions") == []
    ariane("definition", "import", str(file), "--yes")
    [entry] = ariane_json("audit", "list", "--method", "ImportDefinitions")
    assert entry["outcome"] == "done"
    assert "@" in entry["user"]
    whole = ariane_json("audit", "verify")
    assert whole["records"] == 6  # With those of the topic that was created and deleted.
    known = f"{whole['last_sequence']}:{whole['last_sha256']}"
    assert "intact" in ariane("audit", "verify", "--known", known)
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE audit_record SET claimed_user = 'eve' WHERE sequence = 1")
    broken = ariane("audit", "verify", status=ExitStatus.FAILED)
    assert "the audit trail is broken: record 1" in broken
    ariane("topic", "delete", "defined-here", "--yes")


def test_wrong_input_is_one_line(ariane, admin_beside, tmp_path, monkeypatch):
    file = tmp_path / "wrong.json"
    file.write_text("[]")
    for arguments in (
        ("audit", "verify", "--known", "7:abc"),
        ("audit", "list", "--admin", "nowhere"),
        ("definition", "import", str(file), "--yes"),
    ):
        ariane(*arguments, status=ExitStatus.USAGE)
    monkeypatch.setenv("ARIANE_ADMIN", "127.0.0.1:1")
    refused = ariane("audit", "list", status=ExitStatus.UNREACHABLE)
    assert len(refused.splitlines()) == 1


def test_admin_refuses_to_start_in_one_line(tmp_path):
    wrong = ("--data-path", str(tmp_path), "--console-listen", "0.0.0.0:0")
    done = subprocess.run(
        (sys.executable, "-m", "ariane_admin.service", *wrong),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("ariane-admin: ")
    assert "console" in line
