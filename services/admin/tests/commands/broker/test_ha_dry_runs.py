"""What a dry run says of a replica set is what would happen."""

import pytest

from ariane_admin.cli import main
from ariane_admin.commands.broker import ha
from ariane_admin.terminal.exits import ExitStatus


@pytest.fixture
def replica(monkeypatch):
    """Broker 1 of a set, which is a replica."""
    row = {"id": 1, "role": "replica", "attached": True, "in_sync": True, "behind_bytes": 0}

    async def members_of(_doors, _name):
        return []

    monkeypatch.setattr(ha, "members_of", members_of)
    monkeypatch.setattr(ha, "_rows", lambda _: [row])
    return row


def run(capsys, *words):
    status = main(["broker", "ha", *words, "--dry-run", "--name-servers", "127.0.0.1:1"])
    out, err = capsys.readouterr()
    return status, out or err


def test_an_election_waits_until_there_is_no_primary(replica, capsys):
    status, said = run(capsys, "elect", "broker-a", "--id", "1")
    assert status == ExitStatus.DONE
    assert "would be elected if there is no primary: replica, attached, in sync" in said


@pytest.mark.parametrize(
    "words", [("elect", "broker-a", "--id"), ("switchover", "broker-a", "--to")]
)
def test_a_dry_run_refuses_a_replica_that_is_not_in_sync(replica, capsys, words):
    replica["in_sync"] = False
    status, said = run(capsys, *words, "1")
    assert status == ExitStatus.REFUSED
    assert "broker 1 of broker-a is not in sync, so this would be refused" in said


@pytest.mark.parametrize(
    "words", [("elect", "broker-a", "--unclean", "--id"), ("remove", "broker-a", "--id")]
)
def test_a_dry_run_shows_a_replica_that_need_not_be_in_sync(replica, capsys, words):
    replica["in_sync"] = False
    status, said = run(capsys, *words, "1")
    assert (status, "not in sync" in said) == (ExitStatus.DONE, True)
