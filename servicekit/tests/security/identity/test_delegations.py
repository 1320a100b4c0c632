"""Delegated keys beside what names say: sinks of the user, and calls through others."""

from __future__ import annotations

from contextvars import copy_context
from types import SimpleNamespace

import pytest

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules
from ariane_servicekit import ServiceError
from ariane_servicekit.rpc.calls import enter_call
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.asking import require_sink, user_name
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.identity import delegations
from ariane_servicekit.security.identity.identify import acting_text
from ariane_servicekit.security.rights.rights import Rights

PEER = "ipv4:10.0.0.7:40211"


@pytest.fixture
def asked():
    """Asks something in a call of a user, who is a super user or not."""
    gate = Gate(AccessMode.CLOSED, lambda: 1000, super_users=frozenset({"root"}))
    stated = rules.AccessRules(version=1, users=[rules.UserRights(user="anna")])
    gate.change_rules(stated)

    def asked(ask, user, scope):
        caller = Caller(CallerKind.USER, PEER, user, scope=scope)
        call = SimpleNamespace(
            caller=caller, gate=gate, is_judged=True, request_id="1", method="m", peer=PEER
        )

        def within():
            enter_call(call)
            return ask(gate, caller)

        return copy_context().run(within)

    return asked


def scope_of(action):
    entry = rules.AccessEntry(
        decision=rules.ACCESS_DECISION_ALLOW,
        resource=access.RESOURCE_SINK,
        pattern=rules.NAME_PATTERN_ANY,
        actions=[action],
    )
    return Rights([entry])


@pytest.mark.parametrize("user", ["anna", "root"])
def test_sinks_of_the_user_are_not_for_every_key(asked, user):
    def ask(_gate, _caller):
        require_sink(access.ACTION_UPDATE, "q/copies", user)
        return True

    assert asked(ask, user, None)
    assert asked(ask, user, scope_of(access.ACTION_UPDATE))
    with pytest.raises(ServiceError, match=f"user {user} by delegation may not UPDATE sink"):
        asked(ask, user, scope_of(access.ACTION_GET))


def test_nobody_acts_for_a_delegated_key(asked):
    def ask(_gate, caller):
        return acting_text(caller)

    assert asked(ask, "anna", None) == "anna;10.0.0.7"
    with pytest.raises(ServiceError, match="nobody acts for it"):
        asked(ask, "anna", scope_of(access.ACTION_GET))
    assert asked(lambda *_: user_name(), "anna", scope_of(access.ACTION_GET)) == "anna"


def test_a_delegated_key_of_a_super_user_is_none(asked):
    assert asked(Gate.is_super, "root", None)
    assert not asked(Gate.is_super, "root", scope_of(access.ACTION_GET))


def test_what_delegations_leave_is_kept_in_bounded_memory(monkeypatch):
    """Whoever has a key may sign any number of them, and each connection shows one."""
    monkeypatch.setattr(delegations, "LARGE_BYTES_MAX", 80_000)
    scopes, kept = delegations.Scopes(), []

    def admitted(user, number, size=8_000, networks=(), address="10.0.0.7"):
        entry = rules.AccessEntry(name="t", source_networks=networks)
        terms = f"{user}-{number}".encode().ljust(size, b" ")
        try:
            kept.append(scopes.of(terms, [entry], user, address))
        except ServiceError as busy:
            return busy.row.name != "SERVICE_BUSY"
        return True

    assert [admitted("anna", number) for number in range(5)] == [True] * 2 + [False] * 3
    # Alike ones are one, from whichever address, unless an entry asks for it; small ones are free.
    assert admitted("anna", 1, address="10.0.0.8")
    assert kept[-1] is kept[1]
    assert all(admitted("anna", number, size=500) for number in range(100))
    for address in ("10.0.0.7", "10.0.0.8"):
        assert admitted("anna", 0, size=600, networks=["10.0.0.0/8"], address=address)
    assert kept[-1] is not kept[-2]
    others = [admitted(user, number) for user in "bcdef" for number in range(2)]
    assert others == [True] * 8 + [False] * 2
    # Those of connections that are gone make room.
    kept.clear()
    assert admitted("anna", 9)
    assert (len(scopes._known), len(scopes._large)) == (1, 1)
