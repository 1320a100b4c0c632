"""Fields of received messages, as they are shown everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ariane_record.layout import PropertyName
from ariane_sdk import ReceivedMessage

_SYSTEM_PROPERTIES: Final = frozenset(
    value for name, value in vars(PropertyName).items() if not name.startswith("_")
)
"""Properties of the system that have fields of their own."""


def own_properties(message: ReceivedMessage) -> Mapping[str, str]:
    """The properties that an application gave a message."""
    given = message.properties.items()
    return {name: value for name, value in given if name not in _SYSTEM_PROPERTIES}


def producer_address(message: ReceivedMessage) -> str:
    """Where a message was sent from, "host:port"."""
    host, port = message.born_host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
