"""A stream reader beside a cluster in memory, and its clock."""

import pytest

from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
from ariane_spark.records.columns import Projection, message_schema
from ariane_spark.source.stream_reader import ArianeStreamReader

PROJECTION = Projection.of(message_schema(["queueOffset"]))


@pytest.fixture
def growing(cluster):
    """Makes a queue that gets two messages before each answer about times or groups."""

    def make(*place_and_count):
        *place, _ = place_and_count
        queue = cluster.add(*place_and_count)

        def after_two(ask):
            def answer(*words):
                cluster.add(*place, 2)
                cluster.groups["live"] = {queue: len(cluster.queues[queue])}
                return ask(*words)

            return answer

        cluster.offsets_at = after_two(cluster.offsets_at)
        cluster.group_offsets = after_two(cluster.group_offsets)
        return queue

    return make


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def never(seconds):
    raise AssertionError("nothing is to be waited for")


@pytest.fixture
def reader_with(connect, clock):
    def make(sleep=never, **given):
        given = {"endpoints": "n:1", "topic": "orders", "offsetCacheMs": "0", **given}
        given = {name: value for name, value in given.items() if value is not None}
        options = read_options(given, Use.STREAM_READ)
        return ArianeStreamReader(options, PROJECTION, connect, clock, sleep)

    return make
