"""When a primary hands its role back to the broker that operators prefer."""

from __future__ import annotations

from ariane_broker.replication.primary import Primary


class PreferredReturn:
    """Measures for how long a preferred broker has been in sync."""

    def __init__(self, primary: Primary, *, after_s: float) -> None:
        """``after_s``: seconds after which it gets the role; 0: never."""
        self._primary = primary
        self._after_s = after_s
        self._heir: int | None = None
        self._since_s = 0.0

    def due(self, now_s: float) -> int | None:
        """The broker that is to get the role now; None if there is none.

        Another try comes only after as long again: sends wait for each.
        """
        heir = self._primary.preferred_heir() if self._after_s else None
        if heir != self._heir:
            self._heir, self._since_s = heir, now_s
        if heir is None or now_s - self._since_s < self._after_s:
            return None
        self._since_s = now_s
        return heir
