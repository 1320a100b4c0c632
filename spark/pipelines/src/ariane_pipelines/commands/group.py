"""The command group ``ariane spark``."""

from __future__ import annotations

from typing import Final

import click

from ariane_pipelines.commands.archive import archive
from ariane_pipelines.commands.redrive import redrive
from ariane_pipelines.commands.replay import replay
from ariane_pipelines.commands.report import report
from ariane_pipelines.commands.sessions import sessions

_HELP: Final = """Archive topics, replay them, mend dead letters, make sessions, report; with Spark.

Spark runs in this process, on all its cores, unless --master says otherwise. Where the command is
started by spark-submit, Spark's own settings count.

Exit status: 0 it is done, 1 it could not be done, 2 the command line is wrong.

\b
Examples:
  ariane spark archive orders refunds --to /data/archive
  ariane spark replay orders orders-again --since 2013-02-08T00:00Z --until 2013-02-09T00:00Z
  ariane spark redrive billing --state /data/redrive/billing --repair fixes:add_currency
  ariane spark sessions clicks visits --gap '30 minutes' --checkpoint /data/visits
  ariane spark report --to report.html
"""


# As `ariane` has them: click keeps the help option of a command from the first context that asked.
@click.group(name="spark", help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
def spark() -> None:
    """Hold the commands together."""


for command in (archive, redrive, replay, report, sessions):
    spark.add_command(command)
