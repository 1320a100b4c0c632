"""The door of one method: the gate, and the method's rule, as the interceptor uses them."""

from __future__ import annotations

from typing import Any, Final

from typing_extensions import override

from ariane_servicekit.rpc.calls import Call, current_call
from ariane_servicekit.security.gate import charging
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.gate.long_calls import LongCalls
from ariane_servicekit.security.rules.method_rules import MethodRule


class Door:
    """Lets the callers of a method in; this one lets everybody in."""

    cuts = False
    """Whether answers are cut to what callers may see."""

    def enter(self, call: Call) -> None:
        """Let a call come in, before its request is read.

        Raises:
            ServiceError: CREDENTIALS_INVALID or ACCESS_DENIED.
        """

    def take(self, call: Call, request: Any) -> None:
        """Let a request of a call come in.

        Raises:
            ServiceError: ACCESS_DENIED.
        """

    def stay(self, call: Call, request: Any) -> None:
        """Note a call that is not answered at once, in the task that works for it.

        Args:
            call: The call.
            request: Its only request; None if it has a stream of them.
        """

    def take_row(self, request: Any) -> Any:
        """Let a request of a stream come in; return it.

        Raises:
            ServiceError: ACCESS_DENIED.
        """
        call = current_call()
        if call is not None:
            self.take(call, request)
        return request

    def show(self, call: Call, answer: Any) -> Any:  # noqa: ARG002
        """Return an answer, cut to what the caller may see."""
        return answer

    def leave(self, call: Call) -> None:
        """A call is over, however it came in."""


OPEN_DOOR: Final = Door()
"""The door of methods that the contract does not have: health, reflection, unknown ones."""


class GuardedDoor(Door):
    """The door of a method with a rule."""

    def __init__(self, gate: Gate, rule: MethodRule, long_calls: LongCalls) -> None:
        """Let callers in as the gate judges."""
        self.cuts = rule.shown is not None
        self._gate = gate
        self._rule = rule
        self._long_calls = long_calls

    @override
    def enter(self, call: Call) -> None:
        call.gate = self._gate
        if self._gate.mode is not AccessMode.OPEN:
            gate = self._gate
            gate.admit(call, self._rule)
            if call.is_judged and gate.quotas.limits_callers:
                charging.enter(call, gate.quotas, gate.connections)

    @override
    def take(self, call: Call, request: Any) -> None:
        if call.is_judged:
            self._gate.judge(call, self._rule, request)
            if self._rule.is_change:
                call.touched = self._gate.words_of(self._rule, request)
        if call.long is not None:
            self._long_calls.add(call.long, request)

    @override
    def stay(self, call: Call, request: Any) -> None:
        if self._rule.is_long:
            call.long = self._long_calls.enter(call, self._rule)
            if request is not None:
                self._long_calls.add(call.long, request)

    @override
    def show(self, call: Call, answer: Any) -> Any:
        if call.touched:
            self._gate.note_change(call)
        return answer if self._rule.shown is None else self._gate.show(call, self._rule, answer)

    @override
    def leave(self, call: Call) -> None:
        if call.long is not None:
            self._long_calls.leave(call.long)
