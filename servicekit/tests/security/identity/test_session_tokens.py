"""Session tokens: nobody crowds out those of others, and helpers none of whom they help."""

import sys
from random import Random
from types import SimpleNamespace

import pytest

from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_servicekit.security.identity import session_tokens
from ariane_servicekit.security.identity.logins import Login
from ariane_servicekit.security.identity.session_tokens import TOKENS_OF_USER_MAX, SessionTokens
from ariane_servicekit.security.rights.rights import Everything

HOST, OTHER = "ipv4:10.0.0.7:40211", "ipv4:10.0.0.8:40211"

NOW_MS = 1_000_000


@pytest.fixture
def tokens():
    return SessionTokens(Random(7), SimpleNamespace(now_ms=lambda: NOW_MS))


def login(user="anna", peer=HOST, scope=None, ends_ms=NOW_MS + 1000):
    return Login(Caller(CallerKind.USER, peer, user, scope=scope), ends_ms)


def kept(tokens, given, peer=HOST):
    return sum(tokens.login_of(each, peer) is not None for each in given)


def test_a_host_that_logs_in_all_the_time_ends_no_session_of_another(tokens):
    own = [tokens.give(login()) for _ in range(30)]
    loud = [tokens.give(login(peer=OTHER)) for _ in range(3 * TOKENS_OF_USER_MAX)]
    assert kept(tokens, own) == 30
    assert kept(tokens, loud, OTHER) == TOKENS_OF_USER_MAX - 30
    # Of its own the youngest; where both have as many, one for one.
    assert kept(tokens, loud[-TOKENS_OF_USER_MAX + 30 :], OTHER) == TOKENS_OF_USER_MAX - 30
    more = [tokens.give(login()) for _ in range(70)]
    assert abs(kept(tokens, own + more) - TOKENS_OF_USER_MAX // 2) <= 1


def test_a_network_of_ipv6_is_one_host(tokens):
    own = [tokens.give(login()) for _ in range(30)]
    for number in range(1, 3 * TOKENS_OF_USER_MAX):
        tokens.give(login(peer=f"ipv6:%5B2001:db8::{number:x}%5D:1"))
    assert kept(tokens, own) == 30


def test_helpers_with_delegated_keys_end_no_session_of_whom_they_help(tokens):
    own = [tokens.give(login(peer=OTHER)) for _ in range(TOKENS_OF_USER_MAX // 2)]
    for number in range(3 * TOKENS_OF_USER_MAX):
        tokens.give(login(peer=f"ipv4:10.0.{number % 250}.9:1", scope=Everything()))
    assert kept(tokens, own, OTHER) == len(own)


def test_of_all_together_users_with_most_lose_theirs(tokens, monkeypatch):
    monkeypatch.setattr(session_tokens, "TOKENS_MAX", 20)
    anna = [tokens.give(login()) for _ in range(2)]
    for user in ("mallory", "trudy"):
        for _ in range(50):
            tokens.give(login(user))
    ben = [tokens.give(login("ben")) for _ in range(3)]
    assert (kept(tokens, anna), kept(tokens, ben)) == (2, 3)


def test_no_session_that_holds_ends_while_there_are_ended_ones(tokens, monkeypatch):
    for number in range(40):
        tokens.give(login(peer=OTHER, ends_ms=NOW_MS - number))
    own = [tokens.give(login()) for _ in range(60)]
    own.append(tokens.give(login()))
    assert kept(tokens, own) == 61
    # So where there are too many of all together, whoever has most.
    monkeypatch.setattr(session_tokens, "TOKENS_MAX", 70)
    for number in range(9):
        tokens.give(login(f"user {number}", ends_ms=NOW_MS))
    tokens.give(login("ben"))
    assert kept(tokens, own) == 61


def test_the_user_with_most_is_found_without_asking_all(tokens, monkeypatch):
    monkeypatch.setattr(session_tokens, "TOKENS_MAX", 2000)
    given = [tokens.give(login(f"user {number}")) for number in range(1999)]
    two = [tokens.give(login("user 7"))]
    steps = []
    sys.setprofile(lambda *_: steps.append(None))
    tokens.give(login("ben"))
    sys.setprofile(None)
    assert len(steps) < 500
    assert kept(tokens, given) == 1998
    assert kept(tokens, two) == 1


def test_what_is_remembered_of_those_given_up_is_bounded(tokens):
    for _ in range(20 * TOKENS_OF_USER_MAX):
        tokens.give(login())
    held = [each for each in vars(tokens).values() if hasattr(each, "__len__")]
    assert max(map(len, held)) <= 3 * TOKENS_OF_USER_MAX
