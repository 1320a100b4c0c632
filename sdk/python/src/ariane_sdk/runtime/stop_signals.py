"""SIGTERM and SIGINT for programs that only consume: the first one ends the wait in order.

A signal is taken while somebody waits for it, and only where nobody else has asked for it: handlers
of the application stay. From the first signal on everything is as before, so that a second one ends
the process at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from ariane_sdk.runtime.log import logger

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class _StopSignals:
    """What this process does at signals; touched by its main thread only."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], object]] = []
        self._before: dict[int, Any] = {}

    def add(self, on_signal: Callable[[], object]) -> None:
        """Call this at the first signal as well."""
        self._waiting.append(on_signal)
        for number in STOP_SIGNALS:
            handler = signal.getsignal(number)
            if number not in self._before and _is_usual(handler):
                self._before[number] = handler
                signal.signal(number, self._handle)

    def remove(self, on_signal: Callable[[], object]) -> None:
        """Call this no longer; harmless when it was called."""
        if on_signal in self._waiting:
            self._waiting.remove(on_signal)
        if not self._waiting:
            self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            # A handler that was set later stays.
            if signal.getsignal(number) == self._handle:
                signal.signal(number, handler)
        self._before.clear()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        logger.info("%s: the consumer closes", signal.Signals(number).name)
        self._restore()
        waiting, self._waiting = self._waiting, []
        for on_signal in waiting:
            on_signal()


_signals: Final = _StopSignals()


@contextmanager
def stop_signals(on_signal: Callable[[], object]) -> Iterator[None]:
    """Have the first SIGTERM or SIGINT call a function, for the length of a block.

    Nothing happens in threads other than the main one: they have no say in signals.

    Args:
        on_signal: Called in the main thread, between any two statements of it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _signals.add(on_signal)
    try:
        yield
    finally:
        _signals.remove(on_signal)


def _is_usual(handler: Any) -> bool:
    """Whether a handler is that of Python, or of ``asyncio.run`` for Ctrl-C."""
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return True
    function = getattr(handler, "func", None)
    return getattr(function, "__qualname__", "") == "Runner._on_sigint"
