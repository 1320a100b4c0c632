"""``ariane explain``: what the word behind an error means, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files

import click

from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row, output_option
from ariane_admin.terminal.own_reasons import OWN_REASONS


@click.command()
@click.argument("reason", required=False)
@output_option
def explain(*, reason: str | None, output: Output) -> None:
    """Explain REASON, the word in brackets after an error, and what to do about it.

    Without REASON, list all of them.

    \b
    Examples:
      ariane explain TOPIC_NOT_FOUND
      ariane explain -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    known = known_reasons()
    if reason is None:
        output.rows(("reason", "code", "repeat", "means"), known.values())
        return
    word = reason.strip("[]").upper().replace("-", "_")
    if word not in known:
        alike = get_close_matches(word, known)
        hint = f"did you mean {' or '.join(alike)}?" if alike else "ariane explain lists all"
        raise CommandFailed(f"no error has the reason {word}; {hint}", ExitStatus.NOT_FOUND)
    output.record(known[word])


def known_reasons() -> Mapping[str, Row]:
    """All words behind errors: those of the contract, of the client, and of the command line."""
    # Made by `make docs` from the contract and the table of errors of the services.
    contract = json.loads(files("ariane_admin").joinpath("reasons.json").read_text())
    rows = [*contract, *(each.row() for each in OWN_REASONS)]
    return {str(row["reason"]): row for row in rows}
