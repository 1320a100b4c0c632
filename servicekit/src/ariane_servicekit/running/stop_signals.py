"""Signals that ask a process to stop.

Python runs a handler in the main thread, the next time that thread runs Python. If the loop is just
about to wait for its sockets, or another thread gets the signal, the loop sleeps on and the handler
does not run. So every signal is also written to a socket that the loop waits for.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from ariane_servicekit.running.service import StopRequest

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_ROOM: Final = 4096


@contextmanager
def stop_signals(stop: StopRequest) -> Iterator[None]:
    """Let the first signal request a stop, and leave the second to the kernel.

    Not by ``loop.add_signal_handler``: the second signal must end the process also when the loop
    is stuck, for instance in a flush of a disk that does not answer. The request stays after
    the block; only the loop is no longer woken.

    Args:
        stop: The stop request; lives on the running loop.
    """
    loop = asyncio.get_running_loop()

    def received(number: int, _frame: FrameType | None) -> None:
        for every in _SIGNALS:
            signal.signal(every, signal.SIG_DFL)
        ask(number)

    def ask(number: int, _frame: FrameType | None = None) -> None:
        # A signal may arrive when the loop is closed and the process about to end.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(stop.request, signal.Signals(number).name)

    with _waking(loop):
        for every in _SIGNALS:
            signal.signal(every, received)
        # A signal that is ignored, as nohup does, stays ignored.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, ask)
        yield


@contextmanager
def _waking(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let every signal wake the loop."""
    woken, waker = socket.socketpair()
    with woken, waker:
        woken.settimeout(0)
        waker.settimeout(0)
        loop.add_reader(woken, lambda: woken.recv(_ROOM))
        before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(woken)
