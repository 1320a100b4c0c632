"""Session tokens: for stubs that cannot log in on each connection."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from heapq import heapify, heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Final

from ariane_servicekit.clock import Clock
from ariane_servicekit.security.caller import Caller, address_of_peer
from ariane_wire.transport.peers import host_of

if TYPE_CHECKING:
    from ariane_servicekit.security.identity.logins import Login

TOKEN_BYTES: Final = 32
TOKENS_MAX: Final = 100_000
TOKENS_OF_USER_MAX: Final = 100
"""Of one user. Each login has one, whether its client shows it or not."""


class SessionTokens:
    """Those that this process has given out. It keeps their hashes only."""

    def __init__(self, chance: Random, clock: Clock) -> None:
        self._chance = chance
        self._clock = clock
        self._logins: dict[bytes, Login] = {}
        self._of_user: dict[str, dict[bytes, None]] = {}
        self._by_count: dict[int, dict[str, None]] = {}
        """Users by how many they have, so that the one with most is found without asking all."""
        self._ends: list[tuple[int, bytes]] = []
        """A heap of when tokens end; also of some that are forgotten."""

    def give(self, login: Login) -> str:
        """Draw the token of a login.

        Those of logins that have ended are forgotten first. Then one ends of a user with too many,
        or of all together one of the user with most.
        """
        token = base64.urlsafe_b64encode(self._chance.randbytes(TOKEN_BYTES)).decode().rstrip("=")
        user = login.caller.name
        self._forget_ended()
        if len(self._of_user.get(user, ())) >= TOKENS_OF_USER_MAX:
            self._forget(self._given_up(user))
        elif len(self._logins) >= TOKENS_MAX:
            self._forget(self._given_up(next(iter(self._by_count[max(self._by_count)]))))
        key = digest_of(token)
        self._logins[key] = login
        theirs = self._of_user.setdefault(user, {})
        theirs[key] = None
        self._count(user, len(theirs) - 1, len(theirs))
        heappush(self._ends, (login.ends_ms, key))
        return token

    def login_of(self, token: str, peer: str) -> Login | None:
        """The login of a token, from the address that has it; None for any other."""
        login = self._logins.get(digest_of(token))
        if login is None or address_of_peer(peer) != login.caller.address:
            return None
        return login

    def keeps(self, digest: bytes) -> bool:
        """Whether the token of a digest, as ``digest_of``, has not been forgotten or given up."""
        return digest in self._logins

    def lasting_ms(self, caller: Caller) -> int:
        """When the last login of a user from an address ends; 0 without one.

        Logins that a delegation narrows, and those of other groups, are left out.
        """
        theirs = (self._logins[key] for key in self._of_user.get(caller.name, ()))
        return max((login.ends_ms for login in theirs if alike(login, caller)), default=0)

    def forget(self, token: str) -> None:
        """Take a token no more."""
        self._forget(digest_of(token))

    def _given_up(self, user: str) -> bytes:
        """Which token of a user ends: the oldest of the host with most.

        Delegated keys and the user itself have a half each, unless the other leaves more: helpers
        that log in all the time end no session of whom they help.
        """
        theirs = {key: self._logins[key].caller for key in self._of_user[user]}
        helpers = sum(caller.scope is not None for caller in theirs.values())
        of_helpers = 2 * helpers >= len(theirs)
        hosts = {
            key: host_of(caller.peer)
            for key, caller in theirs.items()
            if (caller.scope is not None) is of_helpers
        }
        counts = Counter(hosts.values())
        most = max(counts.values())
        return next(key for key, host in hosts.items() if counts[host] == most)

    def _forget_ended(self) -> None:
        now_ms = self._clock.now_ms()
        while self._ends and self._ends[0][0] <= now_ms:
            self._forget(heappop(self._ends)[1])
        # Those given up before their end stay among them: as many as hold, at most.
        if len(self._ends) > 2 * max(len(self._logins), TOKENS_OF_USER_MAX):
            self._ends = [(login.ends_ms, key) for key, login in self._logins.items()]
            heapify(self._ends)

    def _forget(self, key: bytes) -> None:
        login = self._logins.pop(key, None)
        if login is None:
            return
        user = login.caller.name
        theirs = self._of_user[user]
        del theirs[key]
        self._count(user, len(theirs) + 1, len(theirs))
        if not theirs:
            del self._of_user[user]

    def _count(self, user: str, before: int, after: int) -> None:
        if before:
            users = self._by_count[before]
            del users[user]
            if not users:
                del self._by_count[before]
        if after:
            self._by_count.setdefault(after, {})[user] = None


def alike(login: Login, caller: Caller) -> bool:
    """Whether a login makes a caller known as before: user, address and groups, all rights."""
    other = login.caller
    return (other.name, other.address, other.groups, other.scope) == (
        caller.name,
        caller.address,
        caller.groups,
        None,
    )


def digest_of(token: str) -> bytes:
    """What is kept of a token: 32 octets, from which nobody finds it."""
    return hashlib.sha256(token.encode()).digest()
