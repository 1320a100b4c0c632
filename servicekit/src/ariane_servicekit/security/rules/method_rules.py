"""What each method needs, from the contract, in which every method states it.

A rule is compiled once, when a server is built: every path is looked up in the descriptors, and a
method with a rule that cannot be judged is not served.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from ariane.common.v1 import access_pb2 as access
from ariane_servicekit.errors import ServicekitError
from ariane_servicekit.security.caller import MemberKind
from ariane_servicekit.security.rules.field_names import FieldPathWrong, Names, list_at, names_at

CHANGING: Final = frozenset(
    {
        access.ACTION_CREATE,
        access.ACTION_UPDATE,
        access.ACTION_DELETE,
        access.ACTION_PUBLISH,
    }
)
"""Actions that change something."""

_MEMBERS: Final = {
    access.MEMBER_KIND_BROKER: MemberKind.BROKER,
    access.MEMBER_KIND_REPLICA: MemberKind.REPLICA,
    access.MEMBER_KIND_NAME_SERVER: MemberKind.NAME_SERVER,
    access.MEMBER_KIND_CHECKER: MemberKind.CHECKER,
    access.MEMBER_KIND_FILTER: MemberKind.FILTER,
    access.MEMBER_KIND_GATEWAY: MemberKind.GATEWAY,
    access.MEMBER_KIND_ADMIN: MemberKind.ADMIN,
}

_NAMELESS: Final = frozenset({access.ACTION_NONE, access.ACTION_KNOWN, access.ACTION_MEMBER})
_HELD_FIELDS: Final = frozenset({"hold_duration", "wait_duration"})
_ORDER_FIELD: Final = "order"


class AccessRuleMissing(ServicekitError):
    """A method of the contract has no access rule that could be judged: nobody is admitted."""


@dataclass(frozen=True, slots=True)
class Need:
    """A right that a request needs on its names."""

    action: int
    """The action."""
    resource: int
    """The kind of thing."""
    names: Names | None
    """Finds the names in a request. None if the thing has no name."""
    optional: bool = False
    """Whether an empty name needs nothing."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A list in answers, of which a caller sees what it has a right on."""

    action: int
    """The action."""
    resource: int
    """The kind of thing."""
    field: str
    """The list."""
    names: Names
    """Finds the names of an entry."""


@dataclass(frozen=True, slots=True)
class MethodRule:
    """What a method needs."""

    method: str
    """Its name in calls: ``/package.Service/Method``."""
    is_open: bool
    """Whether it needs nothing, not even to know the caller."""
    is_for_members: bool
    """Whether only members may call it."""
    needs: tuple[Need, ...]
    """What the request needs; all of it."""
    shown: Shown | None
    """The list that is cut to what the caller may see; None for none."""
    members: frozenset[MemberKind]
    """Members that may call it in their own name."""
    own_names: tuple[Names, ...]
    """Find names that must be a member's own."""
    own_process: bool
    """Whether a member must have the name of the process that serves."""
    own_client: Names | None
    """Finds a client id that must be of the caller's user; None for none."""
    is_change: bool
    """Whether it creates, changes or deletes something; not whether it sends."""
    is_long: bool
    """Whether its calls may last: streams, and calls that are held. They end when their caller
    loses a right that they need."""


def access_rule(method: MethodDescriptor) -> access.AccessRule:
    """Return the rule of one method, as the contract states it.

    Raises:
        AccessRuleMissing: The method has none, or one without action or resource.
    """
    rule: access.AccessRule = method.GetOptions().Extensions[access.access]
    if not rule.requirements or not all(r.action and r.resource for r in rule.requirements):
        msg = f"{method.full_name} has no (ariane.common.v1.access) with actions and resources"
        raise AccessRuleMissing(msg)
    return rule


def changes(method: MethodDescriptor) -> bool:
    """Whether a method changes something, by its rule."""
    return any(
        each.action in CHANGING and each.match != access.ACCESS_MATCH_SHOWN
        for each in access_rule(method).requirements
    )


def method_rules(
    services: Iterable[ServiceDescriptor],
    *,
    asked: Collection[str] = (),
    extractors: Mapping[str, Mapping[str, Names]] = MappingProxyType({}),
) -> dict[str, MethodRule]:
    """Return the rules of all methods by the name in calls: ``/package.Service/Method``.

    Args:
        services: The services.
        asked: Methods whose servicers ask for rights on what handles touch.
        extractors: Names by method and path, where requests are not decoded by generated code.

    Raises:
        AccessRuleMissing: A method has none, or one that cannot be judged.
    """
    rules: dict[str, MethodRule] = {}
    for service in services:
        for method in service.methods:
            name = f"/{service.full_name}/{method.name}"
            try:
                rules[name] = _rule_of(name, method, name in asked, extractors.get(name))
            except FieldPathWrong as error:
                raise AccessRuleMissing(f"{method.full_name}: {error}") from None
    return rules


def _rule_of(
    name: str, method: MethodDescriptor, is_asked: bool, extractors: Mapping[str, Names] | None
) -> MethodRule:
    stated = access_rule(method)
    needs: list[Need] = []
    shown: Shown | None = None
    own_names: list[Names] = []
    own_process = False
    for each in stated.requirements:
        if each.match == access.ACCESS_MATCH_TOUCHED:
            if not is_asked:
                msg = f"{method.full_name}: nobody asks for the right on what its handles touch"
                raise AccessRuleMissing(msg)
        elif each.match == access.ACCESS_MATCH_SHOWN:
            field, names = list_at(method.output_type, *each.fields)
            shown = Shown(each.action, each.resource, field, names)
        elif each.match == access.ACCESS_MATCH_OWN:
            own_process |= not each.fields
            own_names += (names_at(method.input_type, path) for path in each.fields)
        elif each.action not in _NAMELESS:
            needs += _needs_of(method, each, extractors)
    return MethodRule(
        method=name,
        is_open=any(each.action == access.ACTION_NONE for each in stated.requirements),
        is_for_members=any(each.action == access.ACTION_MEMBER for each in stated.requirements),
        needs=tuple(needs),
        shown=shown,
        members=frozenset(_MEMBERS[kind] for kind in stated.members),
        own_names=tuple(own_names),
        own_process=own_process,
        own_client=names_at(method.input_type, stated.own_client) if stated.own_client else None,
        is_change=any(need.action in CHANGING - {access.ACTION_PUBLISH} for need in needs),
        is_long=_is_long(method),
    )


def _needs_of(
    method: MethodDescriptor,
    stated: access.AccessRequirement,
    extractors: Mapping[str, Names] | None,
) -> Iterator[Need]:
    if stated.resource == access.RESOURCE_CLUSTER:
        yield Need(stated.action, stated.resource, None)
    elif not stated.fields:
        raise AccessRuleMissing(f"{method.full_name}: nothing says where the names are")
    for path in stated.fields:
        names = names_at(method.input_type, path)
        if extractors is not None:
            if path not in extractors:
                msg = f"{method.full_name}: nothing finds {path!r} in its decoded requests"
                raise AccessRuleMissing(msg)
            names = extractors[path]
        yield Need(stated.action, stated.resource, names, stated.optional)


def _is_long(method: MethodDescriptor) -> bool:
    fields = set(method.input_type.fields_by_name)
    order = method.input_type.fields_by_name.get(_ORDER_FIELD)
    if order is not None and order.message_type is not None:
        fields |= set(order.message_type.fields_by_name)
    streams = method.client_streaming or method.server_streaming
    return bool(streams or fields & _HELD_FIELDS)
