"""Finding the field of a message with a wrong type, after an error in encoding it.

Checking every field of every message first would slow down each send; Python raises anyway.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from ariane_sdk.errors import MessageIllegal
from ariane_sdk.message import Message

TYPE_ERRORS: Final = (TypeError, AttributeError, struct.error)
"""The errors of Python if a value has a wrong type, or is too large for its field."""

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
    "expire_after": (timedelta, type(None)),
}


def check_sequence(messages: object) -> None:
    """Refuse anything but a sequence; its items are checked only after an error.

    Raises:
        MessageIllegal: It is not a sequence.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise MessageIllegal(f"messages {messages!r:.100}: a sequence of Message is expected")


def check_types(message: object) -> None:
    """Refuse anything but a message, and a message with a field of a wrong type.

    Raises:
        MessageIllegal: It is not a message, or a field, which the error names, has a wrong type.
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
