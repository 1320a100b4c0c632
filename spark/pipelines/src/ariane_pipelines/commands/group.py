"""The command group ``ariane spark``: each command is loaded when it is entered."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click
from click.shell_completion import CompletionItem

_HELP: Final = """Archive, replay and analyze topics, and repair dead letters, with Spark.

Spark runs in this process on all cores, unless --master says otherwise. If the command is started
by spark-submit, Spark's own settings apply.

Exit status: 0 success, 1 failure, 2 wrong command line.

\b
Examples:
  ariane spark archive orders refunds --to /data/archive
  ariane spark replay orders orders-again --since 2013-02-08T00:00Z --until 2013-02-09T00:00Z
  ariane spark redrive billing --state /data/redrive/billing --repair fixes:add_currency
  ariane spark sessions clicks visits --gap '30 minutes' --checkpoint /data/visits
  ariane spark report --to report.html
"""

LINES: Final = {
    "archive": "Write topics to Parquet, by date and topic.",
    "redrive": "Repair dead letters and send them back, each once.",
    "replay": "Send the messages of a time span again.",
    "report": "Write an HTML report of lag, rates, delivery times and traces.",
    "sessions": "Group events into sessions, and write them to a topic.",
}
"""The line of each command in lists, so that help and completion need not load the commands."""


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return sorted(LINES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        del ctx
        if cmd_name not in LINES:
            return None
        module = import_module(f"ariane_pipelines.commands.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with a line each."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(sorted(LINES.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete the name of a command, or an option."""
        names = [
            CompletionItem(name, help=line)
            for name, line in sorted(LINES.items())
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


# As `ariane` has them: click keeps the help option of a command from the first context that asked.
@click.group(
    name="spark",
    cls=_LazyGroup,
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)
def spark() -> None:
    """Hold the commands together."""
