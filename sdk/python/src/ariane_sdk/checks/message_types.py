"""Which field of a message is of a wrong type: asked once something has gone wrong with it.

Looking at every field of every message beforehand would cost each send; Python raises by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from ariane_sdk.errors import MessageIllegal
from ariane_sdk.message import Message

TYPE_ERRORS: Final = (TypeError, AttributeError, struct.error)
"""What Python raises where a value is of a wrong type, or too large for its field."""

NUMBER_BITS: Final = 32

_FIELD_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "topic": (str,),
    "body": (bytes, bytearray, memoryview),
    "tag": (str,),
    "message_group": (str,),
    "flag": (int,),
    "delay_level": (int,),
    "priority": (int,),
    "deliver_at": (datetime, type(None)),
    "delay": (timedelta, type(None)),
}


def check_sequence(messages: object) -> None:
    """Refuse what is no sequence; what is in it is looked at when something has gone wrong.

    Raises:
        MessageIllegal: It is none.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise MessageIllegal(f"messages {messages!r:.100}: a sequence of Message is expected")


def check_types(message: object) -> None:
    """Refuse what is no message, or one with a field of a wrong type.

    Raises:
        MessageIllegal: Names the field.
    """
    if not isinstance(message, Message):
        raise MessageIllegal(f"a Message is expected, not {type(message).__name__}")
    for name, types in _FIELD_TYPES.items():
        value = getattr(message, name)
        if not isinstance(value, types):
            wanted = types[0].__name__
            raise MessageIllegal(f"{name} {value!r:.100}: {wanted} is expected")
    for name in ("flag", "priority"):
        number = getattr(message, name)
        if not -(1 << NUMBER_BITS - 1) <= number < 1 << NUMBER_BITS - 1:
            raise MessageIllegal(f"{name} {number}: {NUMBER_BITS} bits, signed")
    keys: object = message.keys
    if not isinstance(keys, Sequence) or not all(isinstance(key, str) for key in keys):
        raise MessageIllegal(f"keys {keys!r:.100}: a tuple of texts is expected")
    pairs: object = message.properties
    if pairs and not (
        isinstance(pairs, Mapping)
        and all(isinstance(text, str) for pair in pairs.items() for text in pair)
    ):
        raise MessageIllegal(f"properties {pairs!r:.100}: pairs of texts are expected")
