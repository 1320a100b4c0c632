"""SIGTERM and SIGINT for programs that only consume: the first signal ends the wait in order.

A signal is handled only while a call waits for it, and only if the application has no handler of
its own. The first signal restores the earlier handlers, so that a second one ends the process at
once.
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
    """The signal handlers of this process; used by its main thread only."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], object]] = []
        self._before: dict[int, Any] = {}

    def add(self, on_signal: Callable[[], object]) -> None:
        """Add a function to call at the first signal."""
        self._waiting.append(on_signal)
        for number in STOP_SIGNALS:
            handler = signal.getsignal(number)
            if number not in self._before and _is_usual(handler):
                self._before[number] = handler
                signal.signal(number, self._handle)

    def remove(self, on_signal: Callable[[], object]) -> None:
        """Remove a function; harmless if it was called already."""
        if on_signal in self._waiting:
            self._waiting.remove(on_signal)
        if not self._waiting:
            self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            # A handler set later is kept.
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
    """Have the first SIGTERM or SIGINT call a function, during a block.

    In threads other than the main one this does nothing: they cannot set signal handlers.

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
    """Whether a handler is the default of Python, or that of ``asyncio.run`` for Ctrl-C."""
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return True
    function = getattr(handler, "func", None)
    return getattr(function, "__qualname__", "") == "Runner._on_sigint"
