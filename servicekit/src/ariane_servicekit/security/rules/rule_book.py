"""The rules of one version: all users and roles, and the rights that follow from them.

Rights are compiled when a user first calls, and kept: most of 10,000 users do not call for days.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ariane.common.v1 import access_rules_pb2 as rules
from ariane_servicekit.security.caller import Caller
from ariane_servicekit.security.identity.logins import PublicKey
from ariane_servicekit.security.rights.covering import covers
from ariane_servicekit.security.rights.explained import holds_from
from ariane_servicekit.security.rights.rights import Both, Everything, Judge, Rights

COMPILED_MAX: Final = 2000
"""Rights that are kept: of users, or of users and addresses where entries name networks."""

_EVERYTHING: Final = Everything()
_NO_RULES: Final = rules.AccessRules()


class RuleBook:
    """Users and roles of one version."""

    def __init__(
        self,
        stated: rules.AccessRules = _NO_RULES,
        super_users: frozenset[str] = frozenset(),
    ) -> None:
        """Read rules.

        Args:
            stated: The rules; must not change any more.
            super_users: Users who may do everything whatever the rules say.
        """
        self.version = stated.version
        """The version; 0 without rules."""
        self._users = {user.user: user for user in stated.users}
        self._roles = {role.role: role for role in stated.roles}
        self._disabled = frozenset(stated.disabled_users)
        self._super_users = super_users
        self._keys = {
            key.credential_id: PublicKey(
                user.user,
                key.public_key,
                key.expire_time.ToMilliseconds() if key.HasField("expire_time") else 0,
            )
            for user in stated.users
            for key in user.keys
        }
        self._compiled: dict[tuple[str, tuple[str, ...], str], Judge] = {}
        self._by_address: dict[tuple[str, tuple[str, ...]], bool] = {}

    def key_of(self, credential_id: str) -> PublicKey | None:
        """Find a key of a user; None if there is none."""
        return self._keys.get(credential_id)

    def is_known(self, user: str) -> bool:
        """Whether a user exists and is enabled."""
        return user in self._users or user in self._super_users

    def is_super(self, user: str) -> bool:
        """Whether a user may do everything."""
        if user in self._super_users:
            return True
        stated = self._users.get(user)
        return stated is not None and stated.kind == rules.USER_KIND_SUPER

    def rights_of(self, caller: Caller) -> Judge | None:
        """Return the rights of a caller that is a user; None for a user who is not known.

        Known are users of the rules, and who is in an OpenID group that is a role.
        """
        rights = self._own_rights_of(caller)
        return rights if rights is None or caller.scope is None else Both(rights, caller.scope)

    def _own_rights_of(self, caller: Caller) -> Judge | None:
        """The rights of a user, whatever a delegation leaves of them."""
        user = caller.name
        if self.is_super(user):
            return _EVERYTHING
        if user not in self._users and not self._has_role(caller):
            return None
        address = caller.address if self._depends_on_address(caller) else ""
        key = (user, caller.groups, address)
        rights = self._compiled.get(key)
        if rights is None:
            if len(self._compiled) >= COMPILED_MAX:
                self._compiled.clear()
            rights = self._compiled[key] = Rights(self.entries_of(caller))
        return rights

    def entries_of(self, caller: Caller) -> Iterator[rules.AccessEntry]:
        """Yield the entries that hold for a user from its address."""
        address = caller.address
        return (entry for entry in self._all_entries(caller) if holds_from(entry, address))

    def may_give(self, caller: Caller, wanted: rules.AccessEntry) -> bool:
        """Whether a user may give others what an entry names: nobody gives what he has not.

        The bearer of a delegated key gives nothing.
        """
        if caller.scope is not None:
            return False
        if self.is_super(caller.name):
            return True
        held = [
            entry
            for entry in self._all_entries(caller)
            if entry.decision == rules.ACCESS_DECISION_DENY or holds_from(entry, caller.address)
        ]
        return covers(held, wanted)

    def _all_entries(self, caller: Caller) -> Iterator[rules.AccessEntry]:
        user = self._users.get(caller.name)
        own: Iterable[str] = ()
        if user is not None:
            yield from user.entries
            own = user.roles
        for name in {*own, *caller.groups}:
            role = self._roles.get(name)
            if role is not None:
                yield from role.entries

    def _has_role(self, caller: Caller) -> bool:
        """Whether a caller that is not a user itself is in a group that is a role."""
        if caller.name in self._disabled:
            return False
        return any(group in self._roles for group in caller.groups)

    def _depends_on_address(self, caller: Caller) -> bool:
        key = (caller.name, caller.groups)
        depends = self._by_address.get(key)
        if depends is None:
            if len(self._by_address) >= COMPILED_MAX:
                self._by_address.clear()
            depends = any(entry.source_networks for entry in self._all_entries(caller))
            self._by_address[key] = depends
        return depends
