"""Clients by id, by group: groups without clients are not kept."""

from __future__ import annotations

from typing import TypeAlias

from ariane_broker.clients.attached_client import AttachedClient

MembersByGroup: TypeAlias = dict[str, dict[str, AttachedClient]]


def put(groups: MembersByGroup, group: str, client: AttachedClient, *, is_in: bool) -> None:
    """Add a client to a group, in the place that it has already if it is in; or remove it."""
    members = groups.setdefault(group, {})
    if is_in:
        members[client.client_id] = client
    else:
        members.pop(client.client_id, None)
    if not members:
        del groups[group]
