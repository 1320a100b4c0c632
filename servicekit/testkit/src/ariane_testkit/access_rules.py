"""Rules for tests, in one line each, and how a process is told them.

``"anna: allow PUBLISH topic orders; deny GET group *"`` and so on: ``*`` alone is any name, a name
that ends with ``*`` a prefix, and ``from 10.0.0.0/8`` at the end of an entry its network.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from grpc import aio

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules
from ariane.common.v1.access_service_pb2 import PushAccessRulesRequest
from ariane.common.v1.access_service_pb2_grpc import AccessServiceStub
from ariane_servicekit.security.caller import MemberKind
from ariane_testkit.identities import as_member


def entry_of(text: str) -> rules.AccessEntry:
    """Parse an entry, such as ``allow PUBLISH,GET topic order-* from 10.0.0.0/8``."""
    stated, _, network = text.partition(" from ")
    decision, actions, resource, *names = stated.split()
    name = names[0] if names else "*"
    pattern = rules.NAME_PATTERN_LITERAL
    if name == "*":
        pattern, name = rules.NAME_PATTERN_ANY, ""
    elif name.endswith("*"):
        pattern, name = rules.NAME_PATTERN_PREFIX, name[:-1]
    return rules.AccessEntry(
        decision=rules.AccessDecision.Value(f"ACCESS_DECISION_{decision.upper()}"),
        resource=access.Resource.Value(f"RESOURCE_{resource.upper()}"),
        pattern=pattern,
        name=name,
        actions=[access.Action.Value(f"ACTION_{each}") for each in actions.split(",")],
        source_networks=[network] if network else [],
    )


def entries_of(text: str) -> list[rules.AccessEntry]:
    """Parse entries between semicolons."""
    return [entry_of(each.strip()) for each in text.split(";") if each.strip()]


def rules_of(version: int, *lines: str) -> rules.AccessRules:
    """Parse rules: ``NAME: entries``, ``NAME(role, role): entries``, ``role NAME: entries``."""
    made = rules.AccessRules(version=version)
    for line in lines:
        head, _, text = line.partition(":")
        if head.startswith("role "):
            made.roles.add(role=head.removeprefix("role "), entries=entries_of(text))
            continue
        name, _, roles = head.rstrip(")").partition("(")
        is_super = text.strip() == "super"
        made.users.add(
            user=name.strip(),
            kind=rules.USER_KIND_SUPER if is_super else rules.USER_KIND_NORMAL,
            roles=[each.strip() for each in roles.split(",") if each.strip()],
            entries=[] if is_super else entries_of(text),
        )
    return made


@asynccontextmanager
async def telling(channel: aio.Channel) -> AsyncIterator[RulesPusher]:
    """Be the admin service of a process, for the length of a block."""
    stream: Any = AccessServiceStub(channel).PushAccessRules(metadata=as_member(MemberKind.ADMIN))
    answer = await stream.read()
    pusher = RulesPusher(stream, answer.version)
    try:
        yield pusher
    finally:
        stream.cancel()
        await asyncio.wait([asyncio.ensure_future(stream.code())])


class RulesPusher:
    """Tells a process rules."""

    def __init__(self, stream: Any, version: int) -> None:
        self._stream = stream
        self.version = version
        """The version that the process acts on."""

    async def tell(self, *lines: str) -> None:
        """Tell the next version."""
        await self.push_rules(rules_of(self.version + 1, *lines))

    async def push_rules(self, stated: rules.AccessRules) -> None:
        """Tell rules, and wait until the process acts on them."""
        await self._stream.write(PushAccessRulesRequest(part=stated, last=True))
        self.version = (await self._stream.read()).version
