r"""Events of a message's life as clients report them, in RocketMQ's message trace layout.

Steps of several messages are the body of one message of the trace topic, whose keys are the unique
ids of those messages and their keys. Fields are joined by 0x01, a step ends with 0x02; times are in
milliseconds::

    Pub            time region group topic id tags keys store-host body-bytes cost type place ok
    SubBefore      time region group request id attempts keys
    SubAfter       request id cost ok keys code time group
    EndTransaction time region group topic id tags keys store-host type id state from-check
    Recall         time region group topic id ok

Steps of ArianeMQ end with more fields, which other readers skip: the client's id, the W3C trace
context of the step, and where RocketMQ's has no topic, the topic. Source: Apache RocketMQ's client
(``TraceDataEncoder``).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from ariane_record.errors import RecordError

STEPS_PER_MESSAGE_MAX: Final = 20
"""The most steps of one message of the trace topic, as in RocketMQ."""

_FIELD_END: Final = "\x01"
_STEP_END: Final = "\x02"
_REGION: Final = "DefaultRegion"
_NUMBER_MAX: Final = (1 << 31) - 1
_TIME_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""

_TRUTHS: Final = {True: "true", False: "false"}


class TraceKind(StrEnum):
    """The kind of an event."""

    SEND = "Pub"
    CONSUME_BEGIN = "SubBefore"
    CONSUME_END = "SubAfter"
    END_TRANSACTION = "EndTransaction"
    RECALL = "Recall"


class TraceDamaged(RecordError):
    """A text is not a step of a message trace."""


class TraceStep(NamedTuple):
    """One step of a message's life, reported by a client."""

    kind: TraceKind
    """The event."""
    unique_id: str
    """The message."""
    timestamp_ms: int = 0
    """When it began, by the client's clock."""
    group: str = ""
    """The producer's or consumer's group."""
    topic: str = ""
    """The topic; empty for steps of consuming that another client than ours has written."""
    tag: str = ""
    """The tag."""
    keys: tuple[str, ...] = ()
    """The keys."""
    store_host: str = ""
    """The broker, "host:port"."""
    body_bytes: int = 0
    """Bytes of the body."""
    cost_ms: int = 0
    """Its duration."""
    message_type: int = 0
    """0 normal, 1 half, 2 committed, 3 delayed, 4 in order."""
    successful: bool = True
    """Whether it succeeded."""
    request_id: str = ""
    """The common id of begin and end of one consuming."""
    attempts: int = 0
    """How often it was delivered to the group before, from 0."""
    state: str = ""
    """How a transaction ended."""
    client_id: str = ""
    """The client."""
    trace_parent: str = ""
    """The W3C trace context of the step."""


def encode_steps(steps: Iterable[TraceStep]) -> bytes:
    """The body of a message of the trace topic."""
    return "".join(map(_encoded, steps)).encode()


def decode_steps(body: bytes, *, about: str = "", count_max: int | None = None) -> list[TraceStep]:
    """The steps of a message of the trace topic; unknown kinds are skipped.

    Args:
        body: Its body.
        about: A text that each step must have somewhere, such as the id of a message.
        count_max: The most steps that are read; None for all.

    Raises:
        TraceDamaged: A text is not a step.
    """
    steps: list[TraceStep] = []
    for text in str(body, "utf-8", "replace").split(_STEP_END)[:-1]:
        if about not in text:
            continue
        if len(steps) == count_max:
            break
        fields = text.split(_FIELD_END)
        decode = _DECODERS.get(fields[0])
        if decode is None:
            continue
        try:
            steps.append(decode(fields))
        except (ValueError, IndexError) as error:
            raise TraceDamaged(f"no step of a message trace: {text!r:.200}") from error
    return steps


