"""Commands are found, loaded late, and keep no other from running when they are broken."""

import re
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points

import click
import pytest
from click.testing import CliRunner

from ariane_admin.cli import main, root
from ariane_admin.lazy_group import ELSEWHERE, PLUGIN_GROUP, LazyGroup
from ariane_admin.own_commands import OWN_COMMANDS, CommandGroup, LazyCommand
from ariane_admin.terminal.exits import ExitStatus


@click.command()
def greet():
    """Say good morning."""
    click.echo("good morning")


not_a_command = "a string"


def plugin(name, value):
    return EntryPoint(name, value, PLUGIN_GROUP)


def root_of(*plugins, commands=None):
    return LazyGroup("ariane", commands=commands or {}, plugins=plugins)


@pytest.fixture
def here(monkeypatch):
    """This module under a name that can be imported."""
    monkeypatch.setitem(sys.modules, "own_plugins", sys.modules[__name__])
    return "own_plugins"


def test_a_plugin_is_listed_and_runs(here):
    root = root_of(plugin("greet", f"{here}:greet"))
    assert "Say good morning." in CliRunner().invoke(root, ["--help"]).stdout
    assert CliRunner().invoke(root, ["greet"]).stdout == "good morning\n"


@pytest.mark.parametrize(
    "value", ["no_such_module:command", "{here}:missing", "{here}:not_a_command"]
)
def test_a_broken_plugin_is_one_line_and_shuts_out_nobody(here, value):
    root = root_of(plugin("broken", value.format(here=here)), plugin("greet", f"{here}:greet"))
    shown = CliRunner().invoke(root, ["--help"])
    assert shown.exit_code == 0
    assert "Say good morning." in shown.stdout
    [line] = shown.stderr.splitlines()
    assert "warning" in line
    assert "'broken'" in line


def test_a_broken_plugin_cannot_be_entered(here):
    entered = CliRunner().invoke(root_of(plugin("broken", "no_such_module:command")), ["broken"])
    assert entered.exit_code == 2
    assert "No such command 'broken'" in entered.stderr


def test_commands_are_not_loaded_before_they_are_run(here):
    root = root_of(plugin("broken", "no_such_module:command"), plugin("greet", f"{here}:greet"))
    assert CliRunner().invoke(root, ["greet"]).stderr == ""


def test_a_plugin_cannot_take_an_own_commands_name(here):
    root = root_of(
        plugin("greet", "no_such_module:command"),
        commands={"greet": LazyCommand(f"{here}:greet")},
    )
    assert CliRunner().invoke(root, ["greet"]).stdout == "good morning\n"


def everything(command, path=("ariane",)):
    """The command line and all that is behind it, plugins too, each with its words."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from everything(command.get_command(context, name), (*path, name))


NEITHER_JSON_NOR_YAML = {
    "ariane completion": "writes a script for a shell",
    "ariane dead-letter export": "writes lines of JSON, which dead letters are brought back from",
    "ariane definition export": "writes the JSON that ariane definition import reads",
}


def test_every_help_shows_an_example_of_its_command_and_every_command_writes_json_and_yaml():
    without = set()
    for path, command in everything(root):
        words = " ".join(path)
        # click keeps a command's help option as it is first asked for; this is as users ask for it.
        asked = click.Context(command, info_name=words, help_option_names=["-h", "--help"])
        text = command.get_help(asked)
        assert re.search(rf"^ +(echo .*\| |source <\(|eval .*)?{words}\b", text, re.MULTILINE), (
            words
        )
        if isinstance(command, click.Group):
            continue
        for option in command.params:
            if "--output" in option.opts:
                assert {"json", "yaml"} <= set(option.type.choices), words
                break
        else:
            without.add(words)
    assert without == set(NEITHER_JSON_NOR_YAML)


ASKS_WITHOUT_DRY_RUN = {
    "ariane client disconnect": "a client that lives comes again by itself",
    "ariane credential delete": "one key; credential create makes another",
    "ariane group clone": "copies offsets; group reset sets them back",
    "ariane group pause": "deletes nothing; group resume ends it",
    "ariane message consume-again": "moves nothing: a listener gets one message more",
    "ariane outbox requeue": "deletes nothing; outbox list shows what it means",
    "ariane sink move": "the sink's list tells its home, and it can move back",
    "ariane topic order": "shows the order when nothing is said, and can be set again",
    "ariane topic update": "asks about --force only, without which nothing is lost",
    "ariane user delete": "one user, whom user create makes again",
    "ariane transaction resume": "ends nothing: producers are asked again",
}

CHANGES_UNASKED = {
    "ariane broker restore": "undoes a drain",
    "ariane consume": "--in-order is a setting of the group, which can be set back",
    "ariane broker set": "within its range, until the next start; it can be set back",
    "ariane filter quarantine": "stops at once in need; release undoes it",
    "ariane filter release": "undoes a quarantine",
    "ariane filter upload": "makes a version beside others",
    "ariane group resume": "undoes a pause",
    "ariane group retry": "a setting, which can be set back",
    "ariane message recall": "one message, by a handle that its sender alone has",
    "ariane setting set": "as ariane broker set",
    "ariane topic create": "makes what is not there",
}


def test_what_changes_the_cluster_asks_first_and_what_destroys_has_a_dry_run():
    """A new command that changes something stands in a table here with its reason, or does both."""
    asks, dry, unasked = set(), set(), set()
    for path, command in everything(root):
        options = {name for option in command.params for name in option.opts}
        changes = any(option.metavar == "HOST:PORT|none" for option in command.params)
        words = " ".join(path)
        if "--yes" in options:
            asks.add(words)
            if "--dry-run" in options:
                dry.add(words)
        elif changes:
            unasked.add(words)
    assert asks - dry == set(ASKS_WITHOUT_DRY_RUN)
    assert unasked == set(CHANGES_UNASKED)
    assert {"ariane topic delete", "ariane group delete", "ariane dead-letter redrive"} <= dry


def opened(group, commands):
    """Every command behind a group, with the line that lists show of it."""
    context = click.Context(group)
    assert group.list_commands(context) == list(commands)
    for name, own in commands.items():
        command = group.get_command(context, name)
        assert command.name == name
        if isinstance(own, CommandGroup):
            yield from opened(command, own.commands)
        else:
            yield command, own


def test_every_own_command_opens_and_its_help_begins_as_lists_say():
    for command, own in opened(LazyGroup("ariane", plugins=()), OWN_COMMANDS):
        assert command.get_short_help_str(limit=300) == own.help


def test_help_of_root_and_groups_and_their_completion_load_no_command():
    """A command costs what it imports: the client, numpy, gRPC, a database's driver."""
    program = (
        "import sys\n"
        "from click.shell_completion import ShellComplete\n"
        "from ariane_admin.cli import main, root\n"
        "assert main(['--help']) == main(['topic', '--help']) == 0\n"
        "names = ShellComplete(root, {}, 'ariane', 'X').get_completions(['topic'], 'cr')\n"
        "assert [each.value for each in names] == ['create'], names\n"
        "heavy = {'ariane_sdk', 'ariane_record', 'ariane_storage', 'numpy', 'grpc', 'rich',"
        " 'asyncio', 'google.protobuf', 'sqlalchemy', 'pyspark',"
        " 'ariane_pipelines'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Inspect consumer groups, pause them, and move their offsets." in done.stdout
    assert "store" in done.stdout


def test_a_mistyped_command_is_told_what_was_meant(capsys):
    assert main(["gruop"]) == ExitStatus.USAGE
    assert "No such command 'gruop'. Did you mean 'group'?" in capsys.readouterr().err
    assert main(["topic", "craete"]) == ExitStatus.USAGE
    assert "Did you mean 'create'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", list(ELSEWHERE))
