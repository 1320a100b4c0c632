"""Faults come from their seed, and every kind comes."""

from collections import Counter

from partition_soak.faults import FaultKind, schedule
from partition_soak.group import cuts_of

SHAPE = {"length_s": 8.0, "lease_s": 2.0, "brokers": 3}


def test_a_seed_is_a_schedule():
    one = schedule(7, kinds=list(FaultKind), **SHAPE)
    assert one == schedule(7, kinds=list(reversed(FaultKind)), **SHAPE)
    assert one != schedule(8, kinds=list(FaultKind), **SHAPE)


def test_every_kind_comes_and_some_overlap():
    kinds, overlaps = Counter(), 0
    for seed in range(100):
        faults = schedule(seed, kinds=list(FaultKind), **SHAPE)
        kinds.update(fault.kind for fault in faults)
        ends = [fault.begin_s + fault.duration_s for fault in faults]
        overlaps += sum(b.begin_s < end for b, end in zip(faults[1:], ends, strict=False))
        assert faults
    assert set(kinds) == set(FaultKind)
    assert overlaps > 50


def test_cuts_are_of_the_kind():
    cuts = {
        kind: cuts_of(kind, "b0", ["b1", "b2"], 1) for kind in FaultKind if not kind.is_of_process
    }
    assert cuts[FaultKind.FROM_PEERS] == [("b0", "b1"), ("b0", "b2"), ("b1", "b0"), ("b2", "b0")]
    assert cuts[FaultKind.FROM_ONE_PEER] == [("b0", "b2"), ("b2", "b0")]
    assert cuts[FaultKind.MUTE_TO_PEERS] == [("b0", "b1"), ("b0", "b2")]
    assert cuts[FaultKind.DEAF_TO_DATABASE] == [("database", "b0")]
    assert len(set(cuts[FaultKind.ISOLATED])) == 10
