"""The answer of a replica to clients: BROKER_NOT_PRIMARY, with the primary's address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ariane_broker.errors.replication import broker_not_primary


class NotPrimary:
    """Refuses every method of every service."""

    def __init__(self, primary_address: Callable[[], str]) -> None:
        self._primary_address = primary_address

    def __getattr__(self, name: str) -> Callable[[Any, Any], NoReturn]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._refuse

    def _refuse(self, _request: Any, _context: Any) -> NoReturn:
        raise broker_not_primary(self._primary_address())
