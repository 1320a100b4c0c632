"""Callbacks of calls that are over: one that raises harms no other call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

_log: Final = logging.getLogger("ariane_wire.calls")


def call_back(callbacks: Iterable[Callable[[Any], None]], call: Any) -> None:
    """Tell that a call is over.

    One that raises is logged: this runs while frames are read and deadlines pass, and what comes
    after it belongs to other calls.
    """
    for callback in callbacks:
        try:
            callback(call)
        except Exception:  # noqa: BLE001 - logged.
            _log.exception("a callback of %r failed", call)
