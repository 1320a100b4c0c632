"""Logs: one JSON object a line on stderr, with the request id of the call in work.

Keys of every line: ``time`` (UTC, ISO 8601), ``level``, ``event`` (snake_case, a fixed text),
``service``, ``component``; within a call also ``request_id`` and ``method``. Variable values are
keys, never part of ``event``. Lines of libraries that use ``logging`` have the same form.

Our libraries (storage, SDK) never configure logs.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final, Literal, TextIO, TypeAlias, cast

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import FilteringBoundLogger, Processor

from ariane_record.control_characters import shown_json
from ariane_servicekit.rpc.calls import current_call

LogFormat: TypeAlias = Literal["json", "text"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

_LEVELS: Final[dict[LogLevel, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_FIRST_KEYS: Final = ("time", "level", "event", "service", "component", "request_id", "method")

_EventDict: TypeAlias = MutableMapping[str, Any]


TRANSPORT_LINES_PER_S: Final = 20
"""Lines about ended connections in one second."""


def get_logger(name: str) -> FilteringBoundLogger:
    """Return the logger of a module; ``log.bind(key=value)`` adds keys to all its lines."""
    return cast("FilteringBoundLogger", structlog.get_logger(component=name))


class LineBudget:
    """How many lines of one kind may be written in a second.

    Each refused call of a caller writes a line: without a limit the caller would decide how much
    is written.
    """

    def __init__(self, lines_per_s: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lines_per_s = lines_per_s
        self._monotonic = monotonic
        self._second = 0
        self._count = 0

    def spend(self) -> int | None:
        """Return how many lines were suppressed since the last one; None: suppress this one too."""
        second = int(self._monotonic())
        suppressed = 0
        if second != self._second:
            suppressed = max(0, self._count - self._lines_per_s)
            self._second, self._count = second, 0
        self._count += 1
        return suppressed if self._count <= self._lines_per_s else None


def configure_logs(
    service_name: str,
    *,
    log_format: LogFormat = "json",
    log_level: LogLevel = "info",
    stream: TextIO | None = None,
) -> None:
    """Set up structlog and ``logging`` for this process. Call it once, before anything logs."""
    output = stream or sys.stderr

    def add_context(_logger: Any, _method: str, event: _EventDict) -> _EventDict:
        event["service"] = service_name
        call = current_call()
        if call is not None:
            event["request_id"] = call.request_id
            event["method"] = call.method
        return event

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        add_context,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    ending = _ending(log_format, output)
    structlog.configure(
        processors=[*shared, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[log_level]),
        logger_factory=structlog.WriteLoggerFactory(output),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[_add_foreign_name, *shared],
            processors=[ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    handler.addFilter(_TransportLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries at debug level would drown our own debug lines.
    root.setLevel(max(_LEVELS[log_level], logging.INFO))


class _TransportLines(logging.Filter):
    """Leaves out what the transport says of its connections more often than people read it.

    Whoever reaches a port can have any number of connections ended for faults.
    """

    def __init__(self) -> None:
        super().__init__()
        self._budget = LineBudget(TRANSPORT_LINES_PER_S)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.INFO or not record.name.startswith("ariane_wire"):
            return True
        left_out = self._budget.spend()
        if left_out:
            record.msg = f"{record.getMessage()} ({left_out} such lines were left out before)"
            record.args = ()
        return left_out is not None


def _ending(log_format: LogFormat, output: TextIO) -> list[Processor]:
    if log_format == "text":
        return [structlog.dev.ConsoleRenderer(colors=output.isatty(), timestamp_key="time")]
    return [
        # Without locals, which may contain message bodies and credentials.
        structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
        _order_keys,
        structlog.processors.JSONRenderer(_escaped_json, ensure_ascii=False, default=str),
    ]


def _escaped_json(event: object, **options: Any) -> str:
    """Encode a line; what misleads on a terminal, such as right-to-left marks, is escaped."""
    return shown_json(json.dumps(event, **options))


def _order_keys(_logger: Any, _method: str, event: _EventDict) -> _EventDict:
    ordered = {key: event.pop(key) for key in _FIRST_KEYS if key in event}
    ordered.update(event)
    return ordered


def _add_foreign_name(_logger: Any, _method: str, event: _EventDict) -> _EventDict:
    record: logging.LogRecord = event["_record"]
    event["component"] = record.name
    return event
