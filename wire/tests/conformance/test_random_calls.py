from __future__ import annotations

import asyncio
import logging

import pytest
import uvloop
from call_plans import Plan, Quits, batches
from hypothesis import given, settings
from pairings import ORACLE, Pairings, differences, foretold, what_counts


@pytest.fixture(autouse=True)
def _handlers_may_raise(caplog):
    """grpcio logs each of them."""
    caplog.set_level(logging.CRITICAL)


def compare_to_the_oracle(
    pairs: list[tuple[str, str]], loop_factory=None, examples: int = 100
) -> None:
    """Play random calls between two ends of grpcio, and then between others.

    grpcio's loop is asyncio's, whatever the others run on: with uvloop it waits for ever at times.
    """
    with asyncio.Runner() as of_oracle, asyncio.Runner(loop_factory=loop_factory) as runner:
        oracle, pairings = Pairings(), Pairings()

        @settings(max_examples=examples)
        @given(batches())
        def compare(plans: list[Plan]) -> None:
            expected = of_oracle.run(oracle.play(*ORACLE, plans))
            for pair in pairs:
                seen = runner.run(pairings.play(*pair, plans))
                assert not differences(expected, seen), f"client and server: {pair}"

        try:
            compare()
        finally:
            runner.run(pairings.close())
            of_oracle.run(oracle.close())


@pytest.mark.parametrize("examples", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_every_pair_of_ends_sees_what_grpcio_sees(examples):
    """Random calls between grpcio and ourselves, each as client and as server."""
    pairs = [("grpcio", "wire"), ("wire", "grpcio"), ("wire", "wire")]
    compare_to_the_oracle(pairs, examples=examples)


@pytest.mark.slow
def test_callers_that_block_see_the_same():
    compare_to_the_oracle([("wire, blocking", "grpcio"), ("wire, blocking", "wire")])


@pytest.mark.slow
def test_both_ends_see_the_same_on_uvloop():
    pairs = [("wire", "wire"), ("wire, blocking", "wire")]
    compare_to_the_oracle(pairs, loop_factory=uvloop.new_event_loop)


@pytest.mark.slow
def test_blocking_callers_of_grpcio_see_the_same():
    compare_to_the_oracle([("grpcio, blocking", "grpcio"), ("grpcio, blocking", "wire")])


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
                    told = what_counts(plan, foretold(plan), None)
                    told = {name: told[name] for name in told if name.startswith("caller's")}
                    assert not differences([seen], [told])

        try:
            compare()
        finally:
            runner.run(pairings.close())
