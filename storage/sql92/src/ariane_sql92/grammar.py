"""The grammar of conditions, the same as RocketMQ's: message selectors without arithmetic.

NOT binds like a sign, tighter than any comparison: ``NOT a = 1`` is ``(NOT a) = 1``.
"""

from __future__ import annotations

from typing import Final

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
