"""A breaker: holds all queues of a consumer for a while when its listener fails too often.

::

             enough of the last calls failed
    closed ────────────────────────────────> open: nothing is handed out
      ^  ^                                      | hold_s is over
      |  +────── the next call succeeds ──── on trial
      |                                         | it fails
      +                    open again <─────────+
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ariane_sdk.client.listener import Deliver
from ariane_sdk.errors import ConsumptionHeld
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.runtime.application_calls import text_of
from ariane_sdk.settings import Breaker


class BrokenDelivery:
    """Calls a listener, and opens the breaker by the outcomes."""

    def __init__(
        self, deliver: Deliver, breaker: Breaker, *, open_for: Callable[[float, str], None]
    ) -> None:
        """``open_for`` holds all queues for so many seconds, for a cause."""
        self._deliver = deliver
        self._breaker = breaker
        self._open_for = open_for
        self._failures: deque[bool] = deque(maxlen=breaker.calls)
        self._on_trial = False

    async def deliver(self, messages: Sequence[ReceivedMessage]) -> None:
        """Call the listener.

        Raises:
            Exception: What the listener raised.
        """
        try:
            await self._deliver(messages)
        except ConsumptionHeld:
            raise  # The listener takes care by itself.
        except Exception as error:
            self._note(failed=True, error=error)
            raise
        self._note(failed=False)

    def _note(self, *, failed: bool, error: Exception | None = None) -> None:
        if self._on_trial and not failed:
            self._on_trial = False
            self._failures.clear()
        self._failures.append(failed)
        enough = len(self._failures) == self._breaker.calls and (
            sum(self._failures) >= self._breaker.failure_ratio * self._breaker.calls
        )
        if failed and (self._on_trial or enough):
            self._on_trial = True
            self._open_for(
                self._breaker.hold_s,
                f"{sum(self._failures)} of {len(self._failures)} calls of the listener failed,"
                f" the last one by {error and text_of(error, repr)}",
            )
