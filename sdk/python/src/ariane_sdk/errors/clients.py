"""Errors of a client itself, without a call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ariane_sdk.errors.arguments import IllegalArgument
from ariane_sdk.errors.root import ArianeError

if TYPE_CHECKING:
    from ariane_sdk.message import ReceivedMessage


class ClientNotRunning(ArianeError):
    """The client was used before it was started, or after it was closed."""

    reason = "CLIENT_NOT_RUNNING"


class ClientForked(ArianeError):
    """The client was created in a parent process; connections and loops do not survive a fork.

    Create clients after the fork, or start processes by "spawn" or "forkserver".
    """

    reason = "CLIENT_FORKED"


class ClientOnOtherLoop(ArianeError):
    """The client was started on another event loop; a client lives on one loop.

    Call it from there, make a client for each loop, or use ``ariane_sdk.sync`` in threads.
    """

    reason = "CLIENT_ON_OTHER_LOOP"


class SendBufferFull(ArianeError):
    """``send_nowait`` found no room in the buffer; ``wait_for_room`` waits for some."""

    reason = "SEND_BUFFER_FULL"


class MessagesFailed(ArianeError):
    """Raised by a listener that has failed only for some of its messages."""

    reason = "MESSAGES_FAILED"

    def __init__(
        self,
        messages: Iterable[ReceivedMessage],
        cause: str = "",
        *,
        rejected: bool = False,
        delay_s: float | None = None,
    ) -> None:
        """Name the failed messages; the cause is for people, and stored with them.

        Raises:
            IllegalArgument: The delay is not a number from 0 on.
        """
        super().__init__(cause)
        self.delay_s = None if delay_s is None else _seconds("delay_s", delay_s)
        """How long to wait before the next try, in seconds; None: by the group's policy, or
        ``suspend_s`` in order."""
        self.messages = tuple(messages)
        """The messages that failed; the others are done."""
        self.rejected = rejected
        """Whether another try is useless: they become dead letters at once."""


class ConsumptionHeld(ArianeError):
    """Raised by a listener that cannot work now, as when a dependency is down.

    Its messages have not failed: they stay where they are, no attempt is counted, and they are
    delivered again after the time. Meanwhile nothing else of their queue, or of all queues, is
    delivered.
    """

    reason = "CONSUMPTION_HELD"

    def __init__(
        self,
        hold_s: float,
        cause: str = "",
        *,
        all_queues: bool = False,
        messages: Iterable[ReceivedMessage] | None = None,
    ) -> None:
        """Hold for so many seconds; the cause is for people.

        Raises:
            IllegalArgument: The time is not a number from 0 on.
        """
        super().__init__(cause)
        self.hold_s = _seconds("hold_s", hold_s)
        """How long, in seconds."""
        self.all_queues = all_queues
        """Whether all queues of the consumer are held."""
        self.messages = None if messages is None else tuple(messages)
        """The messages that are not done; the others are. None: all that it got."""


class OffsetFileDamaged(ArianeError):
    """The offset file of a broadcasting consumer is unreadable, and so is its previous version."""

    reason = "OFFSET_FILE_DAMAGED"


class OffsetFileInUse(ArianeError):
    """Another consumer of this host uses the same offset file."""

    reason = "OFFSET_FILE_IN_USE"


SECONDS_MAX: Final = 366 * 86_400.0


def _seconds(name: str, value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= SECONDS_MAX:
        raise IllegalArgument(f"{name} {value!r:.100}: 0 to {SECONDS_MAX:g} seconds are expected")
    return float(value)
