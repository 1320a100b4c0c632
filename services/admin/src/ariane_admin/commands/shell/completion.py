"""``ariane completion``: the shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ariane_admin.errors import CommandFailed

_VARIABLE = "_ARIANE_COMPLETE"
"""The shell asks for completions by this variable; click derives it from the program's name."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, /, *, shell: str) -> None:
    """Print the completion script for a shell: bash, zsh or fish.

    \b
    Examples:
      source <(ariane completion bash)
      ariane completion fish > ~/.config/fish/completions/ariane.fish
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    kind = get_completion_class(shell)
    if kind is None:
        raise CommandFailed(f"{shell} is not supported")
    root = context.find_root()
    script = kind(root.command, {}, "ariane", _VARIABLE)
    click.echo(script.source_template % script.source_vars())
