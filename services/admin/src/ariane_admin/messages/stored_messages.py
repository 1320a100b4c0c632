"""Messages of the contract as rows, for ``ariane message``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ariane.common.v1.message_pb2 import Message
from ariane_admin.messages.message_body import body_of
from ariane_admin.messages.message_lines import body_fields
from ariane_admin.times import moment_text

_BODY_CHARACTERS_SHOWN = 60


class BodyForm(Enum):
    """The form in which bodies are shown."""

    TEXT = "text"
    HEX = "hex"
    NONE = "none"


def message_row(message: Message, form: BodyForm) -> Mapping[str, object]:
    """All fields of a stored message."""
    position = message.position
    body = body_of(message)
    return {
        "topic": message.topic,
        "broker": position.broker_name,
        "queue_id": position.queue_id,
        "queue_offset": position.queue_offset,
        "commit_log_offset": position.commit_log_offset,
        "message_id": position.message_id,
        "unique_id": message.unique_id,
        "tag": message.tag,
        "keys": list(message.keys),
        "message_group": message.message_group,
        "priority": message.priority,
        "properties": dict(message.properties),
        "create_time": moment_text(message, "create_time"),
        "store_time": moment_text(position, "store_time"),
        "expire_time": moment_text(message, "expire_time"),
        "producer_address": position.producer_address,
        "attempts": position.attempts,
        "body_bytes": len(body),
        **_body_fields(body, form),
    }


def shortened(row: Mapping[str, object]) -> Mapping[str, object]:
    """A row with the begin of its body on one line, for a table."""
    for name in ("body", "body_hex"):
        if name in row:
            text = " ".join(str(row[name]).split())
            more = len(text) > _BODY_CHARACTERS_SHOWN
            return {**row, "body": text[:_BODY_CHARACTERS_SHOWN] + ("..." if more else "")}
    return {**row, "body": ""}


def _body_fields(body: bytes, form: BodyForm) -> Mapping[str, object]:
    if form is BodyForm.NONE:
        return {}
    if form is BodyForm.TEXT:
        return body_fields(body)
    return {"body_hex": body.hex()}
