"""What the console changes, one by one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ariane_admin.console.api import CALL_S_MAX, Asker

Given = Mapping[str, str]
"""What a form held."""


UPLOAD_FIELD: Final = "upload_token"
"""Field of a form with the upload token of FilterServers: no page shows it."""


class WronglyFilled(Exception):
    """A form that says what cannot be."""


class NotDone(Exception):
    """A change that came to no good end, as those say who were asked."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A change of many parts of which some are done.

    Attributes:
        progress: What is said so far.
        rest: What the form of the next part holds.
    """

    progress: str
    rest: Given


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that the console changes.

    Attributes:
        question: What is asked before, with the form's fields in braces.
        perform: Does it; what is said then, or how far it is where the browser is to go on.
        back: Where the browser goes then.
        danger: Whether something is lost by it.
        within_s: Seconds that a call of it may take.
    """

    question: str
    perform: Callable[[Asker, Given], Awaitable[str | Unfinished]]
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


def token_in(given: Given) -> str:
    """The upload token of a form; empty where none was said.

    Raises:
        WronglyFilled: It is no word of a header. The text never holds it.
    """
    token = given.get(UPLOAD_FIELD, "").strip()
    if token and not (token.isascii() and token.isprintable() and len(token.split()) == 1):
        raise WronglyFilled("An upload token is one word of ASCII characters.")
    return token
