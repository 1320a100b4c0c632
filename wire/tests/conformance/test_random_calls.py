from __future__ import annotations

import asyncio
import logging

import pytest
from call_plans import Plan, Quits, batches
from hypothesis import given
from pairings import ORACLE, Pairings, differences, foretold, what_counts


@pytest.fixture(autouse=True)
def _handlers_may_raise(caplog):
    """grpcio logs each of them."""
    caplog.set_level(logging.CRITICAL)


def test_every_pair_of_ends_sees_what_grpcio_sees(loop_factory):
    """Random calls between grpcio and ourselves, each as client and as server."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        pairings = Pairings()

        @given(batches())
        def compare(plans: list[Plan]) -> None:
            expected = runner.run(pairings.play(*ORACLE, plans))
            for pair in pairings.names:
                if pair != ORACLE:
                    seen = runner.run(pairings.play(*pair, plans))
                    assert not differences(expected, seen), f"client and server: {pair}"

        try:
            compare()
        finally:
            runner.run(pairings.close())


@pytest.mark.slow
def test_grpcio_sees_the_same_twice():
    """What plans leave to chance would fail here: the comparison itself is sound."""
    with asyncio.Runner() as runner:
        pairings = Pairings()

        @given(batches())
        def compare(plans: list[Plan]) -> None:
            first = runner.run(pairings.play(*ORACLE, plans))
            assert not differences(first, runner.run(pairings.play(*ORACLE, plans)))
            for plan, seen in zip(plans, first, strict=True):
                if plan.quits is Quits.NEVER and not plan.oversteps:
                    told = {name: seen[name] for name in seen if name.startswith("caller's")}
                    assert not differences([told], [what_counts(plan, foretold(plan), None)])

        try:
            compare()
        finally:
            runner.run(pairings.close())
