"""The shell completes names of the cluster."""

import time

import pytest
from click.shell_completion import ShellComplete

from ariane_admin.cli import root
from ariane_admin.name_completion import SECONDS_MAX


def completed(*typed, incomplete=""):
    found = ShellComplete(root, {}, "ariane", "X").get_completions(list(typed), incomplete)
    return [each.value for each in found]


@pytest.fixture
def known(ariane, lines, tmp_path, monkeypatch):
    """A topic, a group and a context whose names begin alike."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    ariane("topic", "create", "completed-orders", "--exists-ok")
    ariane("produce", "completed-orders", lines("one"))
    consume = ("consume", "completed-orders", "--group", "completed-group", "--count", "1")
    ariane(*consume, "--from", "earliest")


@pytest.mark.parametrize(
    "typed",
    [
        ("topic", "show"),
        ("topic", "delete"),
        ("produce",),
        ("consume", "completed-orders", "--also"),
        ("message", "query"),
        ("group", "list", "--topic"),
        ("group", "reset", "completed-group"),
    ],
)
def test_topics_are_completed(known, typed):
    assert completed(*typed, incomplete="completed-") == ["completed-orders"]


@pytest.mark.parametrize(
    "typed",
    [
        ("group", "show"),
        ("group", "clone", "other"),
        ("dead-letter", "list"),
        ("consume", "x", "--group"),
        ("client", "list", "--group"),
    ],
)
def test_groups_are_completed(known, typed):
    assert completed(*typed, incomplete="completed-") == ["completed-group"]


def test_brokers_and_contexts_are_completed(known, ariane, cluster, monkeypatch):
    assert completed("broker", "show", incomplete="broker-") == ["broker-a", "broker-b"]
    ariane("context", "add", "completed-here", "--name-servers", cluster.name_servers)
    assert completed("context", "use", incomplete="completed-") == ["completed-here"]
    assert completed("--context", incomplete="completed-") == ["completed-here"]
    monkeypatch.setenv("ARIANE_NAME_SERVERS", "127.0.0.1:1")
    assert completed("topic", "show", incomplete="completed-") == []
    by_context = ("--context", "completed-here", "topic", "show")
    assert completed(*by_context, incomplete="completed-") == ["completed-orders"]
    by_flag = ("topic", "show", "--name-servers", cluster.name_servers)
    assert completed(*by_flag, incomplete="completed-") == ["completed-orders"]


def test_names_of_new_things_and_message_groups_are_not_completed(known):
    assert completed("topic", "create") == []
    assert completed("broker", "forget") == []
    assert completed("produce", "completed-orders", "--group") == []


def test_a_cluster_that_is_away_completes_nothing_and_says_nothing(monkeypatch, capfd):
    monkeypatch.setenv("ARIANE_NAME_SERVERS", "127.0.0.1:1")
    begun = time.monotonic()
    assert completed("topic", "show") == []
    assert time.monotonic() - begun < 10 * SECONDS_MAX
    assert capfd.readouterr() == ("", "")
