"""``ariane compat mqadmin``: people who know RocketMQ's tool find ours."""

import json
import re
import shlex

import click
import pytest

from ariane_admin.cli import main, root
from ariane_admin.compat.mqadmin import mqadmin_commands
from ariane_admin.terminal.exits import ExitStatus


@pytest.fixture
def said(capsys):
    def run(*arguments, status=ExitStatus.DONE):
        assert main(["compat", "mqadmin", *arguments]) == status
        return capsys.readouterr()

    return run


def command_of(words):
    """The command of ours that these words run, and what stands behind its name."""
    command, context = root, click.Context(root, info_name="ariane")
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, words)
        context = click.Context(command, parent=context, info_name=name)
    return command, words


def test_all_commands_of_mqadmin_are_known():
    # As many as MQAdminStartup of RocketMQ 5.3 registers.
    assert len(mqadmin_commands()) == 89
    for spelling in mqadmin_commands().values():
        assert spelling.ours or spelling.note, spelling.name


def test_every_spelling_is_a_command_of_ours_with_options_that_it_has():
    for spelling in mqadmin_commands().values():
        for line in spelling.ours:
            words = shlex.split(re.sub(r"[][]", "", line.rpartition(" | ")[2]))
            assert words.pop(0) == "ariane"
            command, rest = command_of(words)
            known = {option for each in command.params for option in each.opts}
            options = {word for word in rest if word.startswith("-")}
            assert options <= known, (spelling.name, line)


def test_gaps_are_options_of_mqadmin_or_names():
    for spelling in mqadmin_commands().values():
        for gap in re.findall(r"\{(\w+)", " ".join(spelling.ours)):
            assert gap in spelling.options or gap.isupper(), spelling.name


def test_values_stand_where_they_belong(said):
    told = said(
        *("updateTopic", "-n", "10.0.0.1:9876;10.0.0.2:9876", "--topic", "orders"),
        *("-r", "8", "-w", "8", "-p", "2"),
    )
    servers = " --name-servers 10.0.0.1:9876,10.0.0.2:9876"
    assert told.out.splitlines() == [
        f"ariane topic create orders --queues 8 --permission write{servers}",
        f"ariane topic update orders --read-queues 8 --write-queues 8 --permission write{servers}",
    ]
    assert "--queues" in told.err
    assert said("topicList").out == "ariane topic list\n"
    assert said("topicRoute", "-t", "a b").out == "ariane topic show 'a b' --brokers\n"
    offset = said("queryMsgByOffset", "-t=orders", "-b=broker-a", "-i=3", "-o=17").out
    assert offset.startswith("ariane consume orders --queue broker-a:3=17 --count 1")
    assert (
        said("sendMessage", "-t", "t", "-p", "it's").out == "echo 'it'\\''s' | ariane produce t\n"
    )


@pytest.mark.parametrize(
    ("time", "moment"),
    [
        ("now", "latest"),
        ("1700000000123", "2023-11-14T22:13:20.123Z"),
        ("2026-01-31#10:00:00:000", "2026-01-31T10:00:00.000"),
    ],
)
def test_times_are_said_as_ours(said, time, moment):
    line = said("resetOffsetByTime", "-g", "billing", "-t", "orders", "-s", time).out
    assert line == f"ariane group reset billing orders --to {moment}\n"


def test_what_nothing_here_does_says_what_to_do_instead(said):
    told = said("updateControllerConfig", "-k", "a", "-v", "b", status=ExitStatus.NOT_FOUND)
    assert told.out == ""
    assert "There is no controller" in told.err


def test_the_list_and_json(said):
    assert "consumerProgress" in said().out
    listed = json.loads(said("-o", "json").out)
    assert len(listed) == 89
    one = json.loads(said("-o", "json", "consumerProgress", "-g", "billing").out)
    assert one["ariane"] == ["ariane group show billing"]


@pytest.mark.parametrize(
    ("arguments", "status", "hint"),
    [
        (["updateTopc"], ExitStatus.NOT_FOUND, "did you mean updateTopic"),
        (["topicRoute", "-x", "1"], ExitStatus.USAGE, "its options are -n, -t, -l"),
        (["topicRoute", "-t"], ExitStatus.USAGE, "needs a value"),
        (["topicRoute", "orders"], ExitStatus.USAGE, "takes no 'orders'"),
    ],
)
def test_mistakes_are_one_line(said, arguments, status, hint):
    told = said(*arguments, status=status)
    assert hint in " ".join(told.err.split())
