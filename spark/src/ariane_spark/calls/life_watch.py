"""Streams whose broker must stay alive: after long silence, the broker is probed by another call.

As in the SDK (``ariane_sdk.reading.range_chunks``), for blocking calls. A process that is frozen
keeps its connections, gRPC notices after 40 s, and silence alone proves nothing::

    next() -----------------+ silence_s ------+ as long as a call may take
                            |                 |
                            is it alive?      no answer to this either: the stream is given up
                                              any answer, also a refusal: wait for as long again

Only another thread can end a call that blocks. A timer for each chunk would be a thread for each,
so there is one thread for all waits: it checks when the latest wait may be over, at most once in
``silence_s``, and ends when no call waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from threading import Lock, Thread
from typing import Any, Final

from ariane_sdk.errors import ArianeError, CallError, DeadlinePassed
from ariane_wire import CallFailed

THREAD_NAME: Final = "ariane-life-watch"


class WatchedStream:
    """A stream of answers, and the probe of its sender."""

    __slots__ = ("ask", "call", "peer", "silence")

    def __init__(self, call: Any, peer: str, ask: Callable[[], object]) -> None:
        self.call = call
        """The call."""
        self.peer = peer
        """The sender, for the texts of errors."""
        self.ask = ask
        """Makes a small call to the sender, with a deadline; raises ``ArianeError``."""
        self.silence: CallError | None = None
        """Why the call was given up."""


class LifeWatch:
    """Watches the waits of one thread, of which there is one at a time."""

    def __init__(
        self,
        *,
        silence_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """A sender is probed after ``silence_s``."""
        self._silence_s = silence_s
        self._monotonic = monotonic
        self._sleep = sleep
        # The stream that is waited for, and the start of the wait: a new object for each wait, so
        # that waits can be distinguished.
        self._wait: tuple[WatchedStream, float] | None = None
        self._lock = Lock()
        self._watching = False

    def answers(self, stream: WatchedStream) -> Generator[Any]:
        """The answers of a stream; only waits for them count, not work in between.

        Raises:
            RpcError: The call ended with an error.
            CallError: The sender was silent for long and did not answer the probe.
        """
        answers = iter(stream.call)
        while True:
            self._wait = (stream, self._monotonic())
            if not self._watching:
                self._begin_to_watch()
            try:
                answer = next(answers, None)
            except CallFailed:
                if stream.silence is None:
                    raise
                raise stream.silence from None
            finally:
                self._wait = None
            if answer is None:
                return
            yield answer

    def _begin_to_watch(self) -> None:
        with self._lock:
            if not self._watching:
                Thread(target=self._watch, name=THREAD_NAME, daemon=True).start()
                self._watching = True  # The thread reads it under the same lock.

    def _watch(self) -> None:
        """Probe the brokers as long as calls wait for them."""
        heard_s = float("-inf")
        while not self._has_ended():
            wait = self._wait
            if wait is None:
                continue
            stream, begun_s = wait
            left_s = max(begun_s, heard_s) + self._silence_s - self._monotonic()
            if left_s > 0:
                self._sleep(left_s)
                continue
            silence = self._silence_of(stream)
            heard_s = self._monotonic()
            if silence is not None and self._wait is wait:
                stream.silence = silence
                stream.call.cancel()

    def _has_ended(self) -> bool:
        """Stop watching if no call waits. A call that waits later starts a new watch."""
        with self._lock:
            self._watching = False
            # In this order: a call that began to wait before this line is seen here.
            self._watching = self._wait is not None
            return not self._watching

    def _silence_of(self, stream: WatchedStream) -> CallError | None:
        """The error of a sender that does not answer."""
        try:
            stream.ask()
        except ArianeError as error:
            if not isinstance(error, CallError) or not error.unanswered:
                return None
            error.outcome_unknown = False  # Reading changes nothing.
            if not isinstance(error, DeadlinePassed):
                return error
            return DeadlinePassed(
                f"{stream.peer} has sent nothing of a range for {self._silence_s:g} s, and does not"
                " answer a probe",
                retriable=True,
            )
        return None
