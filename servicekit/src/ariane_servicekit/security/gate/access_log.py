"""What is logged of calls: refusals, and changes that users make; so many lines in a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ariane_servicekit.errors import ServiceError
from ariane_servicekit.observability.logs import LineBudget, get_logger
from ariane_servicekit.rpc.calls import Call
from ariane_servicekit.security.caller import Caller
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.rights.rights import NAME_LENGTH_MAX
from ariane_servicekit.security.rules.use_ledger import Refusal, Use, UseLedger

REFUSALS_LOGGED_PER_S: Final = 20
"""The most refusals that are logged in one second; the next line says how many were left out."""

CHANGES_LOGGED_PER_S: Final = 20
"""The most changes that are logged in one second."""

_log = get_logger(__name__)


class AccessLog:
    """Of one process.

    Args:
        ledger: Remembers refusals, so that people can ask for them.
        now_ms: The clock.
    """

    def __init__(self, ledger: UseLedger, now_ms: Callable[[], int]) -> None:
        self._ledger = ledger
        self._now_ms = now_ms
        self._refusals = LineBudget(REFUSALS_LOGGED_PER_S)
        self._changes = LineBudget(CHANGES_LOGGED_PER_S)

    def refused(
        self, call: Call, mode: AccessMode, use: Use | None, cause: str, entry: Any = None
    ) -> None:
        """Remember a refusal, and log it.

        Args:
            call: What is refused.
            mode: Whether it is let through all the same.
            use: What it lacks; None if it is refused for who calls.
            cause: Why, for people.
            entry: The entry that denies; None if none allows.
        """
        try:
            caller: Caller | None = call.caller
        except ServiceError:
            caller = None
        refusal = Refusal(
            request_id=call.request_id,
            time_ms=self._now_ms(),
            method=call.method,
            caller=str(caller) if caller is not None else "nobody known",
            source_address=caller.address if caller is not None else call.peer,
            use=None if use is None else use._replace(name=use.name[:NAME_LENGTH_MAX]),
            cause=cause,
            entry=entry,
            let_through=mode is not AccessMode.CLOSED,
        )
        self._ledger.refused(refusal)
        left_out = self._refusals.spend()
        if left_out is not None:
            _log.warning(
                "access_refused",
                access=mode.value,
                caller=refusal.caller,
                address=refusal.source_address,
                cause=cause,
                **({"suppressed_before": left_out} if left_out else {}),
            )

    def changed(self, call: Call) -> None:
        """Log a change that a user has made."""
        left_out = self._changes.spend()
        if left_out is not None:
            _log.info(
                "changed_by",
                method=call.method,
                caller=str(call.caller),
                address=call.caller.address,
                touched=call.touched,
                **({"suppressed_before": left_out} if left_out else {}),
            )