def test_a_command_of_a_package_that_is_missing_is_told_with_it(name):
    [distribution] = {each.dist.name for each in entry_points(group=PLUGIN_GROUP, name=name)}
    assert distribution == ELSEWHERE[name]
    alone = LazyGroup("ariane", plugins=())
    with pytest.raises(click.UsageError, match=f"pip install {distribution}"):
        alone.resolve_command(click.Context(alone), [name])


def leaves(command, path=()):
    """Own commands with their words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if path or name in OWN_COMMANDS:
                yield from leaves(command.get_command(context, name), (*path, name))
    else:
        yield path, command


def needed(command):
    """A word for each argument and option that must be said."""
    for param in command.params:
        if isinstance(param, click.Argument) and param.required:
            yield param, []
        elif isinstance(param, click.Option) and param.required:
            yield param, [param.opts[0]]


def word_for(param):
    if isinstance(param.type, click.Choice):
        return next(iter(param.type.choices))
    if isinstance(param.type, click.types.IntParamType):
        return "1"
    return "a=1"


def refused(capsys, *words):
    """The one line that a command line is refused with."""
    capsys.readouterr()
    assert main(words) == ExitStatus.USAGE, words
    told = capsys.readouterr()
    assert told.out == "", words
    [line] = told.err.splitlines()
    assert line.startswith("ariane: ")
    assert line.endswith(" [USAGE]")
    return line


def test_what_is_missing_or_no_name_is_one_line_that_says_where_help_is(capsys):
    paths = [path for path, command in leaves(root) if refuses_in_one_line(capsys, path, command)]
    assert len(paths) > 60


def refuses_in_one_line(capsys, path, command):
    params = list(needed(command))
    if params:
        line = refused(capsys, *path)
        assert "Missing" in line
        assert f"; ariane {' '.join(path)} --help tells how" in line
    for number, (param, _) in enumerate(params):
        for wrong in ("", "a\udcff"):
            words = [
                part
                for place, (each, option) in enumerate(params)
                for part in (*option, wrong if place == number else word_for(each))
            ]
            if param.type is not click.UNPROCESSED:
                refused(capsys, *path, *words)
    for param in command.params:
        if isinstance(param, click.Option) and isinstance(param.type, click.types.StringParamType):
            words = [part for each, option in params for part in (*option, word_for(each))]
            refused(capsys, *path, *words, f"{param.opts[0]}=")
    return True


COUNTS_ONLY_HERE = {"--count", "--max-count", "--attempts", "--rate"}
"""Whole numbers that are never said to another process."""


def test_every_number_that_is_told_a_service_has_an_end():
    for path, command in leaves(root):
        for param in command.params:
            if isinstance(param.type, click.IntRange) and param.type.max is None:
                assert set(param.opts) & COUNTS_ONLY_HERE, (path, param.opts)
