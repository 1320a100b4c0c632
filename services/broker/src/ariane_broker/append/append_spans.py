"""Spans of appends: one for each call whose messages were sent in spans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ariane_broker.append.rows import Outcome, Rows, Taken
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.observability.tracing import WorkSpan, WorkTracer


class AppendSpans:
    """Makes spans of append calls."""

    def __init__(self, tracer: WorkTracer, broker_name: str) -> None:
        self._tracer = tracer
        self._broker_name = broker_name

    def around(self, take: Callable[[], Taken], rows: Rows) -> Taken:
        """Append under a span, which ends when the promise holds.

        Args:
            take: Appends.
            rows: The rows that it appends.
        """
        topics = set(rows.topics)
        topic = topics.pop() if len(topics) == 1 else ""
        attributes: dict[str, str | int | bool] = {
            "messaging.system": "arianemq",
            "messaging.operation.name": "append",
            "ariane.broker.name": self._broker_name,
            "ariane.batch_count": len(rows),
        }
        if topic:
            attributes["messaging.destination.name"] = topic
        span = self._tracer.begin(
            f"append {topic}" if topic else "append", rows.trace_parents, attributes
        )
        if span is None:
            return take()
        try:
            taken = take()
        except Exception as error:
            _end(span, error)
            raise
        if isinstance(taken, list):
            _end(span, _first_error(taken))
            return taken
        return _awaited(span, taken)


async def _awaited(span: WorkSpan, taken: Awaitable[list[Outcome]]) -> list[Outcome]:
    try:
        outcomes = await taken
    except BaseException as error:
        _end(span, error)
        raise
    _end(span, _first_error(outcomes))
    return outcomes


def _end(span: WorkSpan, error: BaseException | None) -> None:
    if error is not None:
        kind = error.row.name if isinstance(error, ServiceError) else type(error).__qualname__
        span.set_attribute("error.type", kind)
    span.end()


def _first_error(outcomes: Sequence[Outcome]) -> ServiceError | None:
    return next((outcome.error for outcome in outcomes if outcome.error is not None), None)
