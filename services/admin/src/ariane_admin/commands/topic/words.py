"""Words of the command line for what a topic allows and takes, and the contract's values."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import click

from ariane.common.v1 import message_pb2
from ariane.namesrv.v1 import route_pb2
from ariane_admin.terminal.waits import WaitType
from ariane_admin.topic_attributes import NO_RETENTION, retention_attribute

QUEUES_MAX: Final = 65_536
"""Queues of a topic on one broker."""

RETENTION_HELP: Final = (
    "Hide messages that are older, such as 12h or 7d, from consumers; their bytes stay as long as"
    " the broker keeps its log."
)

PERMISSIONS: Final = MappingProxyType(
    {
        "none": route_pb2.TOPIC_PERMISSION_NONE,
        "write": route_pb2.TOPIC_PERMISSION_WRITE,
        "read": route_pb2.TOPIC_PERMISSION_READ,
        "read-write": route_pb2.TOPIC_PERMISSION_READ_WRITE,
    }
)
_NUMBERS: Final = MappingProxyType({"0": "none", "2": "write", "4": "read", "6": "read-write"})
_PERMISSION_WORDS: Final = MappingProxyType({value: word for word, value in PERMISSIONS.items()})

MESSAGE_TYPES: Final = MappingProxyType(
    {
        "any": message_pb2.MESSAGE_TYPE_UNSPECIFIED,
        "normal": message_pb2.MESSAGE_TYPE_NORMAL,
        "fifo": message_pb2.MESSAGE_TYPE_FIFO,
        "delay": message_pb2.MESSAGE_TYPE_DELAY,
        "transaction": message_pb2.MESSAGE_TYPE_TRANSACTION,
    }
)
_MESSAGE_TYPE_WORDS: Final = MappingProxyType(
    {value: word for word, value in MESSAGE_TYPES.items()}
)


class PermissionType(click.ParamType["route_pb2.TopicPermission.ValueType"]):
    """A permission as a word, or as RocketMQ's number: 2, 4, 6."""

    name = "read-write|read|write|none"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> route_pb2.TopicPermission.ValueType:
        """Read the option."""
        # Help shows the words in capitals.
        word = _NUMBERS.get(str(value), str(value).lower())
        if word not in PERMISSIONS:
            self.fail(
                f"{value!r} is not one of read-write (6), read (4), write (2), none", param, ctx
            )
        return PERMISSIONS[word]


class MessageTypeType(click.ParamType["message_pb2.MessageType.ValueType"]):
    """What kind of messages a topic takes."""

    name = "|".join(MESSAGE_TYPES)

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> message_pb2.MessageType.ValueType:
        """Read the option."""
        word = str(value).lower()
        if word not in MESSAGE_TYPES:
            self.fail(f"{value!r} is not one of {', '.join(MESSAGE_TYPES)}", param, ctx)
        return MESSAGE_TYPES[word]


class RetentionType(click.ParamType[dict[str, str]]):
    """A topic's own retention time, as its attribute."""

    name = WaitType.name

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, str]:
        """Read the option."""
        if isinstance(value, dict):
            return value
        if value in {NO_RETENTION, "0"}:
            value = "0s"  # As lists show it, and as people write it.
        try:
            return retention_attribute(WaitType().convert(value, param, ctx))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


def permission_word(permission: route_pb2.TopicPermission.ValueType) -> str:
    """The word for a permission of the contract."""
    return _PERMISSION_WORDS.get(permission, str(int(permission)))


def message_type_word(message_type: message_pb2.MessageType.ValueType) -> str:
    """The word for a message type of the contract."""
    return _MESSAGE_TYPE_WORDS.get(message_type, str(int(message_type)))
