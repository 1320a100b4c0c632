"""Errors that no program of the house foresees: each is a finding, wherever it ends.

Some end a program. Most are only logged: a loop goes on after them, and a caller hears of a fault.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any, Final

import structlog

from ariane_sdk.errors import ArianeError, CallError
from ariane_servicekit.errors import ServicekitError
from ariane_storage.errors import StorageError
from played_world.history import Refusal

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from played_world.history import History
    from played_world.world import World

FORESEEN: Final = (ArianeError, ServicekitError, StorageError)
"""Errors with words for people: whoever raises them means it."""

MISTAKES: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    LookupError,
    NameError,
    RuntimeError,
    StopAsyncIteration,
    StopIteration,
    TypeError,
    ValueError,
    asyncio.InvalidStateError,
)
"""What a statement raises that nobody has thought of."""

LISTENERS: Final = "failed_messages"
"""The module that logs what listeners raise, which is theirs."""


def is_mistake(error: BaseException) -> bool:
    """Whether an error, or one of a group, shows a mistake in the house."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_mistake, error.exceptions))
    return isinstance(error, MISTAKES) and not isinstance(error, FORESEEN)


def may_end(error: BaseException) -> bool:
    """Whether a program may end with an error: only with one that has words for people."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(may_end, error.exceptions))
    return isinstance(error, FORESEEN)


def hear_logs(world: World, history: History) -> None:
    """Write no logs; find the mistakes that they tell of, and note what is refused."""

    def note(what: str, given: object) -> None:
        error = sys.exc_info()[1] if given is True else given
        if isinstance(error, BaseException) and is_mistake(error) and world.running is not None:
            world.finds(world.running, "logged", {"message": what, "exception": error})

    def hear(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
        note(str(event.get("event")), event.get("exc_info"))
        raise structlog.DropEvent

    class Hearing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            given = record.args if isinstance(record.args, tuple) else ()
            for error in given:
                if isinstance(error, CallError):
                    topic, words = error.metadata.get("topic", ""), record.getMessage()
                    history.refusals.append(Refusal(record.funcName, error.reason, topic, words))
            if record.levelno < logging.ERROR:
                return
            if record.exc_info and record.module != LISTENERS:
                note(str(record.msg), record.exc_info[1])

    structlog.configure(
        processors=[hear], wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR)
    )
    root = logging.getLogger()
    root.handlers[:] = [Hearing()]
    root.setLevel(logging.ERROR)
    logging.getLogger("ariane_sdk").setLevel(logging.INFO)
