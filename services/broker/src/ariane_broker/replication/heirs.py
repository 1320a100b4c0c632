"""To whom a primary hands its role by itself: a broker without damage, or a preferred one."""

from __future__ import annotations

from collections.abc import Callable

from ariane_broker.replication.primary import Primary


def sound_heir(primary: Primary) -> int | None:
    """A replica in sync that misses nothing, if the primary does: it should be primary.

    As its replica, the present primary fetches what it misses.
    """
    if not primary.has_begun:
        return None
    if not primary.store.copying.missing(primary.reign.replica_set.begin):
        return None
    members, confirmed = primary.copies.members, primary.confirmation.confirmed
    heirs = (
        one
        for one in sorted(primary.copies.waited_for)
        if members[one].attached and not members[one].missing and members[one].written >= confirmed
    )
    return next(heirs, None)


def preferred_heir(primary: Primary) -> int | None:
    """The replica in sync that is most preferred, if it is more so than the primary."""
    reign, members = primary.reign, primary.copies.members
    row = reign.replica_set
    followers = sorted(one for one, copy in members.items() if copy.attached)
    heirs = [one for one in followers if one in primary.copies.waited_for]
    best = max(heirs, key=row.preference, default=reign.broker_id)
    more = row.preference(best) > row.preference(reign.broker_id)
    return best if primary.has_begun and more else None


class PreferredReturn:
    """Measures for how long a preferred broker has been in sync."""

    def __init__(self, preferred: Callable[[], int | None], *, after_s: float) -> None:
        """``preferred`` returns the preferred heir of now; None without one.

        ``after_s``: seconds after which it gets the role; 0: never.
        """
        self._preferred = preferred
        self._after_s = after_s
        self._heir: int | None = None
        self._since_s = 0.0

    def due(self, now_s: float) -> int | None:
        """The broker that is to get the role now; None if there is none.

        Another try comes only after as long again: sends wait for each.
        """
        heir = self._preferred() if self._after_s else None
        if heir != self._heir:
            self._heir, self._since_s = heir, now_s
        if heir is None or now_s - self._since_s < self._after_s:
            return None
        self._since_s = now_s
        return heir
