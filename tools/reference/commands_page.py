"""``docs/command-line.md``: the help of every command of ``ariane``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from ariane_admin.cli import root
from tools.reference.markdown import COLUMNS_MAX, block, made_from, page, table

_INTRODUCTION: Final = """
What `ariane <command> --help` says, for all commands of this repository, those that distributions
add [by an entry point](../services/admin/README.md#a-command-of-your-own) among them. In a work
tree it is `.venv/bin/ariane`.

Results go to standard output, everything else to standard error; `-o json` is for programs. A whole
cluster to try commands on is one command away: `ariane dev`.
"""


def render() -> str:
    """The whole page."""
    commands = list(_commands(_context(root, "ariane", None)))
    leaves = [
        [
            f"[`{context.command_path}`](#{_anchor(context)})",
            context.command.get_short_help_str(200),
        ]
        for context in commands
        if not isinstance(context.command, click.Group)
    ]
    helps = []
    for context in commands:
        level = "#" * (context.command_path.count(" ") + 2)
        helps += [f"{level} {context.command_path}", block("text", _help(context))]
    return page(
        "# Command line",
        made_from("the commands themselves"),
        _INTRODUCTION,
        table(["Command", "Does"], leaves),
        *helps,
    )


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    # The width is ours: a page does not depend on somebody's terminal.
    settings = {**command.context_settings, "terminal_width": COLUMNS_MAX}
    return click.Context(command, parent=parent, info_name=name, **settings)


def _commands(context: click.Context) -> Iterator[click.Context]:
    """A command and all below it, each with its context.

    Raises:
        LookupError: A command that is listed cannot be loaded.
    """
    yield context
    if not isinstance(context.command, click.Group):
        return
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        if command is None:
            raise LookupError(f"{context.command_path} {name} cannot be loaded")
        yield from _commands(_context(command, name, context))


def _help(context: click.Context) -> str:
    lines = context.command.get_help(context).splitlines()
    return "\n".join(line.rstrip() for line in lines)


def _anchor(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")
