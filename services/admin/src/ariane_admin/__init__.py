"""The command line of ArianeMQ; the admin service will join it here."""

# Nothing that loads gRPC: `__main__` does that, and answers for Ctrl-C meanwhile.
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, output_option

__all__ = ["CommandFailed", "ExitStatus", "Output", "output_option"]
