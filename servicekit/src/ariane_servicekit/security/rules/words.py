"""Actions, things and uses in words, for people."""

from __future__ import annotations

from ariane.common.v1 import access_pb2 as access
from ariane_servicekit.security.rights.rights import NAME_LENGTH_MAX
from ariane_servicekit.security.rules.use_ledger import Use


def words_of(use: Use) -> str:
    """What a use is, for people: such as ``PUBLISH topic orders``."""
    name = use.name[:NAME_LENGTH_MAX]
    return f"{action_word(use.action)} {resource_word(use.resource)} {name}".rstrip()


def action_word(action: int) -> str:
    """An action, such as ``PUBLISH``."""
    found: str = access.Action.DESCRIPTOR.values_by_number[action].name
    return found.removeprefix("ACTION_")


def resource_word(resource: int) -> str:
    """A kind of thing, such as ``topic``."""
    found: str = access.Resource.DESCRIPTOR.values_by_number[resource].name
    return found.removeprefix("RESOURCE_").lower()
