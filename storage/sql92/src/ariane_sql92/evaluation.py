"""Turns the tree of a condition into functions over batches; each evaluates all messages at once.

The kinds of compared values are known from the tree: properties are texts, and all other values are
constants. So the kind of comparison is chosen here, once for all messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ariane_sql92.batch import SEARCHES, Batch, says_true
from ariane_sql92.numbers import Keys, key_of, number_keys
from ariane_sql92.syntax import (
    Condition,
    Equal,
    Every,
    HasTruth,
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
from ariane_sql92.truth import FALSE, INCOMPARABLE, TRUE, UNKNOWN, Truths, both, either, opposite

Judge: TypeAlias = Callable[[Batch], Truths]
Sameness: TypeAlias = Callable[[Batch, Truths, Truths], Truths]
"""Whether two operands are equal; it is given what is known of both, and need not ask again."""

Mask: TypeAlias = NDArray[np.bool_]

_ORDERS: Final[dict[Order, Callable[[Keys, Keys], Mask]]] = {
    Order.GREATER: np.greater,
    Order.GREATER_OR_EQUAL: np.greater_equal,
    Order.LESS: np.less,
    Order.LESS_OR_EQUAL: np.less_equal,
}


def judge_of(condition: Condition) -> Judge:  # noqa: PLR0911 - one for each kind of condition
    """The function that evaluates a condition over a batch."""
    match condition:
        case Truth(value):
            truth = UNKNOWN if value is None else np.uint8(value)
            return lambda batch: _everywhere(batch, truth)
        case HasTruth(name):
            return lambda batch: np.where(batch.present(name), FALSE, UNKNOWN)
        case Not(inner):
            judge = judge_of(inner)
            return lambda batch: opposite(judge(batch))
        case Every(parts):
            return _folded(both, tuple(map(judge_of, parts)))
        case Some(parts):
            return _folded(either, tuple(map(judge_of, parts)))
        case Equal(left, right):
            return _equal(left, right)
        case Ordered(left, order, right):
            return _ordered(left, order, right)
        case OneOf(name, texts, negated):
            return lambda batch: np.where(
                batch.present(name), (batch.among(name, texts) ^ negated).view(np.uint8), UNKNOWN
            )
        case TextMatch():
            return _text_match(condition)


def _everywhere(batch: Batch, truth: np.uint8) -> Truths:
    return np.full(batch.message_count, truth, np.uint8)


def _folded(join: Callable[[Truths, Truths], Truths], judges: tuple[Judge, ...]) -> Judge:
    def judge(batch: Batch) -> Truths:
        truths = judges[0](batch)
        for other in judges[1:]:
            truths = join(truths, other(batch))
        return truths

    return judge


def _text_match(condition: TextMatch) -> Judge:
    text, match, negated = condition.text, condition.match, condition.negated
    if not text:
        return lambda batch: _everywhere(batch, FALSE)
    match condition.searched:
        case Property(name):
            return lambda batch: (
                batch.present(name) & (batch.matched(name, match, text) ^ negated)
            ).view(np.uint8)
        case Text(searched):
            truth = np.uint8(SEARCHES[match](searched, text) ^ negated)
            return lambda batch: _everywhere(batch, truth)
        case Number():
            return lambda batch: _everywhere(batch, FALSE)
        case other:
            # Nothing is found in values other than texts; only an incomparable value stays so.
            judge = _nulls_and_incomparables(other)
            return lambda batch: np.where(judge(batch) == INCOMPARABLE, INCOMPARABLE, FALSE)


def _nulls_and_incomparables(operand: Operand) -> Judge:
    """UNKNOWN where an operand is null, INCOMPARABLE where it is that; others mean nothing."""
    match operand:
        case Property(name):
            return lambda batch: np.where(batch.present(name), FALSE, UNKNOWN)
        case Text() | Number():
            return lambda batch: _everywhere(batch, FALSE)
        case Nothing(condition):
            judge = judge_of(Truth(None) if condition is None else condition)
            return lambda batch: np.where(judge(batch) == INCOMPARABLE, INCOMPARABLE, UNKNOWN)
        case condition:
            return judge_of(condition)


def _equal(left: Operand, right: Operand) -> Judge:
    left_state, right_state = _nulls_and_incomparables(left), _nulls_and_incomparables(right)
    compare = _sameness(left, right)

    def judge(batch: Batch) -> Truths:
        lefts, rights = left_state(batch), right_state(batch)
        left_null, right_null = lefts == UNKNOWN, rights == UNKNOWN
        # Two nulls are equal, which gives IS NULL. A null only at the left is unknown; a null only
        # at the right is a different value: RocketMQ's rule.
        same = compare(batch, lefts, rights)
        truths = np.where(left_null, np.where(right_null, TRUE, UNKNOWN), same)
        truths[right_null & ~left_null] = FALSE
        truths[(lefts == INCOMPARABLE) | (rights == INCOMPARABLE)] = INCOMPARABLE
        return truths

    return judge


def _sameness(left: Operand, right: Operand) -> Sameness:  # noqa: PLR0911 - one for each pair
    """Whether two values are equal, if both exist."""
    match left, right:
        case (Property(name), Property(other)):
            return lambda batch, _lefts, _rights: batch.same(name, other).view(np.uint8)
        case (Property(name), Text(text)) | (Text(text), Property(name)):
            return lambda batch, _lefts, _rights: batch.equal(name, text).view(np.uint8)
        case (Text(text), Text(other)):
            truth = np.uint8(text == other)
            return lambda batch, _lefts, _rights: _everywhere(batch, truth)
        case (Property() | Text() | Number(), Number()) | (Number(), Property() | Text()):
            compared = _compared(left, np.equal, right)
            return lambda batch, _lefts, _rights: compared(batch)
        case (Nothing(), _) | (_, Nothing()) | (Number(), _) | (_, Number()):
            return lambda batch, _lefts, _rights: _everywhere(batch, FALSE)
        case (_, Property() | Text()):
            # Java reads the truth as a text, which fails.
            return lambda batch, _lefts, _rights: _everywhere(batch, INCOMPARABLE)
    return _same_truth(left)


def _same_truth(left: Operand) -> Sameness:
    """Whether a text equals the truth of a condition, or two conditions have the same truth.

    What is known of a condition is its truth. It is not evaluated for this once more: conditions
    within conditions would cost twice as much with each level.
    """
    match left:
        case Property(name):
            return lambda batch, _lefts, rights: (batch.truths(name) == (rights == TRUE)).view(
                np.uint8
            )
        case Text(text):
            truth = TRUE if says_true(text) else FALSE
            return lambda _batch, _lefts, rights: (rights == truth).view(np.uint8)
        case _:
            return lambda _batch, lefts, rights: (lefts == rights).view(np.uint8)


def _ordered(
    left: Property | Number | Nothing, order: Order, right: Property | Number | Nothing
) -> Judge:
    left_state, right_state = _nulls_and_incomparables(left), _nulls_and_incomparables(right)
    compare = _compared(left, _ORDERS[order], right)

    def judge(batch: Batch) -> Truths:
        truths = compare(batch)
        # The left operand is read first; a null there ends the comparison.
        for state in (right_state(batch), left_state(batch)):
            truths = np.where(state >= UNKNOWN, state, truths)
        return truths

    return judge


def _compared(left: Operand, compare: Callable[[Keys, Keys], Mask], right: Operand) -> Judge:
    """Compare two numbers; INCOMPARABLE where a text is not a number."""
    kinds = {operand.kind for operand in (left, right) if isinstance(operand, Number)}
    # Two texts are compared as doubles; a text takes the kind of the other; the wider kind wins.
    kind = NumberKind.DOUBLE
    if kinds and NumberKind.DOUBLE not in kinds:
        kind = NumberKind.LONG if NumberKind.LONG in kinds else NumberKind.INTEGER
    left_keys, right_keys = _keys(left, kind), _keys(right, kind)

    def judge(batch: Batch) -> Truths:
        lefts, left_numeric = left_keys(batch)
        rights, right_numeric = right_keys(batch)
        truths = compare(lefts, rights).astype(np.uint8)
        return np.where(left_numeric & right_numeric, truths, INCOMPARABLE)

    return judge


def _keys(operand: Operand, kind: NumberKind) -> Callable[[Batch], tuple[Keys, Mask]]:
    """The keys of an operand as numbers of a kind, and whether its values are such numbers."""
    match operand:
        case Property(name):
            return lambda batch: batch.numbers(name, kind)
        case Number():
            keys, known = np.array([key_of(operand, kind)]), np.ones(1, np.bool_)
        case Text(text):
            keys, known = number_keys([text], kind)
        case _:
            keys, known = np.zeros(1, np.int64), np.ones(1, np.bool_)  # A null, which is not read.
    return lambda batch: (
        np.broadcast_to(keys, batch.message_count),
        np.broadcast_to(known, batch.message_count),
    )
