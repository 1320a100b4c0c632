"""The nodes of the tree of a condition.

::

    Operand                          Condition (is an operand too: a = 1 IS NULL)
    +-- Property   name              +-- Truth      TRUE, FALSE, NULL
    +-- Text       'JFK'             +-- HasTruth   a property where a condition is needed
    +-- Number     60, 60.5          +-- Not, Every (AND), Some (OR)
    +-- Nothing    -name: null       +-- Equal      =, IS NULL
                                     +-- Ordered    >, >=, <, <=
                                     +-- OneOf      IN
                                     +-- TextMatch  CONTAINS, STARTSWITH, ENDSWITH

Operators that others can express have no node: ``<>`` is ``NOT =``, BETWEEN is ``>= AND <=``, and
IS NULL is ``= NULL``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class NumberKind(Enum):
    """The Java type of a number: a text that is compared with it must be of that type."""

    INTEGER = "an integer of 32 bits"
    LONG = "an integer of 64 bits"
    DOUBLE = "a floating-point number"


class Order(Enum):
    """The order of two numbers."""

    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    LESS = "<"
    LESS_OR_EQUAL = "<="


class Match(Enum):
    """The kind of search in a text."""

    CONTAINS = "CONTAINS"
    STARTS_WITH = "STARTSWITH"
    ENDS_WITH = "ENDSWITH"


@dataclass(frozen=True, slots=True)
class Property:
    """The value of a property: a text, or null if a message does not have it."""

    name: str


@dataclass(frozen=True, slots=True)
class Text:
    """A text in quotes."""

    text: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number, its sign included."""

    value: int | float
    kind: NumberKind


@dataclass(frozen=True, slots=True)
class Nothing:
    """A minus before a value other than a number: null, or incomparable if the value is."""

    before: Condition | None


@dataclass(frozen=True, slots=True)
class Truth:
    """TRUE, FALSE, or NULL for ``None``."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class HasTruth:
    """A property where a condition is needed: false, as texts are no truths; unknown if missing."""

    name: str


@dataclass(frozen=True, slots=True)
class Not:
    """True if the other is false; unknown stays unknown."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Every:
    """AND of all parts, from left to right."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """OR of all parts, from left to right."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Equal:
    """Whether two values are equal."""

    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Ordered:
    """Whether two numbers have this order."""

    left: Property | Number | Nothing
    order: Order
    right: Property | Number | Nothing


@dataclass(frozen=True, slots=True)
class OneOf:
    """Whether a property has one of these values, or with ``negated`` none of them."""

    name: str
    texts: frozenset[str]
    negated: bool


@dataclass(frozen=True, slots=True)
class TextMatch:
    """Whether a text is found, or with ``negated`` not found; false for values other than texts."""

    searched: Operand
    match: Match
    text: str
    negated: bool


Condition: TypeAlias = Truth | HasTruth | Not | Every | Some | Equal | Ordered | OneOf | TextMatch
Operand: TypeAlias = Property | Text | Number | Nothing | Condition


def part_count(part: Condition | Operand) -> int:
    """Number of comparisons and searches in a condition: what joins them costs next to nothing."""
    own, inner = 1, tuple[Condition | Operand, ...]()
    match part:
        case Every(parts) | Some(parts):
            own, inner = 0, parts
        case Not(condition):
            own, inner = 0, (condition,)
        case TextMatch(searched):
            inner = (searched,)
        case Equal(left, right) | Ordered(left, _, right):
            inner = (left, right)
        case Nothing(before):
            own, inner = 0, () if before is None else (before,)
        case Property() | Text() | Number():
            own = 0
    return own + sum(map(part_count, inner))
