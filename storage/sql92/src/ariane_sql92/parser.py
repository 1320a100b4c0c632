"""Parses the text of a condition to a tree, or to an error that names the character.

The parser does not recurse; the depth of the tree is limited, because evaluation recurses.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, cast

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from ariane_sql92.building import TreeBuilder, condition_of
from ariane_sql92.errors import ConditionInvalid
from ariane_sql92.grammar import GRAMMAR
from ariane_sql92.syntax import Condition

CONDITION_BYTES_MAX: Final = 4096

_HINTS: Final = {
    "like": "LIKE is not known; CONTAINS, STARTSWITH and ENDSWITH are",
    "!": "'not equal' is written <>",
    '"': "texts stand in single quotes",
    "'": "the text is not closed",
    "/": "a comment is not closed, or this is arithmetic, which is not known",
    "-": "arithmetic is not known",
    "+": "arithmetic is not known",
    "*": "arithmetic is not known",
}


def parse_condition(text: str) -> Condition:
    """Read a condition.

    Args:
        text: At most ``CONDITION_BYTES_MAX`` bytes in UTF-8.

    Raises:
        ConditionInvalid: It is not legal, too long, or nested too deeply.
    """
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise ConditionInvalid("no Unicode text", error.start) from error
    if size_bytes > CONDITION_BYTES_MAX:
        reason = f"{size_bytes} bytes long; at most {CONDITION_BYTES_MAX} are read"
        raise ConditionInvalid(reason, min(len(text), CONDITION_BYTES_MAX))
    try:
        term = _parser().parse(text)
    except UnexpectedCharacters as error:
        start = cast("int", error.pos_in_stream)  # Lark's stub declares it as None.
        raise ConditionInvalid(_unexpected(text[start]), start) from None
    except UnexpectedToken as error:
        token = error.token
        if token.type == "$END":
            reason = "the condition ends too early" if text.strip() else "the condition is empty"
            raise ConditionInvalid(reason, len(text)) from None
        raise ConditionInvalid(_unexpected(str(token)), token.start_pos or 0) from None
    return condition_of(term)


def _unexpected(text: str) -> str:
    reason = f"{text!r} was not expected here"
    hint = _HINTS.get(text.lower())
    return f"{reason}: {hint}" if hint else reason


@cache
def _parser() -> Any:
    """The parser, made on first use: applications without conditions do not pay for it."""
    return Lark(GRAMMAR, parser="lalr", lexer="basic", transformer=TreeBuilder())
