"""What a condition is made of, once its text has been read and found sound.

::

    Operand                          Condition (is an operand too: a = 1 IS NULL)
    +-- Property   name              +-- Truth      TRUE, FALSE, NULL
    +-- Text       'JFK'             +-- HasTruth   a property where a condition is needed
    +-- Number     60, 60.5          +-- Not, Every (AND), Some (OR)
    +-- Nothing    -name: null       +-- Equal      =, IS NULL
                                     +-- Ordered    >, >=, <, <=
                                     +-- OneOf      IN
                                     +-- TextMatch  CONTAINS, STARTSWITH, ENDSWITH

What can be said by others has no node: ``<>`` is ``NOT =``, BETWEEN is ``>= AND <=``, and IS NULL
is ``= NULL``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class NumberKind(Enum):
    """Which of Java's types a number has: a text that is compared with it must be of that type."""

    INTEGER = "an integer of 32 bits"
    LONG = "an integer of 64 bits"
    DOUBLE = "a floating-point number"


class Order(Enum):
    """How two numbers are compared."""

    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    LESS = "<"
    LESS_OR_EQUAL = "<="


class Match(Enum):
    """How a text is searched."""

    CONTAINS = "CONTAINS"
    STARTS_WITH = "STARTSWITH"
    ENDS_WITH = "ENDSWITH"


@dataclass(frozen=True, slots=True)
class Property:
    """The value of a property: a text, or null where a message has none of this name."""

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
    """A minus before what is no number: null, unless what it stands before cannot be told."""

    before: Condition | None


@dataclass(frozen=True, slots=True)
class Truth:
    """TRUE, FALSE, or NULL for ``None``."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class HasTruth:
    """A property where a condition is needed: texts are no truths, so false; missing is unknown."""

    name: str


@dataclass(frozen=True, slots=True)
class Not:
    """True where the other is false; unknown stays unknown."""

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
    """Whether two values are the same."""

    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Ordered:
    """Whether two numbers stand in this order."""

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
    """Whether a text is found, or with ``negated`` not found; what is no text does neither."""

    searched: Operand
    match: Match
    text: str
    negated: bool


Condition: TypeAlias = Truth | HasTruth | Not | Every | Some | Equal | Ordered | OneOf | TextMatch
Operand: TypeAlias = Property | Text | Number | Nothing | Condition
