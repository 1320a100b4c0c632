"""Errors of a client itself, without a call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

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
    """Raised by a listener that has failed only for some of its messages.

    Attributes:
        messages: The messages that failed; the others are done.
        rejected: Whether another try is useless: they become dead letters at once.
    """

    reason = "MESSAGES_FAILED"

    def __init__(
        self, messages: Iterable[ReceivedMessage], cause: str = "", *, rejected: bool = False
    ) -> None:
        """Name the failed messages; the cause is for people, and stored with them."""
        super().__init__(cause)
        self.messages = tuple(messages)
        self.rejected = rejected


class OffsetFileDamaged(ArianeError):
    """The offset file of a broadcasting consumer is unreadable, and so is its previous version."""

    reason = "OFFSET_FILE_DAMAGED"


class OffsetFileInUse(ArianeError):
    """Another consumer of this host uses the same offset file."""

    reason = "OFFSET_FILE_IN_USE"
