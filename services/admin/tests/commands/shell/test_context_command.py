"""``ariane context``: clusters by name."""

import json
import os

import pytest

from ariane_admin.cli import main
from ariane_admin.commands.messaging.transaction import list_transactions
from ariane_admin.commands.topic.topic_list import list_topics
from ariane_admin.terminal.exits import ExitStatus


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("ARIANE_NAME_SERVERS", "ARIANE_TXN_CHECKER", "ARIANE_CONTEXT"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments, status=ExitStatus.DONE):
        capsys.readouterr()
        assert main(arguments) == status
        told = capsys.readouterr()
        return told.out if status is ExitStatus.DONE else " ".join(told.err.split())

    run("context", "add", "prod", "--name-servers", "10.0.0.1:9876,10.0.0.2:9876")
    run("context", "add", "test", "--name-servers", "10.1.0.1:9876", "--checker", "10.1.0.1:9880")
    return run


@pytest.fixture
def asked(monkeypatch, run):
    """The name servers, or the checker, that a command line would ask."""
    seen = []
    for command in (list_topics, list_transactions):
        monkeypatch.setattr(command, "callback", lambda **values: seen.append(values))

    def asked(*arguments, option="name_servers"):
        run(*arguments)
        return seen.pop()[option]

    return asked


def test_the_first_context_is_used_until_another_one_is(run, asked):
    assert asked("topic", "list") == "10.0.0.1:9876,10.0.0.2:9876"
    run("context", "use", "test")
    assert asked("topic", "list") == "10.1.0.1:9876"
    assert asked("transaction", "list", option="checker") == "10.1.0.1:9880"
    rows = json.loads(run("context", "list", "-o", "json"))
    assert [(row["context"], row["current"]) for row in rows] == [("prod", False), ("test", True)]
    assert "10.1.0.1:9876" in run("context", "list")


def test_flags_override_the_environment_and_that_overrides_contexts(asked, monkeypatch):
    assert asked("--context", "test", "topic", "list") == "10.1.0.1:9876"
    monkeypatch.setenv("ARIANE_CONTEXT", "test")
    assert asked("topic", "list") == "10.1.0.1:9876"
    monkeypatch.setenv("ARIANE_NAME_SERVERS", "10.9.9.9:1")
    assert asked("topic", "list") == "10.9.9.9:1"
    assert asked("--context", "prod", "topic", "list") == "10.0.0.1:9876,10.0.0.2:9876"
    assert asked("--context", "prod", "topic", "list", "--name-servers", "a:1") == "a:1"
    assert os.environ["ARIANE_NAME_SERVERS"] == "10.9.9.9:1"


def test_a_context_may_have_sources_of_name_servers(run, asked):
    sources = "dns:names.example:9876,file:/etc/ariane/names,https://names.example/list"
    run("context", "add", "moving", "--name-servers", sources)
    assert asked("--context", "moving", "topic", "list") == sources


def test_without_contexts_it_is_this_machine(run, asked):
    run("context", "delete", "prod")
    run("context", "delete", "test")
    assert asked("topic", "list") == "127.0.0.1:9876"
    assert json.loads(run("context", "list", "-o", "json")) == []


def test_a_context_without_a_checker_never_means_the_one_of_this_machine(run):
    line = run("transaction", "list", status=ExitStatus.USAGE)
    assert "context prod has no transaction checker" in line


@pytest.mark.parametrize(
    ("arguments", "status", "hint"),
    [
        (["context", "use", "prd"], ExitStatus.NOT_FOUND, "known: prod, test"),
        (["context", "delete", "prd"], ExitStatus.NOT_FOUND, "known: prod, test"),
        (["--context", "prd", "topic", "list"], ExitStatus.NOT_FOUND, "known: prod, test"),
        (["context", "add", "a/b", "--name-servers", "h:1"], ExitStatus.USAGE, "letters, digits"),
        (["context", "add", "a", "--name-servers", "h"], ExitStatus.USAGE, "host:port"),
        (["context", "add", "a", "--name-servers", "ftp://h:1"], ExitStatus.USAGE, "host:port"),
        (["context", "add", "a", "--name-servers", "h:0"], ExitStatus.USAGE, "host:port"),
        (["context", "add", "a"], ExitStatus.USAGE, "--name-servers"),
    ],
)
def test_mistakes_are_one_line(run, arguments, status, hint):
    assert hint in run(*arguments, status=status)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"current": 1}', '{"current": "", "contexts": {"a": 1}}']
)
def test_a_damaged_file_is_named(run, tmp_path, text):
    path = tmp_path / "ariane" / "contexts.json"
    path.write_text(text)
    assert str(path) in run("topic", "list", status=ExitStatus.FAILED)


def test_a_file_that_cannot_be_written_is_named(run, tmp_path):
    folder = tmp_path / "ariane"
    (folder / "contexts.json").unlink()
    folder.rmdir()
    folder.write_text("a file")
    line = run("context", "add", "a", "--name-servers", "h:1", status=ExitStatus.FAILED)
    assert str(folder) in line


def test_a_file_that_is_nested_too_deeply_is_one_line(run, tmp_path):
    [path] = [each for each in tmp_path.rglob("*") if each.is_file()]
    path.write_text("[" * 100_000)
    said = run("context", "list", status=ExitStatus.FAILED)
    assert f"{path} cannot be read" in said
    assert "fix or delete it" in said
