"""Calls that last: judged again when the rules change, and ended if they would be refused now.

They also end with the token, key or certificate by which their caller is known, unless the client
has renewed it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.rpc.calls import Call
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.rules.method_rules import MethodRule
from ariane_servicekit.security.rules.use_ledger import Use

USES_MAX: Final = 4096
"""Uses that are remembered of one call, and those of one request more."""

_FORGOTTEN: Final = (
    "rights have changed, and the call has used more than can be judged again: begin it anew"
)

LOOK_S_MAX: Final = 60.0
"""Between two looks whether the proof of a caller has ended."""

JUDGED_AT_ONCE: Final = 100
"""Calls that are judged in one turn of the loop."""


@dataclass(slots=True, eq=False)
class LongCall:
    """A call that lasts."""

    call: Call
    """The call."""
    rule: MethodRule
    """What it needs."""
    task: asyncio.Task[Any]
    """The task that works for it."""
    uses: set[Use] = field(default_factory=set)
    """What its requests use, the last one left out."""
    has_forgotten: bool = False
    """Whether it has used more than is remembered: it cannot be judged again."""
    request: Any = None
    """The last request; what it uses is found when it is asked for, and most calls end before."""
    timer: asyncio.TimerHandle | None = None
    """Looks whether the proof of its caller has ended; None if that has no end."""

    def end(
        self,
        cause: str,
        reason: ErrorReason.ValueType = ErrorReason.ERROR_REASON_ACCESS_DENIED,
    ) -> None:
        """End the call."""
        self.call.ended = ServiceError(reason, cause)
        self.task.cancel()


class LongCalls:
    """The calls of a process that last."""

    def __init__(self, gate: Gate) -> None:
        """Judge calls again whenever the gate changes."""
        self._gate = gate
        self._calls: set[LongCall] = set()
        self._judging: asyncio.Task[None] | None = None
        self._again = False
        gate.watch(self._changed)

    def enter(self, call: Call, rule: MethodRule) -> LongCall:
        """A call begins, in the task that works for it."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - calls run in tasks
        long = LongCall(call, rule, task)
        self._calls.add(long)
        if call.is_judged and call.caller.ends_ms:
            self._check(long)
        return long

    def add(self, long: LongCall, request: Any) -> None:
        """A call has another request."""
        if long.request is not None:
            self._add_uses(long)
        long.request = request

    def leave(self, long: LongCall) -> None:
        """A call is over."""
        self._calls.discard(long)
        if long.timer is not None:
            long.timer.cancel()

    def _check(self, long: LongCall) -> None:
        """End a call whose caller is known no more; look again when his present proof ends."""
        left_s = self._gate.proof_left_s(long.call)
        if left_s > 0:
            # The clock may be set meanwhile, and a proof renewed: never far ahead.
            loop = asyncio.get_running_loop()
            long.timer = loop.call_later(min(left_s, LOOK_S_MAX), self._check, long)
        elif long in self._calls and long.call.ended is None:
            long.end(
                f"what {long.call.caller} was known by has ended",
                ErrorReason.ERROR_REASON_CREDENTIALS_INVALID,
            )

    def _add_uses(self, long: LongCall) -> None:
        """Remember what the last request of a call uses, instead of the request."""
        if len(long.uses) >= USES_MAX:
            # Those of the requests from now on: each was judged when it came.
            long.uses.clear()
            long.has_forgotten = True
        long.uses.update(self._gate.uses_of(long.rule, long.request))
        long.request = None

    def _changed(self) -> None:
        self._again = True
        if self._judging is None or self._judging.done():
            self._judging = asyncio.get_running_loop().create_task(self._judge_all())

    async def _judge_all(self) -> None:
        while self._again:
            self._again = False
            for count, long in enumerate(list(self._calls), 1):
                if long.request is not None:
                    self._add_uses(long)
                cause = self._gate.still_allows(long.call, long.rule, long.uses)
                if long in self._calls and long.call.ended is None:
                    if cause:
                        long.end(cause)
                    elif long.has_forgotten and self._gate.judges_user(long.call):
                        long.end(_FORGOTTEN, ErrorReason.ERROR_REASON_SERVICE_BUSY)
                if count % JUDGED_AT_ONCE == 0:
                    await asyncio.sleep(0)
