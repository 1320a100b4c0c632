"""``ariane compat mqadmin``: people who know RocketMQ's tool find ours."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from time import tzset

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


OPTIONS = Path(__file__).with_name("mqadmin_options.json")
"""The options of each command, from the sources of RocketMQ 5.3; ! for one without value."""


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
            said = re.sub(r"^(!?[a-z](=\w+)?(\|!?[a-z](=\w+)?)*: )+", "", line)
            words = shlex.split(re.sub(r"[][]", "", said.rpartition(" | ")[2]))
            assert words.pop(0) == "ariane"
            command, rest = command_of(words)
            known = {
                option for each in command.params for option in (*each.opts, *each.secondary_opts)
            }
            options = {word for word in rest if word.startswith("-") and word != "-"}
            assert options <= known, (spelling.name, line)


SAMPLES = {
    "actions": ["Pub,Sub", "All", "Create, Update,List"],
    "attributes": ["+message.type=FIFO", "+a=b,-c"],
    "beginTimestamp": ["currentTimeMillis", "1676730526212", "2026-01-31#10:00:00:000"],
    "consumeEnable": ["true", "false"],
    "count": ["7"],
    "decision": ["Allow", "Deny"],
    "endTimestamp": ["currentTimeMillis", "1676730526212", "2026-01-31#10:00:00:000"],
    "filename": ["-"],
    "key": ["flushDiskType"],
    "messageSize": ["1024"],
    "perm": ["2", "4", "6"],
    "resource": ["Topic:order*", "Group:billing", "Cluster:main", "*"],
    "resources": ["Topic:*", "Topic:order*,Group:billing", "Cluster:main", "*"],
    "size": ["1024"],
    "sourceIp": ["192.168.1.7", "192.168.1.7,10.0.0.0/8"],
    "subject": ["User:alice"],
    "subExpression": ["*", "TagA || TagB"],
    "timestamp": ["now", "currentTimeMillis", "1676730526212", "2026-01-31#10:00:00:000"],
    "userStatus": ["enable", "disable"],
    "userType": ["Super", "Normal"],
    "value": ["ASYNC_FLUSH"],
}
"""Values as RocketMQ's own help names them; numbers and names for all others."""


BEGIN = "2023-02-18T14:28:46.000Z"


def sample(command, option, number):
    if (command, option) == ("queryMsgByKey", "beginTimestamp"):
        return "1676730526212"
    known = SAMPLES.get(option.strip(), ["7"])
    return known[number % len(known)]


def parsed(line):
    """Parse a command of ours as the shell and click do, and run nothing."""
    words = shlex.split(line.rpartition(" | ")[2])
    assert words.pop(0) == "ariane", line
    command, rest = command_of(words)
    command.make_context(command.name, rest, allow_interspersed_args=True)


