"""``ariane explain``: every word that stands behind an error is known, and says what to do."""

import json

import pytest

from ariane_admin.cli import main
from ariane_admin.commands.shell.explain import known_reasons
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import errors
from ariane_servicekit.error_table import ERROR_TABLE


@pytest.fixture
def explained(capsys):
    def run(*arguments, status=ExitStatus.DONE):
        assert main(["explain", *arguments]) == status
        captured = capsys.readouterr()
        return captured.out or captured.err

    return run


def test_every_word_of_contract_client_and_statuses_is_known():
    kinds = (getattr(errors, name) for name in dir(errors))
    client = {
        kind.reason
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, errors.ArianeError) and kind.reason
    }
    contract = {row.name for row in ERROR_TABLE.values()}
    statuses = {each.name for each in ExitStatus} - {"DONE", "INTERRUPTED"}
    assert client | contract | statuses <= known_reasons().keys()
    assert all(row["means"] and row["do"] for row in known_reasons().values())


def test_a_word_is_explained_however_it_is_written(explained):
    told = explained("TOPIC_NOT_FOUND")
    assert "Create the topic" in told
    assert "NOT_FOUND" in told
    assert explained("[topic-not-found]") == told
    assert json.loads(explained("UNREACHABLE", "-o", "json"))["repeat"] == "yes"
    assert "STORE_POISONED" in explained()


def test_a_word_that_nobody_says_is_told_what_was_meant(explained):
    line = explained("TOPIC_NOT_FOND", status=ExitStatus.NOT_FOUND)
    assert "did you mean TOPIC_NOT_FOUND" in line
    assert line.rstrip().endswith("[NOT_FOUND]")


def test_every_error_of_a_real_call_ends_with_its_word(ariane):
    line = ariane("topic", "show", "no-such-topic", status=ExitStatus.NOT_FOUND)
    assert line.rstrip().endswith("[ROUTE_NOT_FOUND]")
    line = ariane("group", "show", "no-such-group", status=ExitStatus.NOT_FOUND)
    assert line.rstrip().endswith("[GROUP_NOT_FOUND]")
