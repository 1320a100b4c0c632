"""Messages as lines of text or JSON: the input of ``produce`` and the output of ``consume``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from ariane_admin.errors import CommandFailed
from ariane_admin.messages.message_fields import own_properties, producer_address
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import Message, ReceivedMessage

_FIELDS: Final = frozenset(
    {"body", "body_hex", "tag", "keys", "message_group", "properties", "deliver_at", "priority"}
)

_OF_THE_BROKER: Final = frozenset(
    {
        *("topic", "broker", "queue_id", "queue_offset", "commit_log_offset"),
        *("message_id", "unique_id", "create_time", "store_time", "producer_address"),
        *("attempts", "body_bytes", "expire_time"),
    }
)
"""Further fields of ``as_row``, which ``produce`` ignores: it sends a line of ``consume`` as a new
message."""


@dataclass(frozen=True, slots=True)
class MessageDefaults:
    """The defaults of all messages of one run of ``produce``; a line can replace them."""

    topic: str
    tag: str = ""
    keys: tuple[str, ...] = ()
    message_group: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    deliver_at: datetime | None = None
    delay: timedelta | None = None
    delay_level: int = 0
    priority: int = 0
    expire_after: timedelta | None = None

    def from_text(self, line: bytes) -> Message:
        """Return the message whose body is `line`."""
        return Message(
            self.topic,
            line,
            self.tag,
            self.keys,
            self.message_group,
            dict(self.properties),
            deliver_at=self.deliver_at,
            delay=self.delay,
            delay_level=self.delay_level,
            priority=self.priority,
            expire_after=self.expire_after,
        )

    def from_json(self, line: bytes, number: int) -> Message:
        """Return the message that `line` describes; `number` is for the error.

        Raises:
            CommandFailed: The line is not an object with the known fields.
        """
        try:
            given = json.loads(line)
            if not isinstance(given, dict):
                raise _no_message(number, "it is no JSON object")
            unknown = given.keys() - _FIELDS - _OF_THE_BROKER
            if unknown:
                raise _no_message(number, f"unknown field {min(unknown)!r}")
            own_time = _own_time(given)
            return Message(
                self.topic,
                _body(given),
                _text(given, "tag", self.tag),
                _keys(given, self.keys),
                _text(given, "message_group", self.message_group),
                {**self.properties, **_properties(given)},
                deliver_at=own_time or self.deliver_at,
                delay=None if own_time else self.delay,
                delay_level=0 if own_time else self.delay_level,
                priority=_priority(given, self.priority),
            )
        except UnicodeEncodeError as error:
            raise _no_message(number, "it has half of a surrogate pair") from error
        except json.JSONDecodeError as error:
            wrong = f"it is no JSON: {error.msg} at character {error.pos + 1}"
            raise _no_message(number, wrong) from error
        except ValueError as error:
            raise _no_message(number, str(error)) from error
        except RecursionError as error:
            raise _no_message(number, "it is nested too deeply") from error


def _body(given: Mapping[str, Any]) -> bytes:
    """The body as text, or as hexadecimal digits.

    Raises:
        ValueError: The body is missing, or given twice.
    """
    match given.get("body"), given.get("body_hex"):
        case str(text), None:
            return text.encode()
        case None, str(digits):
            return bytes.fromhex(digits)
    raise ValueError("no text named 'body'")


def _text(given: Mapping[str, Any], name: str, otherwise: str) -> str:
    value = given.get(name, otherwise)
    if not isinstance(value, str):
        raise ValueError(f"its {name} is no text")  # noqa: TRY004 - of a line, not of our caller
    return value


def _keys(given: Mapping[str, Any], otherwise: tuple[str, ...]) -> tuple[str, ...]:
    keys = given.get("keys", list(otherwise))
    # A text would be split into its letters.
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError("its keys are no list of texts")
    return tuple(keys)


def _properties(given: Mapping[str, Any]) -> Mapping[str, str]:
    properties = given.get("properties", {})
    if not isinstance(properties, dict) or not all(
        isinstance(value, str) for value in properties.values()
    ):
        raise ValueError("its properties are no object of texts")
    return properties


def _priority(given: Mapping[str, Any], otherwise: int) -> int:
    value = given.get("priority", otherwise)
    if type(value) is not int:  # A truth value is not a number here either.
        raise ValueError("its priority is no whole number")
    return value


def _own_time(given: Mapping[str, Any]) -> datetime | None:
    """The delivery time of a line.

    Raises:
        ValueError: It is not a time with a zone.
    """
    if "deliver_at" not in given:
        return None
    text = _text(given, "deliver_at", "")
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment
    raise ValueError(
        f"its deliver_at {text!r:.100} is no time with a zone: say 2026-01-31T10:00:00Z"
    )


def as_row(message: ReceivedMessage) -> Mapping[str, Any]:
    """Return a received message for programs, with the field names of ``ariane message``."""
    expires = message.expire_time
    return {
        "topic": message.topic,
        "broker": message.message_queue.broker_name,
        "queue_id": message.message_queue.queue_id,
        "queue_offset": message.queue_offset,
        "commit_log_offset": message.commit_log_offset,
        "message_id": message.offset_message_id,
        "unique_id": message.unique_id,
        "tag": message.tag,
        "keys": list(message.keys),
        "message_group": message.message_group,
        "priority": message.priority,
        "properties": own_properties(message),
        "create_time": message.born_time.isoformat(timespec="milliseconds"),
        "store_time": message.store_time.isoformat(timespec="milliseconds"),
        "expire_time": None if expires is None else expires.isoformat(timespec="milliseconds"),
        "producer_address": producer_address(message),
        "attempts": message.attempts,
        "body_bytes": len(message.body),
        **body_fields(bytes(message.body)),
    }


def body_fields(body: bytes) -> Mapping[str, str]:
    """A body as a field: ``body``, or ``body_hex`` if it is not text."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_hex": body.hex()}


def _no_message(number: int, wrong: str) -> CommandFailed:
    return CommandFailed(f"line {number:,} is no message: {wrong}", ExitStatus.USAGE)
