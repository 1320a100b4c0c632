"""Groups of commands that load a command when it is run, and not before.

``ariane`` has its own commands (``own_commands.py``), and those that other distributions register
under the entry-point group ``ariane.commands``. Help, completion and suggestions read the lines of
lists from the source of commands, and of a plugin from the first line of its module, so that a
command that is broken, or slow to load, does not affect others.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from ariane_admin.errors import say_error
from ariane_admin.name_completion import complete_names
from ariane_admin.own_commands import OWN_COMMANDS, CommandGroup, LazyCommand

PLUGIN_GROUP: Final = "ariane.commands"
"""Entry points of this group are click commands."""

ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType(
    {"spark": "ariane-pipelines", "store": "ariane-storage"}
)
"""Our commands that other packages bring, which are listed in the same page."""

_COLUMNS_BESIDE: Final = 6
"""The columns of a line of help besides name and text."""


class LazyGroup(click.Group):
    """A group whose commands are loaded when they are run."""

    def __init__(
        self,
        *args: Any,
        commands: Mapping[str, LazyCommand | CommandGroup] = OWN_COMMANDS,
        plugins: Iterable[EntryPoint] | None = None,
        **kwargs: Any,
    ) -> None:
        """Take the places of commands, and load none.

        Args:
            args: For `click.Group`.
            commands: The own commands, by name.
            plugins: The commands of other distributions; by default the installed ones.
            kwargs: For `click.Group`.
        """
        super().__init__(*args, **kwargs)
        self._own = commands
        self._given_plugins = plugins

    @cached_property
    def _plugins(self) -> Mapping[str, EntryPoint]:
        """Commands of other distributions, except ones with the name of an own command."""
        given = self._given_plugins
        found = entry_points(group=PLUGIN_GROUP) if given is None else given
        return {each.name: each for each in found if each.name not in self._own}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(ctx), *self._own, *self._plugins})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command. A plugin that cannot be loaded causes a warning and counts as missing."""
        own = self._own.get(cmd_name)
        if isinstance(own, CommandGroup):
            return LazyGroup(
                cmd_name,
                help=own.help,
                epilog=_examples_text(own.examples),
                commands=own.commands,
                plugins=(),
            )
        if own is not None:
            module, _, attribute = own.place.partition(":")
            command: click.Command = getattr(importlib.import_module(module), attribute)
            complete_names(command, str(self.name))
            return _with_checked_texts(command)
        known = super().get_command(ctx, cmd_name)
        if known is None and cmd_name in self._plugins:
            return _load_plugin(self._plugins[cmd_name])
        return known

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a command line.

        Raises:
            click.NoSuchCommand: There is none; the error suggests similar names.
            click.UsageError: It is one of another package of ours, which is not installed.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            if self._own is OWN_COMMANDS and args[0] in ELSEWHERE:
                text = f"{args[0]} comes with another package: pip install {ELSEWHERE[args[0]]}"
                raise click.UsageError(text, ctx) from None
            alike = get_close_matches(args[0], self.list_commands(ctx))
            raise click.NoSuchCommand(args[0], possibilities=alike, ctx=ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with a line each."""
        lines = list(self._lines(ctx))
        width = formatter.width - _COLUMNS_BESIDE - max(len(each.name) for each in lines)
        with formatter.section("Commands"):
            formatter.write_dl([(each.name, each.get_short_help_str(width)) for each in lines])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete the name of a command, or an option."""
        names = [
            CompletionItem(each.name, help=each.get_short_help_str())
            for each in self._lines(ctx)
            if each.name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def _lines(self, ctx: click.Context) -> Iterator[_Line]:
        """The lines of lists: commands with only name and help, without loading the others."""
        for name in self.list_commands(ctx):
            own = self._own.get(name)
            if own is not None:
                yield _Line(name, help=own.help)
                continue
            plugin = self._plugins.get(name)
            text = "" if plugin is None else _first_line(plugin)
            command = None if text else self.get_command(ctx, name)
            if text:
                yield _Line(name, help=text)
            elif command is not None and not command.hidden:
                yield _Line(name, help=command.help, short_help=command.short_help)


class _Line(click.Command):
    """A command for lists; it cannot be run."""

    name: str


def _with_checked_texts(command: click.Command) -> click.Command:
    """A command that refuses empty texts: an unset variable of a script must not mean "all".

    It also refuses texts other than UTF-8, which no name can contain. Arguments for other programs
    are not checked.
    """
    if "parse_args" in vars(command):
        return command  # It is wrapped already.
    parse = command.parse_args

    def parse_args(ctx: click.Context, args: list[str]) -> list[str]:
        rest = parse(ctx, args)
        for param in command.params:
            name = str(param.name)
            is_given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
            if is_given and param.type is not click.UNPROCESSED:
                trouble = _trouble_of(ctx.params.get(name))
                if trouble:
                    raise click.BadParameter(trouble, ctx, param)
        return rest

    command.parse_args = parse_args  # type: ignore[method-assign]
    return command


def _trouble_of(value: object) -> str:
    """Why a text, or one of several, is refused; empty if it is not."""
    if type(value) is tuple:
        return next(filter(None, map(_trouble_of, value)), "")
    if isinstance(value, Path):
        value = str(value)
    if not isinstance(value, str):
        return ""
    if not value:
        return "it is empty"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "it is no text of UTF-8"
    return ""


def _examples_text(examples: Sequence[str]) -> str:
    """The end of a group's help: its examples, one per line, which click does not wrap."""
    head = "Example:" if len(examples) == 1 else "Examples:"
    return "\n".join(("\b", head, *(f"  {line}" for line in examples)))


def _first_line(entry: EntryPoint) -> str:
    """The first line of a plugin module's docstring, without loading it; empty if unknown.

    A docstring that begins with the command itself, such as "``ariane store``: looking at ...", is
    shown without it.
    """
    top, *rest = entry.module.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return ""
    for folder in (spec and spec.submodule_search_locations) or ():
        place = Path(folder, *rest)
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if path.is_file():
                text = ast.get_docstring(ast.parse(path.read_bytes())) or ""
                line = text.removeprefix(f"``ariane {entry.name}``: ")
                return line[:1].upper() + line[1:]
    return ""


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
