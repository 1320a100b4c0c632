"""Where the commands come from.

``ariane`` is a house with rooms: its own below ``ariane_admin.commands``, and those that other
distributions register under the entry-point group ``ariane.commands``. A room is loaded when it is
entered, so that one that is broken shuts out nobody else.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from ariane_admin.errors import say_error

PLUGIN_GROUP = "ariane.commands"
"""Entry points of this group are click commands."""

OWN_ROOMS: Mapping[str, str] = {
    "bench": "ariane_admin.commands.bench:bench",
    "broker": "ariane_admin.commands.broker:broker",
    "cluster": "ariane_admin.commands.cluster:cluster",
    "completion": "ariane_admin.commands.completion:completion",
    "consume": "ariane_admin.commands.consume:consume",
    "dead-letter": "ariane_admin.commands.dead_letter:dead_letter",
    "dev": "ariane_admin.commands.dev:dev",
    "doctor": "ariane_admin.commands.doctor:doctor",
    "group": "ariane_admin.commands.group.group:group",
    "message": "ariane_admin.commands.message:message",
    "outbox": "ariane_admin.commands.outbox:outbox",
    "produce": "ariane_admin.commands.produce:produce",
    "topic": "ariane_admin.commands.topic.topic:topic",
    "transaction": "ariane_admin.commands.transaction:transaction",
}


class House(click.Group):
    """A group whose commands are loaded when they are asked for."""

    def __init__(
        self,
        *args: Any,
        rooms: Mapping[str, str] = OWN_ROOMS,
        plugins: Iterable[EntryPoint] | None = None,
        **kwargs: Any,
    ) -> None:
        """Remember where commands are, and load none.

        Args:
            args: For `click.Group`.
            rooms: ``module:attribute`` of the own commands, by name.
            plugins: The commands of other distributions; those that are installed by default.
            kwargs: For `click.Group`.
        """
        super().__init__(*args, **kwargs)
        self._rooms = rooms
        found = entry_points(group=PLUGIN_GROUP) if plugins is None else plugins
        # A plugin cannot take the name of an own room.
        self._plugins = {each.name: each for each in found if each.name not in rooms}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all rooms."""
        return sorted({*super().list_commands(ctx), *self._rooms, *self._plugins})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a room. A plugin that cannot be loaded is a warning and counts as not there."""
        if cmd_name in self._rooms:
            module, _, attribute = self._rooms[cmd_name].partition(":")
            command: click.Command = getattr(importlib.import_module(module), attribute)
            return command
        if cmd_name in self._plugins:
            return _load_plugin(self._plugins[cmd_name])
        return super().get_command(ctx, cmd_name)


def _load_plugin(entry: EntryPoint) -> click.Command | None:
    origin = entry.dist.name if entry.dist else entry.value
    try:
        command = entry.load()
    except Exception as error:  # noqa: BLE001 - a plugin may fail in any way
        say_error(
            f"warning: the command {entry.name!r} of {origin} cannot be loaded:"
            f" {type(error).__name__}: {error}"
        )
        return None
    if not isinstance(command, click.Command):
        say_error(f"warning: {entry.name!r} of {origin} is no click command")
        return None
    return command
