"""Sessions of people who have signed in to the console, and the one-time tokens that begin some."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ariane_servicekit.clock import Clock
from ariane_servicekit.security.caller import Caller

SESSIONS_MAX: Final = 10_000
SESSIONS_OF_USER_MAX: Final = 20
LINKS_MAX: Final = 1_000
LINKS_OF_USER_MAX: Final = 10

LINK_S_MAX: Final = 120.0
"""Seconds in which a one-time token must be used."""

TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Session:
    """A user who has signed in."""

    caller: Caller
    """Who it is."""
    by_certificate: bool = False
    """Whether each connection must show a certificate of this user, too."""


_Kept = TypeVar("_Kept")


class _Drawn(Generic[_Kept]):
    """What belongs to tokens that were drawn here; only their hashes are kept.

    The oldest ones of a user with too many end; of all together, of the user with most.
    """

    def __init__(self, clock: Clock, lasting_s: float, count_max: int, of_user_max: int) -> None:
        self._clock = clock
        self._lasting_s = lasting_s
        self._count_max = count_max
        self._of_user_max = of_user_max
        self._kept: dict[bytes, tuple[str, float, _Kept]] = {}

    def draw(self, caller: Caller, kept: _Kept) -> str:
        """Keep something for a user as long as its proof lasts; return its token."""
        user = caller.name
        self.drop(lambda _: False)
        counts = Counter(whose for whose, _, _ in self._kept.values())
        if counts[user] >= self._of_user_max:
            self._end_oldest(user)
        elif len(self._kept) >= self._count_max:
            self._end_oldest(max(counts, key=counts.__getitem__))
        token = secrets.token_urlsafe(TOKEN_BYTES)
        lasting_s = self._lasting_s
        if caller.ends_ms:
            lasting_s = min(lasting_s, (caller.ends_ms - self._clock.now_ms()) / 1000)
        self._kept[_hash(token)] = user, self._clock.monotonic() + lasting_s, kept
        return token

    def _end_oldest(self, user: str) -> None:
        del self._kept[next(key for key, (whose, _, _) in self._kept.items() if whose == user)]

    def find(self, token: str) -> _Kept | None:
        """What belongs to a token; None for one that does not hold."""
        _, ends_s, kept = self._kept.get(_hash(token), ("", 0.0, None))
        return kept if self._clock.monotonic() < ends_s else None

    def take(self, token: str) -> _Kept | None:
        """The same, and the token does not hold any more."""
        found = self.find(token)
        self._kept.pop(_hash(token), None)
        return found

    def drop(self, where: Callable[[_Kept], bool]) -> None:
        """Let tokens end; those whose time is over end besides."""
        now_s = self._clock.monotonic()
        over = [k for k, (_, ends_s, kept) in self._kept.items() if ends_s <= now_s or where(kept)]
        for key in over:
            del self._kept[key]


class Sessions:
    """Of one console.

    They end with their time, by signing out, with the token, key or certificate that began them,
    and when their user is not known any more: then for good, also if the user comes back.
    """

    def __init__(self, clock: Clock, lasting_s: float) -> None:
        self._sessions: _Drawn[Session] = _Drawn(
            clock, lasting_s, SESSIONS_MAX, SESSIONS_OF_USER_MAX
        )
        self._links: _Drawn[Caller] = _Drawn(clock, LINK_S_MAX, LINKS_MAX, LINKS_OF_USER_MAX)

    def begin(self, session: Session) -> str:
        """Let a user in; return the token of the session."""
        return self._sessions.draw(session.caller, session)

    def find(self, token: str) -> Session | None:
        """The session of a token; None if there is none any more."""
        return self._sessions.find(token)

    def end(self, token: str) -> None:
        """End the session of a token."""
        self._sessions.take(token)

    def end_unknown(self, knows: Callable[[Caller], bool]) -> None:
        """End what users have here who are not known."""
        self._sessions.drop(lambda session: not knows(session.caller))
        self._links.drop(lambda caller: not knows(caller))

    def draw_link(self, caller: Caller) -> str:
        """A token by which a user may sign in once, soon."""
        return self._links.draw(caller, caller)

    def take_link(self, token: str) -> Caller | None:
        """Who may sign in by a one-time token; None if nobody may by this one."""
        return self._links.take(token)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
