"""What a client is told that attaches before the members of its group are back."""

import pytest

from ariane_broker.clients.members.returning_members import RETURN_S, ReturningMembers


class Times:
    now_s = 100.0

    def monotonic(self):
        return self.now_s


@pytest.fixture
def times():
    return Times()


def test_members_have_some_seconds_to_come_back_to_a_new_primary(times):
    members = ReturningMembers(
        {"known"}.__contains__, monotonic=times.monotonic, had_another_primary=True
    )
    times.now_s += 60  # Nobody could come back while it recovered.
    assert members.left_s(["new", "known"]) == RETURN_S
    assert members.left_s(["new"]) == 0.0
    times.now_s += 2
    assert members.left_s(["known"]) == RETURN_S - 2
    times.now_s += 3
    assert members.left_s(["known"]) == 0.0


def test_a_broker_of_no_set_waits_for_nobody(times):
    members = ReturningMembers(
        lambda _group: True, monotonic=times.monotonic, had_another_primary=False
    )
    assert members.left_s(["known"]) == 0.0
