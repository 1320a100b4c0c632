"""Rates from two looks at offsets."""

from ariane_admin.asking.traffic import Look, traffic_between
from ariane_sdk import MessageQueue

FIRST, SECOND = (MessageQueue("orders", "broker-a", number) for number in (0, 1))
NEW = MessageQueue("news", "broker-a", 0)


def test_rates_are_sums_over_queues_and_nothing_is_guessed():
    before = Look(10.0, {FIRST: 100, SECOND: 7}, {("billing", FIRST): 90, ("billing", SECOND): 7})
    after = Look(
        12.0,
        {FIRST: 130, SECOND: 17, NEW: 1_000_000},
        {("billing", FIRST): 94, ("billing", SECOND): 17, ("late", FIRST): 5},
    )
    traffic = traffic_between(before, after)
    assert traffic.seconds == 2.0
    assert traffic.sent == {"orders": 20.0}
    assert traffic.consumed == {("billing", "orders"): 7.0}


def test_offsets_that_went_back_count_as_no_progress():
    before = Look(0.0, {FIRST: 100, SECOND: 1}, {("billing", FIRST): 90})
    after = Look(1.0, {FIRST: 0, SECOND: 3}, {("billing", FIRST): 0})
    traffic = traffic_between(before, after)
    assert (traffic.sent, traffic.consumed) == ({"orders": 2.0}, {("billing", "orders"): 0.0})
