"""A topic, group or broker that nobody knows is an error, also where its list would be empty."""

import click
import pytest

from ariane_admin.cli import root
from ariane_admin.name_completion import NameType
from ariane_admin.terminal.exits import ExitStatus

UNKNOWN = "nobody-knows-it"
TOPIC, GROUP = "names-topic", "names-group"

CASES = {
    "broker clean": {"name": "{} --yes"},
    "broker drain": {"name": "{} --yes"},
    "broker ha elect": {"name": "{} --id 1 --yes"},
    "broker ha remove": {"name": "{} --id 1 --yes"},
    "broker ha status": {"name": "{}"},
    "broker ha switchover": {"name": "{} --to 1 --yes"},
    "broker restore": {"name": "{}"},
    "broker set": {"name": "{} log_level=info"},
    "broker show": {"name": "{}"},
    "client list": {"consumer_group": "--group {}", "broker_name": "--broker {}"},
    "consume": {
        "topic": "{} --no-follow",
        "more_topics": f"{TOPIC} --group {GROUP} --receive --count 1 --also {{}}",
    },
    "dead-letter export": {"group": "{}", "topic": f"{GROUP} --topic {{}}"},
    "dead-letter list": {"group": "{}", "topic": f"{GROUP} --topic {{}}"},
    "dead-letter redrive": {"group": "{} --yes", "topic": f"{GROUP} --topic {{}} --yes"},
    "dead-letter show": {"group": "{} broker-a/0/0"},
    "filter try": {"topic": "{filter} {}"},
    "group clone": {"name": f"{{}} {GROUP} {TOPIC} --yes", "topic": f"{GROUP} other {{}} --yes"},
    "group delete": {"name": "{} --yes"},
    "group forget": {"name": f"{{}} {TOPIC} --yes", "topic": f"{GROUP} {{}} --yes"},
    "group list": {"topic": "--topic {}"},
    "group pause": {"name": "{} --yes"},
    "group reset": {
        "name": f"{{}} {TOPIC} --to latest --yes",
        "topic": f"{GROUP} {{}} --to latest --yes",
    },
    "group resume": {"name": "{}"},
    "group retry": {"name": "{}"},
    "group running": {"name": "{}"},
    "group show": {"name": "{}"},
    "message delayed": {"topic": "--topic {}"},
    "message query": {"topic": "{} --key a"},
    "message show": {"topic": "0123456789 --topic {}"},
    "sink list": {"topic": "--topic {}"},
    "topic create": {"broker_names": "names-new --broker {}"},
    "topic delete": {"name": "{} --yes", "broker_names": f"{TOPIC} --broker {{}} --yes"},
    "topic order": {"name": "{}"},
    "topic producers": {"name": "{}"},
    "topic purge": {"name": "{} --yes"},
    "topic show": {"name": "{}"},
    "topic tail": {"name": "{} --no-follow"},
    "topic update": {
        "name": "{} --queues 8",
        "broker_names": f"{TOPIC} --broker {{}} --queues 8",
    },
}

NEW = "what it names may be new: it is made by this"
OF_ANOTHER = "what it asks knows no brokers and topics"
OTHERS = {
    ("consume", "group"): NEW,
    ("group clone", "target"): NEW,
    ("produce", "topic"): NEW,
    ("message consume-again", "group"): "its message is looked for first",
    ("message consume-again", "topic"): "its message is looked for first",
    ("sink move", "broker"): "it needs a sink: see test_sink_commands.py",
    ("sink move", "topic"): "what a sink wrote to may be gone",
    ("context delete", "name"): OF_ANOTHER,
    ("context use", "name"): OF_ANOTHER,
    ("outbox list", "topic"): OF_ANOTHER,
    ("outbox requeue", "topic"): OF_ANOTHER,
    ("transaction decide", "topic"): OF_ANOTHER,
    ("transaction list", "topic"): OF_ANOTHER,
    ("transaction list", "broker_name"): OF_ANOTHER,
    ("transaction parked", "topic"): OF_ANOTHER,
    ("transaction parked", "broker_name"): OF_ANOTHER,
    ("transaction resume", "topic"): OF_ANOTHER,
}


def named_parameters(command, words=()):
    """Every parameter of every command that is the name of something that is there."""
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                yield from named_parameters(command.get_command(context, name), (*words, name))
        return
    for param in command.params:
        if isinstance(param.type, NameType):
            yield " ".join(words), param.name


def test_every_name_of_every_command_is_tried():
    tried = {(command, name) for command, names in CASES.items() for name in names}
    assert tried | OTHERS.keys() == set(named_parameters(root))


@pytest.fixture
def known(ariane, lines):
    """A topic, and a group that has consumed a message of it."""
    ariane("topic", "create", TOPIC, "--exists-ok")
    ariane("produce", TOPIC, lines("one"))
    ariane("consume", TOPIC, "--group", GROUP, "--count", "1", "--from", "earliest")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param(command, words, id=f"{command} {name}")
        for command, names in CASES.items()
        for name, words in names.items()
    ],
)
def test_a_name_that_nobody_knows_is_an_error(known, ariane, tmp_path, command, words):
    module = tmp_path / "all.py"
    module.write_text("def match(message):\n    return True\n")
    arguments = words.format(UNKNOWN, filter=module).split()
    said = ariane(*command.split(), *arguments, status=ExitStatus.NOT_FOUND)
    [line] = said.splitlines()
    assert UNKNOWN in line
