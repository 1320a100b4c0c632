"""``ariane top`` against a real cluster."""

import json
import threading

from ariane_sdk.sync import Message, Producer


def test_rates_of_sending_and_consuming_are_shown(cluster, ariane):
    ariane("topic", "create", "top-orders", "--queues", "1", "--broker", "broker-a")
    with Producer(cluster.name_servers) as producer:
        producer.send(Message("top-orders", b"before"))
        ariane(
            "consume", "top-orders", "--group", "top-group", "--from", "earliest", "--count", "1"
        )
        ended = threading.Event()

        def send():
            while not ended.is_set():
                producer.send(Message("top-orders", b"x"))

        sender = threading.Thread(target=send)
        sender.start()
        try:
            said = ariane("top", "--interval", "0.2", "--count", "2", "--rows", "500", "-o", "json")
        finally:
            ended.set()
            sender.join()
    looks = [json.loads(line) for line in said.splitlines()]
    assert len(looks) == 2
    for look in looks:
        [topic] = [each for each in look["topics"] if each["topic"] == "top-orders"]
        [group] = [each for each in look["groups"] if each["group"] == "top-group"]
        assert topic["sent_per_s"] > 0
        assert (group["topic"], group["consumed_per_s"]) == ("top-orders", 0)
        assert group["lag"] > 0
    table = ariane("top", "--interval", "0.1", "--count", "1")
    assert "sent_per_s" in table.replace(" ", "_").lower()
