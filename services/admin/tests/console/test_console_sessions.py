"""How long somebody is in, and how many may be."""

from dataclasses import replace

import pytest

from ariane_admin.console import sessions
from ariane_admin.console.sessions import LINK_S_MAX, Session, Sessions
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_testkit.virtual_clock import VirtualClock


def user(name):
    return Caller(CallerKind.USER, "ipv4:10.0.0.7:4", name)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def kept(clock):
    return Sessions(clock, 600)


def test_a_session_and_a_link_end_with_their_time(kept, clock):
    session = Session(user("anna"))
    token, link, late = kept.begin(session), kept.draw_link(user("anna")), kept.draw_link(user("b"))
    assert kept.find(token) is session
    assert kept.find(link) is None
    assert kept.take_link(token) is None
    assert kept.take_link(link) == user("anna")
    assert kept.take_link(link) is None
    clock.advance(LINK_S_MAX)
    assert kept.take_link(late) is None
    clock.advance(599 - LINK_S_MAX)
    assert kept.find(token) is session
    clock.advance(1)
    assert kept.find(token) is None


def test_a_session_and_a_link_end_with_the_token_that_began_them(kept, clock):
    short = replace(user("anna"), ends_ms=clock.now_ms() + 30_000)
    long = replace(user("anna"), ends_ms=clock.now_ms() + 900_000)
    token, link, other = (
        kept.begin(Session(short)),
        kept.draw_link(short),
        kept.begin(Session(long)),
    )
    clock.advance(29)
    assert kept.find(token) is not None
    clock.advance(1)
    assert kept.find(token) is None
    assert kept.take_link(link) is None
    clock.advance(569)
    assert kept.find(other) is not None
    clock.advance(1)
    assert kept.find(other) is None


def test_a_user_with_too_many_loses_the_oldest_and_nobody_elses(kept, monkeypatch):
    monkeypatch.setattr(sessions, "SESSIONS_OF_USER_MAX", 3)
    kept = Sessions(VirtualClock(), 600)
    other = kept.begin(Session(user("ben")))
    tokens = [kept.begin(Session(user("anna"))) for _ in range(5)]
    assert [kept.find(each) is not None for each in tokens] == [False, False, True, True, True]
    assert kept.find(other) is not None


def test_all_together_are_bounded(monkeypatch):
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)
    kept = Sessions(VirtualClock(), 600)
    tokens = [kept.begin(Session(user(f"u{number}"))) for number in range(5)]
    assert [kept.find(each) is not None for each in tokens] == [False, False, True, True, True]


def test_of_all_together_the_user_with_most_loses_its_own(monkeypatch):
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 8)
    monkeypatch.setattr(sessions, "LINKS_MAX", 8)
    kept = Sessions(VirtualClock(), 600)
    ben, link = kept.begin(Session(user("ben"))), kept.draw_link(user("ben"))
    for _ in range(20):
        for name in ("mallory", "trudy"):
            kept.begin(Session(user(name)))
            kept.draw_link(user(name))
    assert kept.find(ben) is not None
    assert kept.take_link(link) == user("ben")


def test_sessions_of_an_unknown_user_end(kept):
    anna, ben = kept.begin(Session(user("anna"))), kept.begin(Session(user("ben")))
    link = kept.draw_link(user("anna"))
    kept.end_unknown(lambda caller: caller.name == "ben")
    assert kept.find(anna) is None
    assert kept.take_link(link) is None
    assert kept.find(ben) is not None


def test_no_token_is_kept(kept):
    token, link = kept.begin(Session(user("anna"))), kept.draw_link(user("anna"))
    assert len({token, link}) == 2
    assert min(len(token), len(link)) == 43
    for name in ("_sessions", "_links"):
        shown = repr(vars(getattr(kept, name)))
        assert token not in shown
        assert link not in shown
