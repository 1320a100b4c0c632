"""Builds the tree of a condition, and refuses conditions of correct syntax but without a meaning.

It refuses the same as RocketMQ: texts with ``<`` or ``>``, NULL in a comparison, IN after anything
but a property, a number where a condition is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NoReturn

from lark import Token, Transformer
from lark.visitors import v_args

from ariane_sql92.errors import ConditionInvalid
from ariane_sql92.syntax import (
    Condition,
    Equal,
    Every,
    HasTruth,
    Match,
    Not,
    Nothing,
    Number,
    NumberKind,
    OneOf,
    Operand,
    Order,
    Ordered,
    Property,
    Some,
    Text,
    TextMatch,
    Truth,
)

CONDITION_DEPTH_MAX: Final = 50
CONDITION_COMPARISONS_MAX: Final = 100
"""Each costs up to 70 ns per message, and all readers share one processor."""

_INTEGER_MAX: Final = (1 << 31) - 1
_LONG_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Term:
    """A part of the tree, and its place in the text."""

    operand: Operand
    """The part."""
    start: int
    """Its first character."""
    depth: int = 1
    """The depth of nested parts."""
    comparisons: int = 0
    """The number of its parts that compare values."""
    literal: bool = False
    """Whether it is one word or number in the text; a number with a sign is not."""


def condition_of(term: Term) -> Condition:
    """The term as a condition.

    Raises:
        ConditionInvalid: It is a number, or a text.
    """
    match term.operand:
        case Property(name):
            return HasTruth(name)
        case Text() | Number() | Nothing():
            return _refuse("a condition is needed here, not a value", term)
        case condition:
            return condition


def _refuse(reason: str, term: Term) -> NoReturn:
    raise ConditionInvalid(reason, term.start)


def _joined(operand: Operand, *terms: Term) -> Term:
    """A part with other parts."""
    depth = 1 + max(term.depth for term in terms)
    if depth > CONDITION_DEPTH_MAX:
        _refuse(f"nested more than {CONDITION_DEPTH_MAX} deep", terms[0])
    comparisons = sum(term.comparisons for term in terms)
    comparisons += isinstance(operand, Equal | Ordered | OneOf | TextMatch)
    if comparisons > CONDITION_COMPARISONS_MAX:
        reason = f"more than {CONDITION_COMPARISONS_MAX} comparisons; IN takes many texts as one"
        _refuse(reason, terms[0])
    return Term(operand, terms[0].start, depth, comparisons)


def _number(term: Term) -> Property | Number | Nothing:
    """The term as an operand of ``<`` or ``>``."""
    match term.operand:
        case Property() | Number() | Nothing() as operand:
            return operand
        case Not():
            _refuse("NOT binds tighter than a comparison; write NOT (...)", term)
        case _:
            _refuse("only numbers and properties can be larger or smaller", term)


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _start(token: Token) -> int:
    return token.start_pos or 0


@v_args(inline=True)
class TreeBuilder(Transformer[Token, Term]):
    """Turns the nodes of the parser into terms, from the leaves up."""

    def text(self, token: Token) -> Term:
        """``'JFK'``."""
        return Term(Text(_unquoted(token)), _start(token), literal=True)

    def integer(self, token: Token) -> Term:
        """``60`` or ``60L``: of 32 bits if that is enough."""
        term = Term(Truth(None), _start(token))
        digits = token.rstrip("lL")
        if len(digits) > len(str(_LONG_MAX)) or int(digits) > _LONG_MAX:
            _refuse(f"integers end at {_LONG_MAX}", term)
        value = int(digits)
        kind = NumberKind.INTEGER if value <= _INTEGER_MAX else NumberKind.LONG
        return Term(Number(value, kind), term.start, literal=True)

    def decimal(self, token: Token) -> Term:
        """``60.5``, ``5.``, ``.5``, ``5E10``."""
        value = float(token)
        if math.isinf(value):
            raise ConditionInvalid("larger than any floating-point number", _start(token))
        return Term(Number(value, NumberKind.DOUBLE), _start(token), literal=True)

    def true(self, token: Token) -> Term:
        """``TRUE``."""
        return Term(Truth(value=True), _start(token), literal=True)

    def false(self, token: Token) -> Term:
        """``FALSE``."""
        return Term(Truth(value=False), _start(token), literal=True)

    def null(self, token: Token) -> Term:
        """``NULL``."""
        return Term(Truth(None), _start(token), literal=True)

    def named(self, token: Token) -> Term:
        """The name of a property; the case matters."""
        return Term(Property(str(token)), _start(token))

    def negative(self, term: Term) -> Term:
        """A minus."""
        match term.operand:
            case Number(value, kind):
                return Term(Number(-value, kind), term.start)
            case Property() | Text():
                return Term(Nothing(None), term.start)
            case Nothing():
                return term
            case condition:
                return _joined(Nothing(condition), term)

    def negation(self, term: Term) -> Term:
        """NOT."""
        return _joined(Not(condition_of(term)), term)

    def some(self, *terms: Term) -> Term:
        """OR."""
        return _joined(Some(tuple(map(condition_of, terms))), *terms)

    def every(self, *terms: Term) -> Term:
        """AND."""
        return _joined(Every(tuple(map(condition_of, terms))), *terms)

    def equal(self, left: Term, right: Term) -> Term:
        """``=``."""
        for term in (left, right):
            if term.operand == Truth(None):
                _refuse("NULL equals nothing; IS NULL asks for it", term)
        value = right.literal and isinstance(right.operand, Text | Number)
        if value and isinstance(left.operand, Truth):
            _refuse("no truth, so it cannot be compared with one", right)
        return _joined(Equal(left.operand, right.operand), left, right)

    def not_equal(self, left: Term, right: Term) -> Term:
        """``<>``."""
        return self.negation(self.equal(left, right))

    def is_null(self, term: Term) -> Term:
        """IS NULL."""
        return _joined(Equal(term.operand, Truth(None)), term)

    def is_not_null(self, term: Term) -> Term:
        """IS NOT NULL."""
        return self.negation(self.is_null(term))

    def greater(self, left: Term, right: Term) -> Term:
        """``>``."""
        return self._ordered(left, Order.GREATER, right)

    def greater_or_equal(self, left: Term, right: Term) -> Term:
        """``>=``."""
        return self._ordered(left, Order.GREATER_OR_EQUAL, right)

    def less(self, left: Term, right: Term) -> Term:
        """``<``."""
        return self._ordered(left, Order.LESS, right)

    def less_or_equal(self, left: Term, right: Term) -> Term:
        """``<=``."""
        return self._ordered(left, Order.LESS_OR_EQUAL, right)

    @staticmethod
    def _ordered(left: Term, order: Order, right: Term) -> Term:
        return _joined(Ordered(_number(left), order, _number(right)), left, right)

    def between(self, term: Term, low: Term, high: Term) -> Term:
        """BETWEEN, both ends included."""
        parts = (self.greater_or_equal(term, low), self.less_or_equal(term, high))
        match low.operand, high.operand:
            case Number(least), Number(most) if low.literal and high.literal and least > most:
                _refuse("the first end of BETWEEN is larger than the second", low)
        return self.every(*parts)

    def not_between(self, term: Term, low: Term, high: Term) -> Term:
        """NOT BETWEEN."""
        return self.some(self.less(term, low), self.greater(term, high))

    def one_of(self, term: Term, *tokens: Token) -> Term:
        """IN."""
        return self._listed(term, tokens, negated=False)

    def none_of(self, term: Term, *tokens: Token) -> Term:
        """NOT IN."""
        return self._listed(term, tokens, negated=True)

    @staticmethod
    def _listed(term: Term, tokens: tuple[Token, ...], *, negated: bool) -> Term:
        match term.operand:
            case Property(name):
                texts = frozenset(map(_unquoted, tokens))
                return _joined(OneOf(name, texts, negated=negated), term)
            case _:
                _refuse("IN needs a property before it", term)

    def contains(self, term: Term, token: Token) -> Term:
        """CONTAINS."""
        return self._match(term, Match.CONTAINS, token, negated=False)

    def contains_not(self, term: Term, token: Token) -> Term:
        """NOT CONTAINS."""
        return self._match(term, Match.CONTAINS, token, negated=True)

    def starts_with(self, term: Term, token: Token) -> Term:
        """STARTSWITH."""
        return self._match(term, Match.STARTS_WITH, token, negated=False)

    def starts_not_with(self, term: Term, token: Token) -> Term:
        """NOT STARTSWITH."""
        return self._match(term, Match.STARTS_WITH, token, negated=True)

    def ends_with(self, term: Term, token: Token) -> Term:
        """ENDSWITH."""
        return self._match(term, Match.ENDS_WITH, token, negated=False)

    def ends_not_with(self, term: Term, token: Token) -> Term:
        """NOT ENDSWITH."""
        return self._match(term, Match.ENDS_WITH, token, negated=True)

    @staticmethod
    def _match(term: Term, match: Match, token: Token, *, negated: bool) -> Term:
        return _joined(TextMatch(term.operand, match, _unquoted(token), negated=negated), term)
