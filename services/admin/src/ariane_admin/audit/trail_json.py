"""Requests and answers in the trail: JSON of bounded size, without bodies and passwords."""

from __future__ import annotations

import json
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from ariane_admin.audit.trail import JSON_BYTES_MAX
from ariane_servicekit.observability.passwords import without_passwords

_LEFT_OUT: Final = frozenset({"body", "module", "secret"})
"""Fields that the trail leaves out: the data of applications, their code, and secrets."""

_NAMES: Final = (
    *(
        "sink_name",
        "target_consumer_group",
        "consumer_group",
        "client_id",
        "topic",
        "broker_name",
        "transaction_id",
    ),
    *("recall_handle", "filter", "name", "cluster_name", "user", "policy"),
)
"""Fields that name the resource of a request, in order of preference."""


def trail_json(message: Message) -> str:
    """A message as JSON, cut if it is too long."""
    text = _text(_without_bodies(MessageToDict(message, preserving_proto_field_name=True)))
    size = len(text.encode())
    if size <= JSON_BYTES_MAX:
        return text
    # Escaping the text once more may double its size.
    begin = text.encode()[: JSON_BYTES_MAX // 3].decode(errors="ignore")
    return _text({"cut": True, "bytes": size, "begin": begin})


def resource_name(request: Message) -> str:
    """The name of the resource of a request; empty without one."""
    for name in _NAMES:
        value = getattr(request, name, "")
        if isinstance(value, str) and value:
            return value
        # A creation has the resource in a field named after its kind.
        if isinstance(value, Message) and (inner := resource_name(value)):
            return inner
    for kind in ("group", "quota"):
        kept = getattr(request, kind, None)
        if isinstance(kept, Message):
            return resource_name(kept)
    return ""


def _without_bodies(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "left out" if key in _LEFT_OUT else _without_bodies(inner)
            for key, inner in value.items()
        }
    if isinstance(value, str):
        return without_passwords(value)
    return list(map(_without_bodies, value)) if isinstance(value, list) else value


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
