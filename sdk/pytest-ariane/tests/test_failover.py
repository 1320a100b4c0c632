"""A broker with a replica dies and fails over, and an application goes on."""

import pytest

from ariane_sdk.sync import Message, Producer, ProducerSettings, QueueReader

PATIENT = ProducerSettings(send_timeout_s=60)


def bodies(name_servers, topic):
    with QueueReader(name_servers) as reader:
        return sorted(
            bytes(message.body)
            for queue, (begin, end) in reader.bounds(topic).items()
            for columns in reader.read_range(queue, begin, end)
            for message in columns.iter_messages()
        )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_acknowledged_messages_survive_a_killed_and_a_paused_primary(ariane_failover):
    ariane_failover.create_topic("survivors", queue_count=1)
    first = ariane_failover.primary_address
    with Producer(ariane_failover.name_servers, settings=PATIENT) as producer:
        producer.send(Message("survivors", b"1"))
        assert ariane_failover.failover() > 0
        assert ariane_failover.primary_address != first
        producer.send(Message("survivors", b"2"))
        ariane_failover.heal()
        ariane_failover.pause_primary()
        producer.send(Message("survivors", b"3"))
        ariane_failover.heal()
        ariane_failover.kill_primary()
        producer.send(Message("survivors", b"4"))
    assert bodies(ariane_failover.name_servers, "survivors") == [b"1", b"2", b"3", b"4"]
