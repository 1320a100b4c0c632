"""Errors become one line and a status."""

import socket

import click
import pytest

from ariane_admin.cli import main, root
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.error_statuses import exit_status_of
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import errors
from ariane_sdk.net.status import REASON_ROWS


@pytest.fixture
def failing(monkeypatch):
    """Register a command that raises what it is given."""

    def register(error):
        @click.command()
        def fail():
            raise error

        monkeypatch.setitem(root.commands, "fail", fail)

    return register


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NameServersUnreachable("no name server answered"), ExitStatus.UNREACHABLE),
        (errors.ServiceUnavailable("gone"), ExitStatus.UNREACHABLE),
        (errors.TopicNotFound("no topic"), ExitStatus.NOT_FOUND),
        (errors.TopicExists("it is there"), ExitStatus.REFUSED),
        (errors.NameIllegal("a b"), ExitStatus.USAGE),
        (errors.SendError("lost", outcome_unknown=True), ExitStatus.OUTCOME_UNKNOWN),
        (errors.CallError("something"), ExitStatus.FAILED),
        (CommandFailed("not now", ExitStatus.REFUSED), ExitStatus.REFUSED),
        (RuntimeError("a fault of ours"), ExitStatus.FAILED),
    ],
)
def test_an_error_is_one_line_and_a_status(failing, capsys, error, status):
    failing(error)
    assert main(["fail"]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert line.startswith("ariane: ")
    assert str(error) in line


def test_a_note_stands_behind_the_error(failing, capsys):
    error = errors.CallError("it did not")
    error.add_note("1 of 2 brokers did it")
    failing(error)
    main(["fail"])
    assert capsys.readouterr().err == "ariane: it did not (1 of 2 brokers did it) [UNSPECIFIED]\n"


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("TOPIC_NAME_ILLEGAL", ExitStatus.USAGE),
        ("MESSAGE_NOT_FOUND", ExitStatus.NOT_FOUND),
        ("GROUP_EXISTS", ExitStatus.REFUSED),
        ("INTERNAL_FAULT", ExitStatus.FAILED),
        ("UNREACHABLE", ExitStatus.UNREACHABLE),
        ("DEADLINE_PASSED", ExitStatus.UNREACHABLE),
        ("QUEUE_NOT_FOUND", ExitStatus.NOT_FOUND),
        ("REPLICA_NOT_FOUND", ExitStatus.NOT_FOUND),
        ("REPLICA_NOT_IN_SYNC", ExitStatus.REFUSED),
        ("BROKER_NOT_PRIMARY", ExitStatus.UNREACHABLE),
    ],
)
def test_errors_without_a_class_are_told_apart_by_their_reason(reason, status):
    assert exit_status_of(errors.CallError("text", reason=reason)) is status
    assert exit_status_of(errors.SendError("text", reason=reason)) is status


def test_a_reason_says_more_than_the_class_that_it_shares():
    for reason, status in (
        ("QUOTA_EXCEEDED", ExitStatus.REFUSED),
        ("TOO_FEW_IN_SYNC", ExitStatus.REFUSED),
        ("CLIENT_NOT_ATTACHED", ExitStatus.NOT_FOUND),
        ("CLIENT_SILENT", ExitStatus.UNREACHABLE),
    ):
        error = REASON_ROWS[reason].error("text", reason=reason)
        assert exit_status_of(error) is status, reason


def test_trace_shows_the_trace(failing):
    failing(errors.CallError("something"))
    with pytest.raises(errors.CallError):
        main(["--trace", "fail"])


def test_an_error_of_many_lines_stays_one_line(failing, capsys):
    failing(CommandFailed("first\n  second"))
    main(["fail"])
    assert capsys.readouterr().err == "ariane: first second [FAILED]\n"


def test_an_error_that_repeats_a_long_argument_stays_readable(failing, capsys):
    failing(CommandFailed(f"topic '{'x' * 100_000}' is no name"))
    main(["fail"])
    [line] = capsys.readouterr().err.splitlines()
    assert len(line) < 1100
    assert line.startswith("ariane: topic 'xxx")
    assert line.endswith("xxx' is no name [FAILED]")


def test_ctrl_c_has_its_status(failing, capsys):
    failing(KeyboardInterrupt())
    assert main(["fail"]) == ExitStatus.INTERRUPTED


def test_wrong_usage(capsys):
    assert main(["no-such-room"]) == ExitStatus.USAGE
    assert main(["dev", "--brokers", "0"]) == ExitStatus.USAGE


def test_a_word_in_the_place_of_a_number_is_told_as_that(capsys):
    assert main(["topic", "create", "orders", "--queues", "eight"]) == ExitStatus.USAGE
    assert "'--queues': 'eight' is not a whole number;" in capsys.readouterr().err


def test_version_and_help(capsys):
    assert main(["--version"]) == ExitStatus.DONE
    assert main(["--help"]) == ExitStatus.DONE
    assert "ariane topic create" in capsys.readouterr().out


def test_nobody_there(capsys):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        assert main(["topic", "list", "--name-servers", address]) == ExitStatus.UNREACHABLE
    [line] = capsys.readouterr().err.splitlines()
    assert address in line
    assert "give their addresses with --name-servers or ARIANE_NAME_SERVERS" in line


def test_advice_for_an_unknown_outcome_is_to_look_before_repeating(failing, capsys):
    failing(errors.DeadlinePassed("no answer in time", outcome_unknown=True))
    assert main(["fail"]) == ExitStatus.OUTCOME_UNKNOWN
    assert "it may have been done: check before you repeat it" in capsys.readouterr().err
    # The text of this reason says it.
    failing(errors.CallError("x", reason="CHANGE_UNCONFIRMED", outcome_unknown=True))
    assert main(["fail"]) == ExitStatus.OUTCOME_UNKNOWN
    assert "check before" not in capsys.readouterr().err
    failing(errors.DeadlinePassed("no answer in time"))
    assert main(["fail"]) == ExitStatus.UNREACHABLE
    assert "check before" not in capsys.readouterr().err


def test_an_option_before_its_command_is_told_where_it_belongs(capsys):
    assert main(["--name-servers", "127.0.0.1:1", "topic", "list"]) == ExitStatus.USAGE
    err = capsys.readouterr().err
    assert "No such option '--name-servers'. Options of a command stand behind it" in err


def test_every_error_of_the_client_has_a_status():
    for name in dir(errors):
        kind = getattr(errors, name)
        if (
            isinstance(kind, type)
            and issubclass(kind, errors.ArianeError)
            and kind not in (errors.BatchSendError, errors.ConsumerOffsetRefused)
        ):
            # Not built: some take more than a text.
            error = kind.__new__(kind)
            error.outcome_unknown, error.metadata = False, {}
            assert exit_status_of(error) in ExitStatus
