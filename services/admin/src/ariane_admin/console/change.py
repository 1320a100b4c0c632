"""What the console changes, one by one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from ariane_admin.console.api import CALL_S_MAX, Asker

Given = Mapping[str, str]
"""What a form held."""


class WronglyFilled(Exception):
    """A form that says what cannot be."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that the console changes.

    Attributes:
        question: What is asked before, with the form's fields in braces.
        perform: Does it; what is said then.
        back: Where the browser goes then.
        danger: Whether something is lost by it.
        within_s: Seconds that a call of it may take.
    """

    question: str
    perform: Callable[[Asker, Given], Awaitable[str]]
    back: Callable[[Given], str]
    danger: bool = False
    within_s: float = CALL_S_MAX


def number_in(given: Given, name: str) -> int:
    """A whole number of a form.

    Raises:
        WronglyFilled: It is none.
    """
    if not given[name].isdecimal():
        raise WronglyFilled(f"{name} is a number.")
    return int(given[name])
