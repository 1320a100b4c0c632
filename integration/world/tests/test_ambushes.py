"""An ambush comes once what it waits for has happened, to whom it has happened, and only once."""

import shutil
from types import SimpleNamespace

import pytest
from played_world.ambushes import HARMS, TRIGGERS, lie_in_wait
from played_world.fault import Fault
from played_world.machines.timeline import Timeline
from played_world.programs.stage import Stage


@pytest.fixture
def stage():
    made = Stage(SimpleNamespace(timeline=Timeline(1)))
    made.roles = {
        name: SimpleNamespace(name=name, kind="broker") for name in ("broker-1", "broker-2")
    }
    yield made
    shutil.rmtree(made.scratch)


@pytest.fixture
def befallen(stage):
    """What has befallen whom, of two ambushes: one for a message, one for a start."""
    befallen = []

    def befall(_, fault):
        befallen.append((fault.kind, fault.target))

    for trigger, amount in (("sent", 0.5), ("started", 0.0)):
        fault = Fault(0.0, "ambush", "broker-1", trigger, 2.0, amount)
        assert not lie_in_wait(stage, fault, befall)
    return befallen


def test_it_waits_and_comes_once_to_the_broker_that_has_promised(stage, befallen):
    timeline = stage.world.timeline
    timeline.run(10.0)
    assert befallen == []
    stage.happens("settled", "broker-2")
    stage.happens("sent", "broker-2")
    stage.happens("sent", "broker-2")
    timeline.run(10.0 + TRIGGERS["sent"])
    assert befallen == [(HARMS[3], "broker-2")]


def test_where_it_waits_for_a_start_another_one_starts_in_peace(stage, befallen):
    stage.happens("started", "broker-2")
    stage.world.timeline.run(10.0)
    assert befallen == []
    stage.happens("started", "broker-1")
    stage.world.timeline.run(20.0)
    assert befallen == [(HARMS[0], "broker-1")]


def test_nothing_comes_once_the_world_is_whole_again(stage, befallen):
    stage.happens("sent", "broker-2")
    stage.is_disturbed = False
    stage.happens("started", "broker-1")
    stage.world.timeline.run(10.0)
    assert befallen == []
