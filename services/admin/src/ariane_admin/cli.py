"""The root of the command line, and the one place where an error becomes a line and a status."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

import click
from click.exceptions import NoArgsIsHelpError

from ariane_admin.asking.contexts import CONTEXT_VARIABLE, enter_context
from ariane_admin.errors import CommandFailed, say_error
from ariane_admin.lazy_group import LazyGroup
from ariane_admin.name_completion import NameType
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.interruption import interruptible_imports
from ariane_admin.terminal.standard_streams import drop_output, settle

_EXAMPLES = """\b
Examples:
  ariane dev                                   a whole cluster on this machine
  ariane topic create orders --queues 8
  ariane topic list -o json
  echo 'first order' | ariane produce orders --tag created
  ariane consume orders --from earliest --count 1
  ariane group reset billing orders --to earliest
  ariane doctor                                what is wrong, and what to do
  ariane explain TOPIC_NOT_FOUND               what the word behind an error means

\b
Exit status:
  0 done, 1 failed, 2 wrong usage, 3 no answer, or not from all,
  4 not found, 5 refused, 6 outcome unknown, 130 interrupted
"""


_OUR_WORDS: Final = MappingProxyType(
    {
        "is not a valid integer range": "is not a whole number",
        "is not a valid float range": "is not a number",
    }
)
"""What click says of a text in the place of a number, and what is meant."""


class _ReaderLeft(Exception):
    """Standard output has no reader any more; click would end with status 1 on its error."""


@contextmanager
def _broken_pipes_are_ours() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _ReaderLeft from error


class _Root(LazyGroup):
    """All commands, with the end of ``ariane ... | head`` kept from click."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line; ``--help`` is written here."""
        with _broken_pipes_are_ours():
            try:
                return super().make_context(*args, **kwargs)
            except click.NoSuchOption as error:
                raise click.NoSuchOption(
                    error.option_name,
                    f"{error.message} Options of a command stand behind it:"
                    " ariane topic list -o json.",
                    error.possibilities,
                    error.ctx,
                ) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _broken_pipes_are_ours():
            return super().invoke(ctx)


@click.group(
    cls=_Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EXAMPLES,
)
@click.version_option(package_name="ariane-admin", prog_name="ariane")
@click.option("--trace", is_flag=True, help="Show the trace of an error instead of one line.")
@click.option(
    "--context",
    "context_name",
    type=NameType("context"),
    envvar=CONTEXT_VARIABLE,
    metavar="NAME",
    help="Use the cluster that ariane context add saved under this name.",
)
@click.option("--tls-ca", metavar="FILE", help="Authority of the cluster's processes, PEM.")
@click.option("--tls-certificate", metavar="FILE", help="Certificate of the user, PEM.")
@click.option("--tls-key", metavar="FILE", help="Private key of the user's certificate, PEM.")
@click.pass_context
def root(
    context: click.Context,
    /,
    *,
    trace: bool,
    context_name: str | None,
    **files: str | None,
) -> None:
    """ArianeMQ from the command line.

    Commands find the name servers by --name-servers, then ARIANE_NAME_SERVERS, then the current
    context (ariane context use); files of TLS in the same way, by --tls-ca, ARIANE_TLS_CA and so
    on. Commands that cannot be undone ask for confirmation; --yes
    skips the question.
    """
    # `main` looks at --trace before there is a context.
    del trace
    enter_context(context, context_name, files)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Args:
        arguments: The command line without the program's name; that of the process by default.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    settle()
    try:
        with interruptible_imports():
            return _run(given)
    except Exception as error:
        if "--trace" in given:
            raise
        if isinstance(error, CommandFailed):
            error.show()
            return error.status
        if isinstance(error, click.UsageError) and not isinstance(error, NoArgsIsHelpError):
            _say_usage(error)
            return error.exit_code
        if isinstance(error, click.ClickException):
            error.show()
            return error.exit_code
        if isinstance(error, _ReaderLeft | BrokenPipeError):
            return _reader_left()
        return _failed(error)


def _say_usage(error: click.UsageError) -> None:
    """Write a usage error in one line, like all errors, with the command for help."""
    path = "ariane" if error.ctx is None else error.ctx.command_path
    text = error.format_message().rstrip(".")
    for theirs, ours in _OUR_WORDS.items():
        text = text.replace(theirs, ours)
    say_error(f"{text}; {path} --help tells how to say it [{ExitStatus.USAGE.name}]")


def _run(arguments: list[str]) -> int:
    try:
        status = root.main(args=arguments, prog_name="ariane", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return ExitStatus.INTERRUPTED
    sys.stdout.flush()
    return status if isinstance(status, int) else ExitStatus.DONE


def _reader_left() -> int:
    """End like the left side of ``ariane ... | head``: without a message."""
    # The interpreter flushes standard output once more when it ends.
    drop_output()
    return ExitStatus.DONE


def _failed(error: Exception) -> int:
    """Write an error of the client, or an unexpected one; return the exit status."""
    # An error of the client means that the client is loaded already, unlike in help and completion.
    from ariane_admin.terminal.error_statuses import exit_status_of, line_of  # noqa: PLC0415
    from ariane_sdk.errors import ArianeError  # noqa: PLC0415

    if isinstance(error, ArianeError):
        say_error(line_of(error))
        return exit_status_of(error)
    status = ExitStatus.FAILED
    say_error(f"{_in_words(error)} (ariane --trace shows where) [{status.name}]")
    return status


def _in_words(error: Exception) -> str:
    """An unexpected error; errors of the system with the system's text."""
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{error.filename}: "
        return f"{place}{error.strerror}"
    return f"{type(error).__name__}: {error}"
