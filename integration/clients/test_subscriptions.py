"""Two members of a group want different messages: the second is refused, and none is lost."""

from __future__ import annotations

import base64

import pytest
from languages import COMMANDS, Refused, Worker, build, missing

from ariane_sdk import Message
from ariane_sdk.sync import ClusterClient, Producer
from ariane_servicekit.running.processes import LocalCluster

TOPIC = "orders"
COUNT = 40

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_member_that_wants_other_messages_is_refused(tmp_path):
    here = [each for each in COMMANDS if each != "python" and not missing(each)]
    if not here:
        pytest.skip("no other language is on this machine")
    for language in here:
        build(language)
    with LocalCluster(tmp_path) as cluster:
        name_servers = cluster.name_servers.split(",")
        with ClusterClient(name_servers) as client:
            client.create_topic(TOPIC, queue_count=2)
        with Producer(name_servers) as producer:
            for number in range(COUNT):
                tag = "a" if number % 2 else "b"
                producer.send(Message(TOPIC, b"%d" % number, tag=tag))
        for language in here:
            with Worker(language) as one, Worker(language) as other:
                wanted = {"topic": TOPIC, "group": language, "wait_ms": 30_000}
                for worker in (one, other):
                    worker.ask("connect", name_servers=name_servers)
                found: list[int] = []
                while len(found) < COUNT // 2:
                    batch = one.ask("receive", tags="a", **wanted)
                    assert batch, (language, found)
                    one.ask("ack", numbers=[each["number"] for each in batch])
                    found += [int(base64.b64decode(each["body"])) for each in batch]
                    with pytest.raises(Refused, match="subscri") as refused:
                        other.ask("receive", tags="b", **wanted)
                    assert refused.value.reason == "SUBSCRIPTION_CONFLICT", language
                assert sorted(found) == list(range(1, COUNT, 2)), language
