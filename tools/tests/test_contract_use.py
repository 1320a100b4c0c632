"""Every field of the contract is set by who answers with it, and read by who is asked with it.

Found by reading the source, not by running it. Of a message type, a field counts as set where a
service that answers with the type

* names it in a call of the type: ``ListQueueBoundsResponse(broker_time=now)``,
* assigns to it, or calls a method of it that changes it, or hands it to a call for its effect
  alone, in a module that names the type or one that holds it: ``set_time(found.store_time, ms)``,
* makes its tag of its number: ``length_tag(QueueRecords.BODIES_FIELD_NUMBER)``.

It counts as read where a module that names the type, or one that holds it, names the field.
A message that stands in requests and in answers is set by clients, too, and read by them.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tools.tests.test_contract import METHODS
from tools.tidy.sources import Sources, is_test
from tools.workspace import ROOT

CLIENTS: Final = frozenset({"sdk/python"})
EVERYWHERE: Final = "servicekit/src"
"""Its code runs in every service."""

CHANGING: Final = frozenset(
    {
        *("append", "extend", "add", "insert", "update", "setdefault", "get_or_create"),
        *("CopyFrom", "MergeFrom", "MergeFromString", "ParseFromString", "Pack", "SetInParent"),
        *("FromDatetime", "FromTimedelta", "FromSeconds", "FromMilliseconds", "FromNanoseconds"),
    }
)
"""Methods of a field that change it."""

SET_OTHERWISE: Final = {
    "ariane.broker.v1.AckMessagesResponse.results": "made of an argument (receive_servicer.py)",
    "ariane.broker.v1.AppendRecordsResponse.table_result": "filled in place (append_wire.py)",
    "ariane.broker.v1.NackMessagesResponse.results": "made of an argument (receive_servicer.py)",
    "ariane.broker.v1.SettleRecordsResponse.results": "made of an argument (receive_servicer.py)",
    "ariane.broker.v1.BodyRun": "made of a named tuple that has its fields (pull_wire.py)",
    "ariane.broker.v1.ReplicaHint": "made of a named tuple that has its fields (pull_wire.py)",
}
"""Messages and fields that are set, but not in a way that is seen here, each with how."""

READ_OTHERWISE: Final = {
    "ariane.common.v1.AccessRules.quotas": "read by the gate, which knows no type of it (gate.py)",
    "ariane.common.v1.MessageOrigin.dead_letter_reason": "output only, in plain messages",
    "ariane.common.v1.MessageOrigin.last_error": "output only, in plain messages",
    "ariane.common.v1.ReplyAddress.reply_topic": "output only, in plain messages",
}
"""Fields of requests that are read, but not in a way that is seen here, each with how."""

PAGED: Final = frozenset({"page_size", "page_token"})
"""Are read of any request, by who makes pages."""


@dataclass
class Module:
    """What one file says of messages and fields."""

    names: set[str] = field(default_factory=set)
    """What it names, by the names of the contract."""
    given: set[tuple[str, str]] = field(default_factory=set)
    """What it calls by which keywords."""
    changed: set[str] = field(default_factory=set)
    """Attributes that it changes."""
    read: set[str] = field(default_factory=set)
    """Attributes that it reads, and its strings."""


SOURCES: Final = Sources.of(ROOT)


@cache
def module(path: str) -> Module:
    """What a file says."""
    nodes = SOURCES.nodes(path)
    own = {
        alias.asname or alias.name: alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    found = Module()
    for node in nodes:
        found.changed.update(_changed(node))
        match node:
            case ast.Name(id=name):
                found.names.add(own.get(name, name))
            case ast.Attribute(attr=name):
                found.names.add(name)
                found.read.add(name)
            case ast.Constant(value=str(text)):
                found.read.add(text)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=keywords):
                found.given |= {(own.get(name, name), one.arg) for one in keywords if one.arg}
    return found


def _changed(node: ast.AST) -> Iterator[str]:
    """The attributes that a node of the syntax changes."""
    match node:
        case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
            yield from _chain(node)
        case ast.Attribute(attr=name, value=value) if name in CHANGING:
            yield from _chain(value)
        case ast.Call(func=ast.Attribute(attr="add"), keywords=keywords):
            yield from (one.arg for one in keywords if one.arg)
        case ast.Expr(value=ast.Call(args=arguments)):
            yield from (one.attr for one in arguments if isinstance(one, ast.Attribute))


def _chain(node: ast.expr) -> Iterator[str]:
    """The fields on the way to what is changed: a, b and c of ``found.a.b[0].c``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            yield node.attr
        node = node.value


@cache
def files(member: str) -> tuple[str, ...]:
    """The files of a member."""
    return tuple(n for n in SOURCES.python if n.startswith(f"{member}/") and not is_test(n))


