"""The shell completes names that the cluster knows: topics, groups, brokers, and saved contexts.

A shell waits while somebody types: a cluster that does not answer at once completes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

SECONDS_MAX: Final = 2.0

_TOPIC, _GROUP, _BROKER, _CONTEXT = "topic", "group", "broker", "context"

_BY_PARAMETER: Final[Mapping[str, str]] = {
    "topic": _TOPIC,
    "more_topics": _TOPIC,
    "group": _GROUP,
    "target": _GROUP,
    "consumer_group": _GROUP,
    "broker": _BROKER,
    "broker_name": _BROKER,
    "broker_names": _BROKER,
    "context_name": _CONTEXT,
}
"""What the parameters of all commands are names of; those that new things get are not here."""

_BY_GROUP: Final[Mapping[str, str]] = {
    "topic": _TOPIC,
    "group": _GROUP,
    "broker": _BROKER,
    "ha": _BROKER,
    "context": _CONTEXT,
}
"""What the argument NAME of a group's commands is the name of."""

_NEW: Final = frozenset({"create", "add"})
"""Commands whose NAME is of something that is not there yet."""

_GONE: Final = ("broker", "forget")
"""The group and the command whose NAME is of something that is not there any more."""


class NameType(click.types.StringParamType):
    """A text that is the name of something in the cluster."""

    def __init__(self, kind: str) -> None:
        """Ask nobody yet."""
        self._kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """The names that begin so; none if the cluster does not answer soon."""
        del param
        try:
            names = _names(self._kind, ctx)
        except Exception:  # noqa: BLE001 - an error would be written into somebody's command line
            names = []
        # Bash puts names into the command line as they are, and they may have "|".
        quoted = _quoted if os.environ.get("_ARIANE_COMPLETE", "").startswith("bash") else str
        return [CompletionItem(quoted(name)) for name in names if name.startswith(incomplete)]


def complete_names(command: click.Command, group: str) -> None:
    """Let parameters of a command that are names be completed.

    Args:
        command: The command.
        group: The group of commands that it is of, such as "topic".
    """
    for param in command.params:
        kind = _BY_PARAMETER.get(str(param.name))
        if param.name == "name" and command.name not in _NEW and (group, command.name) != _GONE:
            kind = _BY_GROUP.get(group)
        # The group of produce is a message group, which nobody lists.
        is_ours = not (command.name == "produce" and kind == _GROUP)
        if kind is not None and is_ours and type(param.type) is click.types.StringParamType:
            param.type = NameType(kind)


def _quoted(name: str) -> str:
    return name.replace("|", r"\|")


def _names(kind: str, context: click.Context) -> list[str]:
    # Nothing of this is needed to complete commands and options.
    import asyncio  # noqa: PLC0415

    from ariane_admin.asking.connection import (  # noqa: PLC0415
        DEFAULT_NAME_SERVERS,
        NAME_SERVERS_VARIABLE,
    )
    from ariane_admin.asking.contexts import enter_context, load_contexts  # noqa: PLC0415

    if kind == _CONTEXT:
        return sorted(load_contexts().by_name)
    root = context.find_root()
    enter_context(root, root.params.get("context_name"))
    given = context.params.get("name_servers")
    if context.get_parameter_source("name_servers") is not ParameterSource.COMMANDLINE:
        given = os.environ.get(NAME_SERVERS_VARIABLE) or DEFAULT_NAME_SERVERS
    return asyncio.run(_ask(kind, str(given)))


async def _ask(kind: str, name_servers: str) -> list[str]:
    import asyncio  # noqa: PLC0415

    from ariane_sdk import ClusterClient  # noqa: PLC0415

    asked: dict[str, Any] = {
        _TOPIC: ClusterClient.list_topics,
        _GROUP: ClusterClient.list_groups,
        _BROKER: ClusterClient.list_brokers,
    }
    async with asyncio.timeout(SECONDS_MAX):
        async with ClusterClient(name_servers, patience_s=0) as client:
            found = await asked[kind](client)
    return sorted({each if isinstance(each, str) else each.broker_name for each in found})
