"""Waits between tries double, and end at their bound."""

from ariane_sdk.net.backoff import Backoff, backoff_s


def test_waits_double_up_to_the_bound():
    backoff = Backoff(0.5, 3.0)
    assert [backoff.next_s() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_very_many_failures_wait_for_the_bound():
    assert backoff_s(10**9, 0.05, 1.0) == backoff_s(10**9, 0.05, 1.0, growth=1.25) == 1.0