@cache
def servers() -> dict[str, frozenset[str]]:
    """Which members serve which service, by its full name."""
    found: dict[str, set[str]] = defaultdict(set)
    for name in SOURCES.python:
        if is_test(name) or not name.startswith(("services/", "servicekit/")):
            continue
        member = EVERYWHERE if name.startswith("servicekit/") else "/".join(name.split("/")[:2])
        for node in SOURCES.nodes(name):
            if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("_pb2_grpc"):
                package = str(node.module).rpartition(".")[0]
                for alias in node.names:
                    if alias.name.endswith("Servicer"):
                        found[f"{package}.{alias.name.removesuffix('Servicer')}"].add(member)
    return {service: frozenset(members) for service, members in found.items()}


@dataclass
class Use:
    """One message type of the contract: who handles it, and inside of which messages."""

    type: Descriptor
    members: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


@cache
def used(side: str) -> dict[str, Use]:
    """The types that stand in all requests (``input_type``) or answers (``output_type``)."""
    found: dict[str, Use] = {}
    for method in METHODS:
        waiting = [(getattr(method, side), getattr(method, side).name)]
        seen: set[tuple[str, str]] = set()
        while waiting:
            kind, holder = waiting.pop()
            if (kind.full_name, holder) in seen or not kind.full_name.startswith("ariane."):
                continue
            seen.add((kind.full_name, holder))
            use = found.setdefault(kind.full_name, Use(kind))
            use.members |= {EVERYWHERE, *servers().get(method.containing_service.full_name, ())}
            use.names |= {kind.name, holder}
            name = holder if kind.GetOptions().map_entry else kind.name
            waiting += [(one.message_type, name) for one in kind.fields if one.message_type]
    return found


def _members(use: Use) -> set[str]:
    """Who may set a field, or read it."""
    if not all(use.type.full_name in used(side) for side in ("output_type", "input_type")):
        return use.members
    return {EVERYWHERE, *CLIENTS, *(one for members in servers().values() for one in members)}


def _fields(uses: dict[str, Use]) -> Iterator[tuple[Use, FieldDescriptor]]:
    for use in uses.values():
        if not use.type.GetOptions().map_entry:
            yield from ((use, one) for one in use.type.fields)


def _is_set(use: Use, one: FieldDescriptor) -> bool:
    tag = f"{one.name.upper()}_FIELD_NUMBER"
    return any(
        (use.type.name, one.name) in said.given
        or (use.names & said.names and (one.name in said.changed or tag in said.names))
        for member in _members(use)
        for said in map(module, files(member))
    )


def _is_read(use: Use, one: FieldDescriptor) -> bool:
    return any(
        one.name in said.read and (one.name in PAGED or use.names & said.names)
        for member in _members(use)
        for said in map(module, files(member))
    )


def _missing(
    uses: dict[str, Use],
    is_seen: Callable[[Use, FieldDescriptor], bool],
    otherwise: Collection[str],
) -> set[str]:
    """The fields that are not seen, and the exceptions that none needs."""
    excepted, missing = set[str](), set[str]()
    for use, one in _fields(uses):
        if not is_seen(use, one):
            exception = {use.type.full_name, one.full_name} & set(otherwise)
            (excepted if exception else missing).update(exception or {one.full_name})
    return missing | (set(otherwise) - excepted)


def test_every_service_is_served_by_a_member():
    assert {method.containing_service.full_name for method in METHODS} <= servers().keys()


def test_every_field_of_an_answer_is_set_by_a_server():
    assert _missing(used("output_type"), _is_set, SET_OTHERWISE) == set()


def test_every_field_of_a_request_is_read_by_a_server():
    assert _missing(used("input_type"), _is_read, READ_OTHERWISE) == set()


@pytest.mark.parametrize(
    ("text", "is_set"),
    [
        ("def f(): return pb.ListQueueBoundsResponse(queues=[], broker_time=now)", True),
        ("def f(): return pb.ListQueueBoundsResponse(queues=[])", False),
        ("def f(): return Other(broker_time=pb.ListQueueBoundsResponse)", False),
    ],
)
def test_a_field_that_is_not_set_any_more_is_found(text, is_set, tmp_path, monkeypatch):
    (tmp_path / "servicer.py").write_text(text)
    monkeypatch.setitem(globals(), "SOURCES", Sources(tmp_path, ("servicer.py",)))
    monkeypatch.setitem(globals(), "files", lambda _member: ("servicer.py",))
    module.cache_clear()
    use = used("output_type")["ariane.broker.v1.ListQueueBoundsResponse"]
    try:
        assert _is_set(use, use.type.fields_by_name["broker_time"]) is is_set
    finally:
        module.cache_clear()
