"""``ariane compat``: the commands of others, in the words of ours."""

from __future__ import annotations

from difflib import get_close_matches

import click

from ariane_admin.compat.mqadmin import Spelling, mqadmin_commands
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, output_option


@click.command(context_settings={"allow_interspersed_args": False})
@output_option
@click.argument("command", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def mqadmin(*, command: str | None, arguments: tuple[str, ...], output: Output) -> int:
    """Translate a command line of RocketMQ's mqadmin; nothing is run.

    Without COMMAND, list all commands of mqadmin. Put mqadmin's options after COMMAND and -o before
    it. The exit status is 4 if ariane has no equivalent.

    \b
    Examples:
      ariane compat mqadmin
      ariane compat mqadmin updateTopic -n 10.0.0.1:9876 -c prod -t orders -r 8 -w 8
      ariane compat mqadmin -o json consumerProgress -g billing
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    known = mqadmin_commands()
    if command is None:
        columns = ("mqadmin", "does", "ariane")
        output.rows(columns, [_listed(each) for each in known.values()])
        return ExitStatus.DONE
    spelling = known.get(command)
    if spelling is None:
        alike = get_close_matches(command, known)
        hint = f"did you mean {' or '.join(alike)}?" if alike else "ariane compat mqadmin lists all"
        raise CommandFailed(f"mqadmin has no command {command}; {hint}", ExitStatus.NOT_FOUND)
    try:
        commands = spelling.equivalents(arguments)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    status = ExitStatus.DONE if commands else ExitStatus.NOT_FOUND
    if output.for_programs:
        row = {"mqadmin": command, "does": spelling.does, "ariane": commands, "note": spelling.note}
        output.record(row)
        return status
    for line in commands:
        click.echo(line)
    if not commands:
        click.echo(f"ariane has no equivalent ({spelling.does}).", err=True)
    if spelling.note:
        click.echo(spelling.note, err=True)
    return status


def _listed(spelling: Spelling) -> dict[str, object]:
    """A command as the list shows it."""
    ours = spelling.equivalents(())
    return {
        "mqadmin": spelling.name,
        "does": spelling.does,
        "ariane": "; ".join(ours) or "-",
        "note": spelling.note,
    }
