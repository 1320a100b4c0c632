import pytest

from ariane_broker.clients.members.membership import ConsumeModel, Membership
from ariane_broker.clients.subscription import Subscription
from ariane_broker.filters.expression import FilterExpression


def membership(text="*", topic="orders", **fields):
    subscription = Subscription(topic, FilterExpression(text=text))
    return Membership(consumer_group="g", subscriptions=(subscription,), **fields)


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (membership("a"), "'orders'"),
        (membership(topic="bills"), "'bills'"),
        (membership(model=ConsumeModel.BROADCASTING), "broadcasting"),
        (membership(strategy="sticky"), "sticky"),
        (membership(ordered=True), "order"),
    ],
)
def test_members_that_differ(other, word):
    assert word in membership().difference(other)
    assert other.difference(membership())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (membership("a||b"), membership(" b || a ")),
        (membership(""), membership("*")),
        (membership(zone="here"), membership(zone="there")),
    ],
)
def test_members_that_agree(one, other):
    assert one.difference(other) == ""
