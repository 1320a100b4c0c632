"""Rooms are found, loaded late, and shut out nobody when they are broken."""

import sys
from importlib.metadata import EntryPoint

import click
import pytest
from click.testing import CliRunner

from ariane_admin.rooms import OWN_ROOMS, PLUGIN_GROUP, House


@click.command()
def greet():
    """Say good morning."""
    click.echo("good morning")


not_a_command = "a string"


def plugin(name, value):
    return EntryPoint(name, value, PLUGIN_GROUP)


def house(*plugins, rooms=None):
    return House("house", rooms=rooms or {}, plugins=plugins)


@pytest.fixture
def here(monkeypatch):
    """This module under a name that can be imported."""
    monkeypatch.setitem(sys.modules, "house_plugins", sys.modules[__name__])
    return "house_plugins"


def test_a_plugin_is_listed_and_runs(here):
    root = house(plugin("greet", f"{here}:greet"))
    assert "Say good morning." in CliRunner().invoke(root, ["--help"]).stdout
    assert CliRunner().invoke(root, ["greet"]).stdout == "good morning\n"


@pytest.mark.parametrize("value", ["no_such_module:room", "{here}:missing", "{here}:not_a_command"])
def test_a_broken_plugin_is_one_line_and_shuts_out_nobody(here, value):
    root = house(plugin("broken", value.format(here=here)), plugin("greet", f"{here}:greet"))
    shown = CliRunner().invoke(root, ["--help"])
    assert shown.exit_code == 0
    assert "Say good morning." in shown.stdout
    [line] = shown.stderr.splitlines()
    assert "warning" in line
    assert "'broken'" in line


def test_a_broken_plugin_cannot_be_entered(here):
    entered = CliRunner().invoke(house(plugin("broken", "no_such_module:room")), ["broken"])
    assert entered.exit_code == 2
    assert "No such command 'broken'" in entered.stderr


def test_rooms_are_not_loaded_before_they_are_entered(here):
    root = house(plugin("broken", "no_such_module:room"), plugin("greet", f"{here}:greet"))
    assert CliRunner().invoke(root, ["greet"]).stderr == ""


def test_a_plugin_cannot_take_an_own_rooms_name(here):
    root = house(plugin("greet", "no_such_module:room"), rooms={"greet": f"{here}:greet"})
    assert CliRunner().invoke(root, ["greet"]).stdout == "good morning\n"


def test_every_own_room_opens():
    root = House("house", plugins=())
    context = click.Context(root)
    for name in OWN_ROOMS:
        command = root.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.get_short_help_str()