def _encoded(step: TraceStep) -> str:
    keys, ok = " ".join(step.keys), _TRUTHS[step.successful]
    begun = (step.timestamp_ms, _REGION, step.group)
    fields: tuple[object, ...]
    match step.kind:
        case TraceKind.SEND:
            message = (step.topic, step.unique_id, step.tag, keys, step.store_host)
            fields = (*begun, *message, step.body_bytes, step.cost_ms, step.message_type, "", ok)
        case TraceKind.CONSUME_BEGIN:
            fields = (*begun, step.request_id, step.unique_id, step.attempts, keys)
        case TraceKind.CONSUME_END:
            code = 0 if step.successful else 1
            fields = (step.request_id, step.unique_id, step.cost_ms, ok, keys, code, *begun[::2])
        case TraceKind.END_TRANSACTION:
            message = (step.topic, step.unique_id, step.tag, keys, step.store_host)
            end = (step.message_type, step.unique_id, step.state, _TRUTHS[False])
            fields = (*begun, *message, *end)
        case TraceKind.RECALL:
            fields = (*begun, step.topic, step.unique_id, ok)
    own: tuple[str, ...] = (step.client_id, step.trace_parent)
    if step.kind in {TraceKind.CONSUME_BEGIN, TraceKind.CONSUME_END}:
        own = (*own, step.topic)
    return _FIELD_END.join(map(str, (step.kind, *fields, *own))) + _STEP_END


def _field(fields: list[str], place: int) -> str:
    return fields[place] if place < len(fields) else ""


def _number(text: str) -> int:
    """A number that fits into 32 bits: everybody may write traces."""
    number = int(text)
    if abs(number) > _NUMBER_MAX:
        raise ValueError(text)
    return number


def _time(text: str) -> int:
    """Milliseconds of a time that a calendar knows."""
    number = int(text)
    if not 0 <= number <= _TIME_MS_MAX:
        raise ValueError(text)
    return number


def _send(f: list[str]) -> TraceStep:
    return TraceStep(
        TraceKind.SEND, f[5], _time(f[1]), f[3], f[4], f[6], tuple(f[7].split()), f[8],
        _number(f[9]), _number(f[10]), _number(f[11]), f[13] == "true", client_id=_field(f, 14),
        trace_parent=_field(f, 15),
    )  # fmt: skip


def _consume_begin(f: list[str]) -> TraceStep:
    return TraceStep(
        TraceKind.CONSUME_BEGIN, f[5], _time(f[1]), f[3], _field(f, 10),
        keys=tuple(_field(f, 7).split()), request_id=f[4], attempts=_number(f[6]),
        client_id=_field(f, 8), trace_parent=_field(f, 9),
    )  # fmt: skip


def _consume_end(f: list[str]) -> TraceStep:
    return TraceStep(
        TraceKind.CONSUME_END, f[2], _time(_field(f, 7) or "0"), _field(f, 8), _field(f, 11),
        keys=tuple(_field(f, 5).split()), request_id=f[1], cost_ms=_number(f[3]),
        successful=f[4] == "true", client_id=_field(f, 9), trace_parent=_field(f, 10),
    )  # fmt: skip


def _end_transaction(f: list[str]) -> TraceStep:
    return TraceStep(
        TraceKind.END_TRANSACTION, f[5], _time(f[1]), f[3], f[4], f[6], tuple(f[7].split()), f[8],
        message_type=_number(f[9]), state=f[11], client_id=_field(f, 13),
        trace_parent=_field(f, 14),
    )  # fmt: skip


def _recall(f: list[str]) -> TraceStep:
    return TraceStep(
        TraceKind.RECALL, f[5], _time(f[1]), f[3], f[4], successful=f[6] == "true",
        client_id=_field(f, 7), trace_parent=_field(f, 8),
    )  # fmt: skip


_DECODERS: Final = {
    TraceKind.SEND.value: _send,
    TraceKind.CONSUME_BEGIN.value: _consume_begin,
    TraceKind.CONSUME_END.value: _consume_end,
    TraceKind.END_TRANSACTION.value: _end_transaction,
    TraceKind.RECALL.value: _recall,
}
