"""``ariane broker``, ``doctor`` and ``completion`` against a real cluster."""

import json
import subprocess

import pytest

from ariane_admin import name_completion
from ariane_admin.cli import main, root
from ariane_admin.own_commands import OWN_COMMANDS
from ariane_admin.terminal.exits import ExitStatus


def test_brokers_say_how_they_are(ariane, ariane_json, cluster):
    rows = ariane_json("broker", "list")
    assert [(row["broker"], row["address"]) for row in rows] == [
        (broker.name, broker.address) for broker in cluster.brokers
    ]
    assert all(row["writable"] and not row["wiped"] and row["version"] for row in rows)
    shown = ariane_json("broker", "show", "broker-a")
    assert (shown["broker"], shown["flush_mode"], shown["refusal"]) == ("broker-a", "async", "")
    assert "settings" not in shown
    assert "commit log" in ariane("broker", "show", "broker-a")
    ariane("broker", "show", "broker-z", status=ExitStatus.NOT_FOUND)


def test_a_broker_without_replicas_says_so(ariane):
    told = ariane("broker", "ha", "status", "broker-a", status=ExitStatus.REFUSED)
    assert "broker broker-a has no replicas" in told


def test_settings_of_a_broker(ariane_json):
    settings = ariane_json("broker", "show", "broker-a", "--settings")["settings"]
    by_name = {each["name"]: each for each in settings}
    assert by_name["broker_name"]["value"] == "broker-a"
    assert by_name["broker_name"]["source"] == "flag"
    assert by_name["flush_wait_s"]["source"] == "default"


def test_drain_and_restore(ariane, ariane_json, lines):
    ariane("topic", "create", "b-drained", "--queues", "1", "--exists-ok")
    ariane("broker", "drain", "broker-b", status=ExitStatus.USAGE)
    done = ariane_json("broker", "drain", "broker-b", "--yes")
    try:
        assert (done["writable"], done["name_server_failures"]) == (False, [])
        assert done["topics"] >= 1
        ariane("produce", "b-drained", lines(*"abcdefgh"))
        queues = ariane_json("topic", "show", "b-drained")
        assert {row["broker"]: row["messages"] for row in queues} == {"broker-a": 8, "broker-b": 0}
        [row] = [row for row in ariane_json("broker", "list") if row["broker"] == "broker-b"]
        assert (row["writable"], row["wiped"]) == (False, True)
        findings = ariane_json("doctor")
        assert [
            one["severity"] for one in findings if "an operator stopped it" in one["finding"]
        ] == ["note"]
    finally:
        done = ariane_json("broker", "restore", "broker-b")
    assert done["writable"]
    [row] = [row for row in ariane_json("broker", "list") if row["broker"] == "broker-b"]
    assert (row["writable"], row["wiped"]) == (True, False)


def test_young_messages_are_not_deleted_by_hand(ariane, ariane_json, lines):
    ariane("topic", "create", "b-kept", "--queues", "1", "--broker", "broker-b", "--exists-ok")
    ariane("produce", "b-kept", lines("a"))
    ariane("broker", "clean", "broker-b", status=ExitStatus.USAGE)
    for how in "--dry-run", "--yes":
        cleaned = ariane_json("broker", "clean", "broker-b", how)
        assert (cleaned["segments"], cleaned["bytes"], cleaned["messages"]) == (0, 0, 0)
        assert cleaned["dry_run"] is (how == "--dry-run")
    assert "would delete 0 segments" in ariane("broker", "clean", "broker-b", "--dry-run")
    assert [row["messages"] for row in ariane_json("topic", "show", "b-kept")] == [1]


def test_a_drain_waits_until_all_is_consumed(ariane, lines):
    ariane("topic", "create", "b-waited", "--queues", "1", "--broker", "broker-b")
    ariane("produce", "b-waited", lines("a"))
    ariane("consume", "b-waited", "--group", "b-waiters", "--from", "earliest", "--count", "1")
    try:
        said = ariane("broker", "drain", "broker-b", "--wait", "--yes")
    finally:
        ariane("broker", "restore", "broker-b")
    assert "All groups have consumed" in said


def test_the_doctor_finds_nothing_wrong_with_the_cluster(ariane, ariane_json):
    findings = ariane_json("doctor")
    # The name servers of a test are young.
    assert {one["severity"] for one in findings} <= {"note", "warning"}
    assert "error:" not in ariane("doctor")


def test_the_doctor_names_what_does_not_answer(cluster, capfd):
    nobody = "127.0.0.1:1"
    names = f"{cluster.name_servers},{nobody}"
    assert main(["doctor", "--name-servers", names, "-o", "json"]) == ExitStatus.FAILED
    [error] = [e for e in json.loads(capfd.readouterr().out) if e["severity"] == "error"]
    assert error["subject"] == f"name server {nobody}"
    assert main(["doctor", "--name-servers", nobody]) == ExitStatus.UNREACHABLE
    [line] = capfd.readouterr().out.splitlines()
    assert line.startswith(f"error: name server {nobody}: does not answer")


def test_an_address_of_another_process_is_called_so(cluster, capfd):
    broker = cluster.brokers[0].address
    for text in ("topic list", "broker list", "broker show broker-a"):
        assert main([*text.split(), "--name-servers", broker]) == ExitStatus.UNREACHABLE
        [line] = capfd.readouterr().err.splitlines()
        assert f"{broker} answers, and is no name server" in line
        assert "--name-servers" in line
        assert line.endswith("[NOT_NAME_SERVER]")
    # Beside one that is right it only costs a call.
    both = f"{broker},{cluster.name_servers}"
    assert main(["topic", "list", "--name-servers", both]) == ExitStatus.DONE
    capfd.readouterr()
    assert main(["doctor", "--name-servers", broker]) == ExitStatus.UNREACHABLE
    [line] = capfd.readouterr().out.splitlines()
    assert line.startswith(f"error: name server {broker}: is none: a broker answers there")
    assert main(["transaction", "list", "--checker", broker]) == ExitStatus.REFUSED
    [line] = capfd.readouterr().err.splitlines()
    assert "no transaction checker answers there" in line


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(ariane, shell):
    script = ariane("completion", shell)
    assert "_ARIANE_COMPLETE" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_completion_completes(monkeypatch, capfd):
    monkeypatch.setenv("_ARIANE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "ariane gro")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit):
        main([])
    assert capfd.readouterr().out == "plain,group\n"


@pytest.mark.parametrize(("shell", "shown"), [("bash", r"shop\|halt"), ("zsh", "shop|halt")])
def test_a_name_with_a_pipe_is_completed_as_one_word(monkeypatch, shell, shown):
    monkeypatch.setenv("_ARIANE_COMPLETE", f"{shell}_complete")
    monkeypatch.setattr(name_completion, "_names", lambda *_: ["bills", "shop|halt"])
    [item] = name_completion.NameType("topic").shell_complete(None, None, "sh")
    assert item.value == shown


def commands(command, path):
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        if path == "ariane" and name not in OWN_COMMANDS:
            continue
        yield from commands(command.get_command(None, name), f"{path} {name}")


def test_every_command_shows_an_example_of_itself():
    for path, command in commands(root, "ariane"):
        assert "Example" in command.help, path
        assert f"{path} " in f"{command.help} " or f"{path}\n" in f"{command.help}\n", path
