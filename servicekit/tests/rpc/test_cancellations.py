"""Calls that are taken back in bulk are told, once for each magnitude and window."""

import pytest
import structlog

from ariane_servicekit.rpc.cancellations import CONNECTIONS_MAX, WINDOW_S, Cancellations


@pytest.fixture
def now():
    return [100.0]


@pytest.fixture
def cancellations(now):
    return Cancellations(lambda: now[0])


def test_few_are_nothing_to_speak_of(cancellations, now):
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            for _ in range(999):
                cancellations.add("a", "/m")
            now[0] += WINDOW_S
    assert lines == []
    assert cancellations.count == 5 * 999


def test_many_of_one_connection_are_told_with_their_number(cancellations, now):
    with structlog.testing.capture_logs() as lines:
        for _ in range(20_000):
            cancellations.add("a", "/m")
        cancellations.add("b", "/m")
    assert [(line["peer"], line["cancelled_count"]) for line in lines] == [
        ("a", 1_000),
        ("a", 10_000),
    ]
    assert {line["log_level"] for line in lines} == {"warning"}


def test_very_many_connections_take_no_memory_without_end(cancellations):
    for number in range(CONNECTIONS_MAX + 10):
        cancellations.add(str(number), "/m")
    assert len(cancellations._of_connection) <= CONNECTIONS_MAX
