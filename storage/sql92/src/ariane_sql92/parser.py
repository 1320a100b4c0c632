"""Parses the text of a condition to a tree, or to an error that names the character.

The grammar is that of RocketMQ: message selectors without arithmetic. NOT binds like a sign,
tighter than any comparison: ``NOT a = 1`` is ``(NOT a) = 1``.

The parser does not recurse; the depth of the tree is limited, because evaluation recurses.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, cast

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from ariane_sql92.building import TreeBuilder, condition_of
from ariane_sql92.errors import ConditionInvalid
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

GRAMMAR: Final = r"""
?start: some

?some: every
    | every ("OR"i every)+ -> some

?every: equality
    | equality ("AND"i equality)+ -> every

?equality: comparison
    | equality "=" comparison -> equal
    | equality "<>" comparison -> not_equal
    | equality "IS"i "NULL"i -> is_null
    | equality "IS"i "NOT"i "NULL"i -> is_not_null

?comparison: signed
    | comparison ">" signed -> greater
    | comparison ">=" signed -> greater_or_equal
    | comparison "<" signed -> less
    | comparison "<=" signed -> less_or_equal
    | comparison "BETWEEN"i signed "AND"i signed -> between
    | comparison "NOT"i "BETWEEN"i signed "AND"i signed -> not_between
    | comparison "IN"i "(" TEXT ("," TEXT)* ")" -> one_of
    | comparison "NOT"i "IN"i "(" TEXT ("," TEXT)* ")" -> none_of
    | comparison "CONTAINS"i TEXT -> contains
    | comparison "NOT"i "CONTAINS"i TEXT -> contains_not
    | comparison "STARTSWITH"i TEXT -> starts_with
    | comparison "NOT"i "STARTSWITH"i TEXT -> starts_not_with
    | comparison "ENDSWITH"i TEXT -> ends_with
    | comparison "NOT"i "ENDSWITH"i TEXT -> ends_not_with

?signed: "+" signed
    | "-" signed -> negative
    | "NOT"i signed -> negation
    | "(" some ")"
    | TEXT -> text
    | INTEGER -> integer
    | DECIMAL -> decimal
    | TRUE -> true
    | FALSE -> false
    | NULL -> null
    | NAME -> named

TRUE: "TRUE"i
FALSE: "FALSE"i
NULL: "NULL"i
NAME: /[a-z_$][a-z0-9_$]*/i
DECIMAL: /([0-9]+\.[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+/i
INTEGER: /(0|[1-9][0-9]*)l?/i
TEXT: /'(''|[^'])*'/

SPACE: /[ \t\n\r\f]+/
LINE_COMMENT: /--[^\n\r]*/
BLOCK_COMMENT: /\/\*[^*]*\*+([^*\/][^*]*\*+)*\//
%ignore SPACE
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
"""


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
