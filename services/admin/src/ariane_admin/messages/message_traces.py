"""The life of one message, from the records of clients in the trace topic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane.common.v1.message_pb2 import Message
from ariane_admin.messages.message_body import COMPRESSIONS
from ariane_record.errors import RecordError
from ariane_record.names import TRACE_WRITER
from ariane_record.single.compression import original_body
from ariane_record.single.message_trace import (
    TraceKind,
    TraceStep,
    decode_steps,
)

BODY_BYTES_MAX: Final = 256 << 10
"""Bytes of a body that is read; clients write at most 128,000."""

STEPS_MAX: Final = 100
"""Steps of one message of the trace topic that are read for one message."""

KINDS = {
    TraceKind.SEND: message_pb.MESSAGE_TRACE_KIND_SEND,
    TraceKind.CONSUME_BEGIN: message_pb.MESSAGE_TRACE_KIND_CONSUME,
    TraceKind.END_TRANSACTION: message_pb.MESSAGE_TRACE_KIND_END_TRANSACTION,
    TraceKind.RECALL: message_pb.MESSAGE_TRACE_KIND_RECALL,
}

_WORDS = {
    TraceKind.SEND: "send",
    TraceKind.CONSUME_BEGIN: "consume",
    TraceKind.END_TRANSACTION: "end transaction",
    TraceKind.RECALL: "recall",
}


@dataclass(frozen=True, slots=True)
class LifeStep:
    """One step of a message's life."""

    recorded: TraceStep
    """The client's record; for consuming, the record of the begin."""
    cost_ms: int | None
    """The duration; None while it is unknown."""
    successful: bool
    """Whether the step succeeded; False while it is unknown."""
    user: str = ""
    """The user who recorded it, as the broker knew it; empty for one that it did not know."""

    @property
    def trace_id(self) -> str:
        """The W3C trace id; empty without one."""
        parts = self.recorded.trace_parent.split("-")
        return parts[1] if len(parts) > 1 else ""

    @property
    def kind_text(self) -> str:
        """The kind of step, in words."""
        half = self.recorded.kind is TraceKind.SEND and self.recorded.message_type == 1
        return "send half" if half else _WORDS[self.recorded.kind]

    def row(self) -> dict[str, object]:
        """All fields, for tables and JSON."""
        recorded = self.recorded
        began = datetime.fromtimestamp(recorded.timestamp_ms / 1000, UTC)
        return {
            "time": began.isoformat(timespec="milliseconds"),
            "what": self.kind_text,
            "successful": self.successful,
            "cost_ms": self.cost_ms,
            "group": recorded.group,
            "client": recorded.client_id,
            "user": self.user,
            "attempts": recorded.attempts,
            "topic": recorded.topic,
            "broker": recorded.store_host,
            "state": recorded.state,
            "trace_id": self.trace_id,
        }


def steps_about(message: Message, unique_id: str) -> list[tuple[str, TraceStep]]:
    """What a message of the trace topic tells of a message, each step with the user who wrote it.

    Everybody may write there: what is damaged or too large tells nothing.
    """
    kind = COMPRESSIONS[message.compression]
    try:
        body = original_body(message.body, kind.system_flag, size_bytes_max=BODY_BYTES_MAX)
        steps = decode_steps(body, about=unique_id, count_max=STEPS_MAX)
    except RecordError:
        return []
    user = message.properties.get(TRACE_WRITER, "")
    return [(user, step) for step in steps if step.unique_id == unique_id]


def life_of(recorded: Iterable[tuple[str, TraceStep]]) -> list[LifeStep]:
    """The steps of one message, oldest first.

    Args:
        recorded: Users, and the steps that they recorded of it.
    """
    begun: list[tuple[str, TraceStep]] = []
    # Nobody ends what another user has begun.
    ended: dict[tuple[str, str], TraceStep] = {}
    for user, step in recorded:
        if step.kind is TraceKind.CONSUME_END:
            ended[user, step.request_id] = step
        else:
            begun.append((user, step))
    life = []
    for user, step in dict.fromkeys(begun):  # A repeated write has the same steps twice.
        end = ended.get((user, step.request_id)) if step.kind is TraceKind.CONSUME_BEGIN else step
        timed = end is not None and step.kind in {TraceKind.SEND, TraceKind.CONSUME_BEGIN}
        life.append(
            LifeStep(
                step,
                end.cost_ms if end and timed else None,
                bool(end and end.successful),
                user,
            )
        )
    return sorted(life, key=lambda step: step.recorded.timestamp_ms)
