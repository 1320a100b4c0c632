"""The right that each method needs, from the contract, in which every method states it."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from ariane.common.v1 import access_pb2
from ariane_servicekit.errors import ServicekitError


class AccessRuleMissing(ServicekitError):
    """A method of the contract has no access rule, so that no caller could be admitted."""


def access_rule(method: MethodDescriptor) -> access_pb2.AccessRule:
    """Return the rule of one method.

    Raises:
        AccessRuleMissing: The method has none, or one without action or resource.
    """
    options = method.GetOptions()
    rule: access_pb2.AccessRule = options.Extensions[access_pb2.access]
    if not options.HasExtension(access_pb2.access) or not rule.action or not rule.resource:
        msg = f"{method.full_name} has no (ariane.common.v1.access) with action and resource"
        raise AccessRuleMissing(msg)
    return rule


def access_rules(services: Iterable[ServiceDescriptor]) -> dict[str, access_pb2.AccessRule]:
    """Return the rules of all methods by the name in calls: ``/package.Service/Method``.

    Raises:
        AccessRuleMissing: A method has none.
    """
    return {
        f"/{service.full_name}/{method.name}": access_rule(method)
        for service in services
        for method in service.methods
    }
