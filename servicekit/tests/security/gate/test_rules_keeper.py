"""Rules over time: versions, files, and what holds when admin is gone."""

from __future__ import annotations

import pytest

from ariane.common.v1 import access_pb2 as access
from ariane_servicekit.errors import StartRefused
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.gate.rules_keeper import RulesKeeper
from ariane_testkit.access_rules import rules_of
from ariane_testkit.virtual_clock import VirtualClock

HOUR_S = 3600
ANNA = Caller(CallerKind.USER, "ipv4:127.0.0.1:1", "anna")
ROOT = Caller(CallerKind.USER, "ipv4:127.0.0.1:1", "root")


class Process:
    """A gate and its keeper over a file."""

    def __init__(self, clock, path):
        self.gate = Gate(AccessMode.CLOSED, clock.now_ms, super_users=frozenset({"root"}))
        self.keeper = RulesKeeper(self.gate, path, clock, hold_s_max=24 * HOUR_S)
        self.keeper.begin(self.keeper.read())

    def told(self, rules):
        self.keeper.confirm()
        taken = self.keeper.take(rules)
        if taken:
            self.keeper.save(rules)
        return taken

    def allows(self, caller=ANNA):
        return self.gate.allows(caller, access.ACTION_GET, access.RESOURCE_TOPIC, "t")


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rules"


def test_a_version_never_goes_back(clock, path):
    process = Process(clock, path)
    assert process.told(rules_of(7, "anna: "))
    assert not process.told(rules_of(6, "anna: allow GET topic t"))
    assert not process.told(rules_of(7, "anna: allow GET topic t"))
    assert not process.allows()
    again = Process(clock, path)
    assert again.gate.version == 7
    assert not again.told(rules_of(6, "anna: allow GET topic t"))
    assert again.told(rules_of(8, "anna: allow GET topic t"))
    assert again.allows()


def test_rules_survive_a_restart_and_expire_without_admin(clock, path):
    Process(clock, path).told(rules_of(1, "anna: allow GET topic t"))
    process = Process(clock, path)
    assert process.allows()
    clock.advance(23 * HOUR_S)
    process.keeper.check_age()
    assert process.allows()
    clock.advance(2 * HOUR_S)
    process.keeper.check_age()
    assert not process.allows()
    assert process.allows(ROOT)
    process.keeper.confirm()
    assert process.allows()


def test_a_restart_makes_no_rules_younger(clock, path):
    process = Process(clock, path)
    process.told(rules_of(1, "anna: allow GET topic t"))
    clock.advance(10 * HOUR_S)
    process.keeper.confirm()
    process.keeper.check_age()
    clock.advance(20 * HOUR_S)
    again = Process(clock, path)
    assert again.allows()
    clock.advance(5 * HOUR_S)
    again.keeper.check_age()
    assert not again.allows()
    assert not Process(clock, path).allows()


@pytest.mark.parametrize("content", [b"", b"abc", b"\x00\x00\x00\x00\xff\xff"])
def test_a_damaged_file_refuses_the_start(clock, path, content):
    path.write_bytes(content)
    with pytest.raises(StartRefused, match="rules cannot be read"):
        Process(clock, path)
