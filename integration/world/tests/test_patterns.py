"""Patterns are made of faults that can befall whom they name, and leave out what comes too late."""

from random import Random
from types import SimpleNamespace

import pytest
from played_world import patterns
from played_world.ambushes import CLIENT_HARMS, HARMS, TRIGGERS, amount_of
from played_world.faults import KINDS, draw_plan
from played_world.patterns import PATTERNS, draw_patterns
from played_world.steps import PARTS

ROLES = [
    SimpleNamespace(name=name, kind=kind, can_leave=can_leave)
    for name, kind, can_leave in (
        ("name-1", "name server", False),
        ("broker-1", "broker", False),
        ("broker-2", "broker", False),
        ("producer-1", "client", False),
        ("strict-1", "client", True),
        ("strict-2", "client", True),
        ("strict-3", "client", True),
    )
]
KIND_OF = {role.name: role.kind for role in ROLES} | dict.fromkeys(PARTS, "broker")


def befalls_whom_it_may(fault):
    return KIND_OF[fault.target] in KINDS[fault.kind][1]


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_each_pattern_is_made_of_faults_that_can_befall_whom_they_name(pattern):
    for seed in range(20):
        faults = list(pattern(Random(seed), 5.0, ROLES[1].name, ROLES[4].name))
        assert len(faults) > 1
        assert all(map(befalls_whom_it_may, faults))
        assert all(fault.other in TRIGGERS for fault in faults if fault.kind == "ambush")


def test_what_would_come_after_the_end_is_left_out():
    for seed in range(20):
        plan = draw_patterns(Random(seed), ROLES, 5.0, 20.0, count=3, is_set=True)
        assert all(fault.at_s < 20.0 for fault in plan)


def test_plans_have_patterns_and_single_faults_and_are_drawn_in_one_way():
    plans = [
        draw_plan(Random(seed), ROLES, 5.0, 150.0, count=16, is_set=is_set)
        for seed in (1, 2, 1)
        for is_set in (False, True)
    ]
    assert plans[:2] == plans[4:]
    assert plans[:2] != plans[2:4]
    for plan in plans:
        assert len(plan) >= 16
        assert plan == sorted(plan)
        assert all(map(befalls_whom_it_may, plan))


def test_harms_of_ambushes_are_faults_that_can_befall_brokers_and_clients():
    assert all("broker" in KINDS[harm][1] for harm in HARMS)
    assert all("client" in KINDS[harm][1] for harm in CLIENT_HARMS)
    for harm in dict.fromkeys(HARMS):
        assert HARMS[int(amount_of(harm, 0.99) * len(HARMS))] == harm


def test_who_looks_for_something_gets_the_patterns_that_are_named_and_nothing_else(monkeypatch):
    monkeypatch.setattr(patterns, "ONLY", {"full", "in_work"})
    monkeypatch.setattr("played_world.faults.ONLY", patterns.ONLY)
    kinds = [
        {
            fault.kind
            for seed in range(20)
            for fault in draw_plan(Random(seed), ROLES, 5.0, 150.0, count=16, is_set=is_set)
        }
        for is_set in (False, True)
    ]
    in_work = {"drag", "ambush", "kill"}
    assert kinds == [in_work, in_work | {"full-disk", "power"}]
