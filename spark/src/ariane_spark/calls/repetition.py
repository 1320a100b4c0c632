"""Repeating calls after errors that may pass."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from ariane_sdk.errors import ArianeError, CallError, NameServersUnreachable, RouteNotFound
from ariane_spark.options.options import RequestPolicy

WAIT_S_MAX: Final = 5.0
WARM_UP_WAIT_S: Final = 1.0
"""The wait between requests to name servers that have just started."""

WARM_UP_WAITS_MAX: Final = 90
"""Number of repeats: they last longer than a name server's warm-up."""

STRANGE_REPEATS_MAX: Final = 5
"""Number of repeats, three seconds in all, if no name server answers and none has before: then the
address is more likely wrong than its server is just restarting."""

PEER_ROUNDS: Final = 3
"""How many times as many repeats are allowed while a broker waits for another one of its sink.

That ends when name servers drop the other one (``silence_s_max``, 120 s): the first goes on alone.
"""

_DOUBLINGS_MAX: Final = 16

_log: Final = logging.getLogger(__name__)

_AnswerT = TypeVar("_AnswerT")


class Repetition:
    """Repeats calls whose errors are retriable.

    Args:
        policy: How often, and with which waits.
        sleep: Waits.
    """

    def __init__(
        self, policy: RequestPolicy, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._policy = policy
        self._sleep = sleep

    def ask(
        self, question: Callable[[], _AnswerT], *, asker: str = "", awaits_topics: bool = True
    ) -> _AnswerT:
        """The answer to a request that is harmless to repeat.

        If name servers lack the answer because they have just started, this waits for them, however
        few repeats are allowed. If name servers are not there, and nothing is known from before,
        this gives up early, however many are allowed.

        Args:
            question: Asks once.
            asker: Who waits, for the log, which says it at the first repeat; empty: not logged.
            awaits_topics: Whether a topic without a route is waited for, unless nobody had it: its
                broker may restart, or its brokers elect a primary.

        Raises:
            ArianeError: The error of the last attempt.
        """
        failures = waits = 0
        while True:
            try:
                return question()
            except ArianeError as error:
                if "warming_up" in error.metadata and waits < WARM_UP_WAITS_MAX:
                    waits += 1
                    self._sleep(WARM_UP_WAIT_S)
                    continue
                failures += 1
                strange = isinstance(error, NameServersUnreachable)
                if strange and failures > STRANGE_REPEATS_MAX:
                    raise
                rounds = PEER_ROUNDS if _waits_for_peer(error) else 1
                awaited = awaits_topics or not isinstance(error, RouteNotFound)
                if not (error.retriable and awaited and self.allows(failures, rounds)):
                    raise
                if asker and failures == 1:
                    wait_s = self._wait_s_max(rounds)
                    _log.warning("%s waits up to about %.0f s: %s", asker, wait_s, error)
                self.wait(failures, error)

    def allows(self, failures: int, rounds: int = 1) -> bool:
        """Whether to repeat after a number of failures in a row."""
        return failures <= self._policy.retries_max * rounds

    def wait(self, failures: int, error: ArianeError | None = None) -> None:
        """Wait before a repeat.

        Args:
            failures: The number of failures in a row; the wait doubles with each.
            error: The latest failure, which may ask for a longer wait.
        """
        asked_s = error.retry_after_s if error else 0.0
        self._sleep(max(self._delay_s(failures), min(WAIT_S_MAX, asked_s)))

    def _delay_s(self, failures: int) -> float:
        delay_s: float = self._policy.backoff_ms / 1000 * 2 ** min(failures - 1, _DOUBLINGS_MAX)
        return min(WAIT_S_MAX, delay_s)

    def _wait_s_max(self, rounds: int) -> float:
        """How long all waits last together, without the calls."""
        return sum(map(self._delay_s, range(1, self._policy.retries_max * rounds + 1)))


def _waits_for_peer(error: ArianeError) -> bool:
    return isinstance(error, CallError) and error.reason == "PEER_UNREACHABLE"
