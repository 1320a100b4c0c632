"""Which queues a query reads."""

import pytest

from ariane_sdk import MessageQueue
from ariane_sdk.errors import RouteNotFound
from ariane_spark.errors import QueueNotFound
from ariane_spark.positions.queue_selection import AssignedQueues, NamedTopics, TopicPattern


@pytest.fixture
def three_topics(cluster):
    for topic in ("orders-eu", "orders-us", "refunds"):
        cluster.add(topic, "broker-a", 0, 3)
        cluster.add(topic, "broker-a", 1, 3)
    return cluster


def test_all_queues_of_named_topics(three_topics):
    found = NamedTopics(("refunds", "orders-eu")).bounds(three_topics)

    assert {queue.topic for queue in found} == {"refunds", "orders-eu"}
    assert len(found) == 4
    with pytest.raises(RouteNotFound):
        NamedTopics(("refunds", "returns")).bounds(three_topics)


def test_a_pattern_matches_whole_names(three_topics):
    def topics_of(pattern):
        return {queue.topic for queue in TopicPattern(pattern).bounds(three_topics)}

    assert topics_of("orders-.*") == {"orders-eu", "orders-us"}
    assert topics_of("orders") == set()
    assert TopicPattern("orders-.*").admits("orders-asia")
    assert not TopicPattern("orders-.*").admits("all-orders-eu")


def test_a_pattern_that_matches_nothing_is_refused_at_the_start_only(three_topics):
    pattern = TopicPattern("no-.*")

    assert pattern.bounds(three_topics) == {}
    with pytest.raises(QueueNotFound, match="no topic matches 'no-"):
        pattern.check_found({})


def test_a_topic_that_is_deleted_while_it_is_looked_at(three_topics):
    three_topics.topics = lambda: ["orders-eu", "orders-gone"]

    found = TopicPattern("orders-.*").bounds(three_topics)

    assert {queue.topic for queue in found} == {"orders-eu"}


def test_certain_queues(three_topics):
    queue = MessageQueue("orders-eu", "broker-a", 1)
    selection = AssignedQueues(frozenset({queue}))

    found = selection.bounds(three_topics)

    assert set(found) == {queue}
    selection.check_found(found)
    assert selection.admits("orders-eu")
    assert not selection.admits("refunds")
    with pytest.raises(QueueNotFound, match="orders-eu@broker-z#0, which no broker carries"):
        AssignedQueues(frozenset({MessageQueue("orders-eu", "broker-z", 0)})).check_found(found)
