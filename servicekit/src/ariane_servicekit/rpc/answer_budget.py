"""Memory for answers that wait to be sent: one budget for all, shared fairly between callers.

Records read for a caller stay in memory until the answer has been sent. A caller that sends
requests and reads no answers would fill the memory. So code that reads for a caller takes room
first, and releases it when the answer has been sent::

    take room ---> read, no more than was granted ---> settle ---> answer is sent ---> release
       |
       waits while the caller has as much as is still free

A caller may hold as much as it leaves free: half of the budget if it is alone, so that the next
caller finds room. A caller that holds nothing gets a little even if nothing is free, so that it
cannot be blocked by callers that read no answers. Callers are identified by their connections, of
which one host may have thousands: beyond twice the budget only a host that holds nothing gets that.
Keepalive ends the connection of a client that is stopped or gone, and frees all its room. Ending a
call alone would free nothing: gRPC keeps its answer until the client reads it or the connection
ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple

from ariane_wire.transport.peers import host_of

LEAST_BYTES: Final = 64 << 10
"""The least room that is granted: smaller answers would cost more than they are worth."""


class _Waiter(NamedTuple):
    lease: AnswerLease
    wanted: int
    granted: asyncio.Future[int]


class AnswerBudget:
    """The room of all answers of a service."""

    def __init__(self, bytes_max: int) -> None:
        self.held_bytes = 0
        """Room in use. May exceed the budget by a little for each caller: its first message is sent
        whatever its size."""
        self.waiting_count = 0
        """Reads that wait for room."""
        self._bytes_max = bytes_max
        self._held_by: dict[str, int] = {}
        self._held_on: dict[str, int] = {}
        self.waiting: dict[str, deque[_Waiter]] = {}
        """Reads that wait for room, by caller, those who came first first."""

    def lease(self, peer: str) -> AnswerLease:
        """The room of one call.

        Args:
            peer: The caller's connection.
        """
        return AnswerLease(self, peer)

    def grant(self, lease: AnswerLease, wanted: int) -> int:
        """Grant room to a call now: as much as wanted, or as its caller may have; 0 for none."""
        held = self._held_by.get(lease.peer, 0)
        room = (self._bytes_max - self.held_bytes - held) // 2
        if room < min(wanted, LEAST_BYTES):
            if held or (lease.host in self._held_on and self.held_bytes >= 2 * self._bytes_max):
                return 0
            room = LEAST_BYTES
        granted = min(wanted, room)
        self.change(lease, granted)
        return granted

    async def wait(self, lease: AnswerLease, wanted: int) -> int:
        """Grant room to a call once there is some; calls of one caller get it in order."""
        waiter = _Waiter(lease, wanted, asyncio.get_running_loop().create_future())
        queue = self.waiting.setdefault(lease.peer, deque())
        queue.append(waiter)
        self.waiting_count += 1
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled():
                self.change(lease, -waiter.granted.result())
            else:
                queue.remove(waiter)
                if not queue:
                    self.waiting.pop(lease.peer, None)
            self.wake()
            raise
        finally:
            self.waiting_count -= 1

    def change(self, lease: AnswerLease, size_bytes: int) -> None:
        """Take room, or release it if ``size_bytes`` is negative."""
        lease.held_bytes += size_bytes
        self.held_bytes += size_bytes
        for held, whose in (self._held_by, lease.peer), (self._held_on, lease.host):
            left = held.get(whose, 0) + size_bytes
            if left:
                held[whose] = left
            else:
                held.pop(whose, None)

    def wake(self) -> None:
        """Grant room to waiting calls, caller by caller."""
        for peer in list(self.waiting):
            queue = self.waiting[peer]
            while queue:
                lease, wanted, waiting = queue[0]
                granted = self.grant(lease, wanted)
                if not granted:
                    break
                queue.popleft()
                waiting.set_result(granted)
            if queue:
                # Next time other callers are first.
                self.waiting[peer] = self.waiting.pop(peer)
            else:
                del self.waiting[peer]


class AnswerLease:
    """The room of one call, which must release it at its end."""

    __slots__ = ("_budget", "held_bytes", "host", "peer")

    def __init__(self, budget: AnswerBudget, peer: str) -> None:
        """Start without room; see ``AnswerBudget.lease``."""
        self._budget = budget
        self.peer = peer
        """The caller's connection."""
        self.host = host_of(peer)
        """The host that it counts for."""
        self.held_bytes = 0
        """Room that the call holds."""

    def take_at_once(self, wanted: int) -> int:
        """Take room without waiting: 1 to `wanted` bytes; 0 for none."""
        budget = self._budget
        return 0 if self.peer in budget.waiting else budget.grant(self, wanted)

    async def take(self, wanted: int) -> int:
        """Wait for and take room: 1 to `wanted` bytes."""
        return self.take_at_once(wanted) or await self._budget.wait(self, wanted)

    def settle(self, granted: int, used: int) -> None:
        """Report how much of the granted room is used; the rest is released.

        Args:
            granted: The result of ``take``.
            used: Bytes that were read; may be more if a single message is larger.
        """
        if granted != used:
            self._budget.change(self, used - granted)
            if self._budget.waiting_count:
                self._budget.wake()

    def release(self, _: object = None) -> None:
        """Release all room: the answer was sent, or the call has ended. Repeating is harmless."""
        if self.held_bytes:
            self._budget.change(self, -self.held_bytes)
            if self._budget.waiting_count:
                self._budget.wake()
