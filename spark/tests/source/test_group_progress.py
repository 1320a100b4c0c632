"""The progress of a stream as the offsets of a group."""

from ariane_sdk import MessageQueue
from ariane_spark.source.group_progress import REPEAT_S, GroupProgress

QUEUE = MessageQueue("orders", "broker-a", 0)


def test_an_idle_stream_stores_its_progress_now_and_then(cluster):
    now_s = [100.0]
    progress = GroupProgress("spark", lambda: now_s[0])
    progress.store({QUEUE: 3}, cluster)
    assert cluster.groups == {"spark": {QUEUE: 3}}

    cluster.groups.clear()  # As a broker that starts again forgets which group is a stream's.
    now_s[0] += REPEAT_S - 1
    progress.store({QUEUE: 3}, cluster)
    assert cluster.groups == {}
    now_s[0] += 1
    progress.store({QUEUE: 3}, cluster)
    assert cluster.groups == {"spark": {QUEUE: 3}}