@pytest.mark.parametrize(
    ("name", "options"), json.loads(OPTIONS.read_text()).items(), ids=lambda each: str(each)[:20]
)
def test_each_option_of_rocketmqs_help_is_known_and_each_line_is_a_command(name, options):
    spelling = mqadmin_commands()[name]
    letters = list(options)
    # All options at once, and each left out; with each value that the help names.
    for number in range(4):
        for chosen in (letters, *([one for one in letters if one != out] for out in letters)):
            words = ["-n", "127.0.0.1:9876"]
            for letter in chosen:
                option = options[letter].removesuffix("!")
                words.append(f"-{letter}" if len(letter) == 1 else f"--{letter}")
                if not options[letter].endswith("!"):
                    words.append(sample(name, option, number))
            for line in spelling.equivalents(words):
                filled = re.sub(r"\b(BROKER|GROUP)\b", "broker-a", line)
                if not re.search(r"\b[A-Z]{2,}(_[A-Z]+)*\b", filled):  # Nothing is left to fill in.
                    parsed(filled)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "printMsg -t o -b 1676730526212 -e currentTimeMillis -d true -s 'a || b'",
            "consume o --from 2023-02-18T14:28:46.212Z --until -1ms --tag a --tag b --no-follow",
        ),
        ("printMsg -t o", "consume o --from earliest --no-follow"),
        (
            "printMsgByQueue -t o -a broker-a -i 3 -p true -d true",
            "consume o --queue broker-a:3 --from earliest --no-follow",
        ),
        (
            "consumeMessage -t o -b broker-a -i 3 -o 17 -c 5",
            "consume o --queue broker-a:3=17 --count 5 --no-follow",
        ),
        (
            "consumeMessage -t o -s 1676730526000 -e 1676730526213",
            f"consume o --from {BEGIN} --until {BEGIN[:-4]}213Z --no-follow",
        ),
        ("updateSubGroup -g g -s false", "group retry g\nariane group pause g"),
        ("updateSubGroup -g g -s true -r 3", "group retry g --attempts 3\nariane group resume g"),
        (
            "resetOffsetByTime -g g -t o -s now -b 10.0.0.1:10911 -q 3 -o 17",
            "group reset g o --queue BROKER:3=17",
        ),
        ("resetOffsetByTime -g g -t o -s now -f false", "group reset g o --to latest"),
        ("resetOffsetByTime -g g -t o -s -1", "group reset g o --to latest --skip"),
        ("updateTopic -t o -a +message.type=FIFO", "topic create o --type fifo"),
        ("updateOrderConf -t o -m get", "topic order o"),
        ("updateOrderConf -t o -m delete", "topic order o --clear"),
        ("consumerProgress", "group list"),
        ("queryMsgById -i 7F00", "message show 7F00"),
        ("updateBrokerConfig -k flushDiskType -v SYNC_FLUSH", "broker set BROKER flush_mode=sync"),
        (
            "createUser -b 10.0.0.1:10911 -u rocketmq -p hush -t Super",
            (
                "user create rocketmq --super\n"
                "printf '%s\\n' rocketmq:hush | ariane credential import-rocketmq -"
            ),
        ),
        ("createUser -u alice", "user create alice"),
        ("updateUser -u alice -s disable", "user update alice --disable"),
        (
            "createAcl -s User:alice -r Topic:order*,Group:* -a Pub,Sub -i 10.0.0.7 -d Allow",
            (
                "access grant alice publish,subscribe topic 'order*' --from 10.0.0.7\n"
                "ariane access grant alice publish,subscribe group '*' --from 10.0.0.7"
            ),
        ),
        (
            "createAcl -s User:alice -r Cluster:main -a List -d Deny",
            "access grant alice get cluster --deny",
        ),
        (
            "deleteAcl -s User:alice -r Topic:orders -n 10.0.0.1:9876",
            "access revoke alice publish,subscribe,create,update,delete,get topic orders",
        ),
        ("listAcl -r Topic:orders", "access list --resource topic --name orders"),
        ("exportMetadata -n 10.0.0.1:9876", "definition export"),
        (
            "createAcl -s User:alice -r 'Topic:t,' -a 'Pub,' -i 10.0.0.7, -d Allow",
            "access grant alice publish topic t --from 10.0.0.7",
        ),
    ],
)
def test_no_option_is_lost(said, words, line):
    assert said(*shlex.split(words)).out == f"ariane {line}\n"


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
    line = said("sendMessage", "-t", "t", "-p", "it's").out
    assert line == "printf '%s\\n' 'it'\\''s' | ariane produce t\n"
    line = said("queryMsgByKey", "-n", "10.0.0.1:9876", "-t", "t", "-k", "a | b").out
    assert line == "ariane message query t --key 'a | b' --name-servers 10.0.0.1:9876\n"


@pytest.mark.parametrize("value", ["a |", "|", "a  b", "", r"a\nb\c", '$HOME `x` "y"', "{t} [{k}]"])
def test_a_value_arrives_as_it_was_given(said, value):
    line = said("sendMessage", "-t", "t", "-p", value, "-k", value, "-n", "a:1").out
    shell, command = line.rsplit(" | ariane ", 1)
    sent = subprocess.run(["sh", "-c", shell], capture_output=True, check=True, text=True)
    assert sent.stdout == f"{value}\n"
    assert shlex.split(command) == ["produce", "t", "--key", value, "--name-servers", "a:1"]


def test_a_list_without_a_resource_is_refused(said):
    told = said("listAcl", "-r", " ,", status=ExitStatus.USAGE)
    assert "names no resource" in told.err


@pytest.mark.parametrize(
    ("time", "moment"),
    [
        ("now", "latest"),
        ("1700000000123", "2023-11-14T22:13:20.123Z"),
        ("2026-01-31#10:00:00:000", "2026-01-31T10:00:00.000+00:00"),
    ],
)
def test_times_are_said_as_ours(said, time, moment, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    tzset()
    line = said("resetOffsetByTime", "-g", "billing", "-t", "orders", "-s", time).out
    assert line == f"ariane group reset billing orders --to {moment} --skip\n"


def test_a_command_without_counterpart_says_what_to_do_instead(said):
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
