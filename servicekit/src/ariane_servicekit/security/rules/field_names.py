"""Finds the names in a message by the path of a field, as the contract's access rules state it.

::

    "topic"                      one name
    "order.subscriptions.topic"  as many as there are subscriptions
    "table.topics"               a list of names
    "filters.value.filter"       one for each value of a map
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from ariane_servicekit.errors import ServicekitError

Names: TypeAlias = Callable[[Any], Iterable[str]]
"""Returns the names that a message has; the same one may come more than once."""


Get: TypeAlias = Callable[[Any], Iterable[Any]]
"""Returns what one step leads to."""


class FieldPathWrong(ServicekitError):
    """A path of an access rule does not lead to a field with names."""


def names_at(message: Descriptor, path: str) -> Names:
    """Return a function that finds the names at a path.

    Raises:
        FieldPathWrong: There is no field with texts at it.
    """
    fields = _fields_at(message, path)
    if fields[-1].type != FieldDescriptor.TYPE_STRING:
        raise FieldPathWrong(f"{message.full_name} has no text at {path!r}")
    # A run of single fields is one step; each list ends a run.
    steps: list[Get] = []
    run: list[str] = []
    is_map = False
    for field in fields:
        if is_map:
            # The field is "value", which the step through the map has taken already.
            is_map = False
            continue
        run.append(field.name)
        if field.is_repeated:
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            get = attrgetter(".".join(run))
            steps.append(partial(_values, get) if is_map else get)
            run = []
    if run:
        steps.append(partial(_single, attrgetter(".".join(run))))
    return _walker(steps)


def list_at(message: Descriptor, path: str) -> tuple[str, Names]:
    """Return the list in an answer that a path begins with, and a function for an entry's names.

    Raises:
        FieldPathWrong: The path does not begin with a list, or leads to no texts in its entries.
    """
    first, _, rest = path.partition(".")
    field = _fields_at(message, first)[0]
    if not field.is_repeated:
        raise FieldPathWrong(f"{message.full_name} has no list {first!r}")
    if field.message_type is None:
        if rest or field.type != FieldDescriptor.TYPE_STRING:
            raise FieldPathWrong(f"{message.full_name} has no texts at {path!r}")
        return first, _itself
    return first, names_at(field.message_type, rest)


def _fields_at(message: Descriptor, path: str) -> list[FieldDescriptor]:
    found: list[FieldDescriptor] = []
    at: Descriptor | None = message
    for part in path.split("."):
        field = None if at is None else at.fields_by_name.get(part)
        if field is None:
            raise FieldPathWrong(f"{message.full_name} has no field at {path!r}")
        found.append(field)
        at = field.message_type
    return found


def _walker(steps: list[Get]) -> Names:
    get, *rest = steps
    return partial(_each, get, _walker(rest)) if rest else get


def _single(get: Callable[[Any], str], message: Any) -> tuple[str]:
    return (get(message),)


def _values(get: Callable[[Any], Mapping[str, Any]], message: Any) -> Iterable[Any]:
    return get(message).values()


def _each(get: Get, inner: Names, message: Any) -> list[str]:
    return [name for entry in get(message) for name in inner(entry)]


def _itself(entry: str) -> tuple[str]:
    return (entry,)
