"""The changes that the console can make."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ariane.admin.v1.cluster_service_pb2 import BrokerOutcome
from ariane_admin.console.api import CALL_S_MAX, Asker
from ariane_admin.console.blocks import Block

Given = Mapping[str, str]
"""The values of a form, by name."""


class WronglyFilled(Exception):
    """A form has an invalid value."""


class NotDone(Exception):
    """A change failed; the text has the errors of the called processes."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A change of many parts, of which some are done."""

    progress: str
    """The message so far."""
    rest: Given
    """Values for the form of the next part."""


@dataclass(frozen=True, slots=True)
class Change:
    """One kind of change."""

    question: str
    """The question before it, with the form's fields in braces."""
    perform: Callable[[Asker, Given], Awaitable[str | Unfinished]]
    """Makes it; returns a message, or its progress if the browser has to continue."""
    back: Callable[[Given], str]
    """Path of the page after it."""
    danger: bool = False
    """Whether it loses data."""
    within_s: float = CALL_S_MAX
    """Seconds that one of its calls may take."""
    preview: Callable[[Asker, Given], Awaitable[Sequence[Block]]] | None = None
    """What it would do, shown below the question."""


def number_in(given: Given, name: str) -> int:
    """A whole number of a form.

    Raises:
        WronglyFilled: It is not a whole number.
    """
    if not given[name].isdecimal():
        raise WronglyFilled(f"{name} is a number.")
    return int(given[name])


def not_on(outcomes: Iterable[BrokerOutcome]) -> str:
    """The end of a sentence that says on which brokers a change failed; empty if on none."""
    failed = [each for each in outcomes if each.HasField("error")]
    if not failed:
        return ""
    return " Not on " + "; ".join(f"{e.broker_name}: {e.error.message}" for e in failed) + "."
