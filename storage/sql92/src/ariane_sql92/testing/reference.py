"""Judges one message by walking the tree, as RocketMQ's broker does: slow, easy to believe."""

from __future__ import annotations

from collections.abc import Mapping

from ariane_sql92.numbers import double_keys, java_double, java_integer
from ariane_sql92.parser import parse_condition
from ariane_sql92.syntax import (
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

_Value = str | bool | Number | None


class _Unknown(Exception):
    """Where RocketMQ's evaluation throws."""


def judge_plainly(text: str, properties: Mapping[str, str]) -> bool:
    """Whether a message fulfils a condition.

    Raises:
        ConditionInvalid: The text is no condition.
    """
    try:
        return _value(parse_condition(text), properties) is True
    except _Unknown:
        return False


def _value(  # noqa: C901, PLR0911, PLR0912 - one branch for each kind, as the tree has them
    operand: Operand, properties: Mapping[str, str]
) -> _Value:
    match operand:
        case Property(name):
            return properties.get(name)
        case Text(text):
            return text
        case Number():
            return operand
        case Nothing(before):
            if before is not None:
                _value(before, properties)
            return None
        case Truth(truth):
            return truth
        case HasTruth(name):
            return None if name not in properties else False
        case Not(condition):
            value = _value(condition, properties)
            return None if value is None else not value
        case Every(parts):
            return _joined(parts, properties, decisive=False)
        case Some(parts):
            return _joined(parts, properties, decisive=True)
        case Equal(left, right):
            return _equal(_value(left, properties), _value(right, properties))
        case Ordered():
            return _ordered(operand, properties)
        case OneOf(name, texts, negated):
            found = properties.get(name)
            return None if found is None else (found in texts) is not negated
        case TextMatch():
            return _found(operand, properties)


def _joined(
    parts: tuple[Operand, ...], properties: Mapping[str, str], *, decisive: bool
) -> bool | None:
    """AND where false is decisive, OR where true is; from left to right, and no further."""
    unknown = False
    for part in parts:
        value = _value(part, properties)
        if value is decisive:
            return decisive
        unknown |= value is None
    return None if unknown else not decisive


def _equal(left: _Value, right: _Value) -> bool | None:  # noqa: PLR0911 - one for each pair
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    match left, right:
        case str(), str():
            return left == right
        case bool(), bool():
            return left is right
        case str(), bool():
            return (left.lower() == "true") is right
        case bool(), str():
            raise _Unknown
        case (Number(), str() | Number()) | (str(), Number()):
            return _difference(left, right) == 0
    return False


def _ordered(condition: Ordered, properties: Mapping[str, str]) -> bool | None:
    left = _value(condition.left, properties)
    if left is None:
        return None
    right = _value(condition.right, properties)
    if right is None:
        return None
    difference = _difference(left, right)
    match condition.order:
        case Order.GREATER:
            return difference > 0
        case Order.GREATER_OR_EQUAL:
            return difference >= 0
        case Order.LESS:
            return difference < 0
        case Order.LESS_OR_EQUAL:
            return difference <= 0


def _difference(left: _Value, right: _Value) -> int:
    """The sign of left less right, where at least one is a number, or both are texts of numbers."""
    kinds = {value.kind for value in (left, right) if isinstance(value, Number)}
    if NumberKind.DOUBLE in kinds or not kinds:
        kind = NumberKind.DOUBLE
    elif NumberKind.LONG in kinds:
        kind = NumberKind.LONG
    else:
        kind = NumberKind.INTEGER
    first, second = _key(left, kind), _key(right, kind)
    return (first > second) - (first < second)


def _key(value: _Value, kind: NumberKind) -> int:
    number = value.value if isinstance(value, Number) else None
    if isinstance(value, str):
        number = java_double(value) if kind is NumberKind.DOUBLE else java_integer(value, kind)
    if number is None:
        raise _Unknown
    return int(double_keys([number])[0]) if kind is NumberKind.DOUBLE else int(number)


def _found(condition: TextMatch, properties: Mapping[str, str]) -> bool:
    if not condition.text:
        return False
    searched = _value(condition.searched, properties)
    if not isinstance(searched, str):
        return False
    match condition.match:
        case Match.CONTAINS:
            found = condition.text in searched
        case Match.STARTS_WITH:
            found = searched.startswith(condition.text)
        case Match.ENDS_WITH:
            found = searched.endswith(condition.text)
    return found is not condition.negated
