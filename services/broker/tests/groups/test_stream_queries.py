"""Which stream queries stored offsets of groups."""

import pytest

from ariane_broker.groups import stream_queries
from ariane_broker.groups.stream_queries import StreamQueries, StreamQuery, checked_engine
from ariane_servicekit.errors import ServiceError


def test_the_query_that_stored_last_is_remembered_for_a_day():
    now = [5]
    queries = StreamQueries(now_ms=lambda: now[0])
    queries.stored("copies", "Spark 4.3.0", "10.0.0.3:1")
    queries.stored("copies", "Spark 4.3.0", "10.0.0.4:1")
    now[0] += 86_400_000
    assert queries.find("copies") == StreamQuery("Spark 4.3.0", "10.0.0.4:1", 5)
    assert queries.find("others") is None
    now[0] += 1
    assert queries.find("copies") is None


def test_of_too_many_groups_the_longest_silent_one_is_forgotten(monkeypatch):
    monkeypatch.setattr(stream_queries, "QUERIES_MAX", 2)
    queries = StreamQueries(now_ms=lambda: 0)
    for group in ("a", "b", "a", "c"):
        queries.stored(group, "Spark", "10.0.0.3:1")
    assert [queries.find(group) is None for group in "abc"] == [False, True, False]


@pytest.mark.parametrize("engine", ["x" * 65, "Spark\n4", "\x1b[2J"])
def test_an_engine_that_no_terminal_may_show_is_refused(engine):
    with pytest.raises(ServiceError, match="stream_engine"):
        checked_engine(engine)
