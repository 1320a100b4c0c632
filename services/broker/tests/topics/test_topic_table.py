import json

import pytest

from ariane_broker.topics.topic_table import Permission, TopicChange, TopicConfig, TopicTable
from ariane_servicekit import ServiceError

JAVA_DOCUMENT = {
    "dataVersion": {"counter": 9, "stateVersion": 2, "timestamp": 1_700_000_000_000},
    "topicConfigTable": {
        "orders": {
            "attributes": {"message.type": "FIFO", "+unknown": "kept"},
            "order": True,
            "perm": 4,
            "readQueueNums": 8,
            "topicFilterType": "MULTI_TAG",
            "topicName": "orders",
            "topicSysFlag": 3,
            "writeQueueNums": 0,
        },
    },
}


@pytest.fixture
def table():
    return TopicTable(now_ms=lambda: 1_000, default_queue_count=4)


def create(table, topic, **changes):
    config = table.created(topic, TopicChange(**changes))
    table.put(config)
    return config


def test_a_topic_is_invisible_until_it_is_put(table):
    config = table.created("orders", TopicChange())
    assert table.find("orders") is None
    assert "orders" in table.document_with(config)["topicConfigTable"]
    assert table.version == 0
    table.put(config)
    assert table.get("orders") == config
    assert table.version == config.version == 1


def test_write_queues_follow_read_queues_unless_named(table):
    config = create(table, "orders", read_queue_count=7)
    assert (config.read_queue_count, config.write_queue_count) == (7, 7)
    config = create(table, "bills", read_queue_count=7, write_queue_count=3)
    assert (config.read_queue_count, config.write_queue_count) == (7, 3)


def test_only_a_topic_that_is_not_written_may_have_no_write_queues(table):
    create(table, "orders")
    with pytest.raises(ServiceError, match="write_queue_count"):
        table.updated("orders", TopicChange(write_queue_count=0))
    change = TopicChange(write_queue_count=0, permission=Permission.READ)
    assert table.updated("orders", change).write_queue_count == 0


def test_an_empty_value_removes_an_attribute(table):
    create(table, "orders", attributes={"cleanup.policy": "DELETE"})
    changed = table.updated("orders", TopicChange(attributes={"cleanup.policy": ""}))
    assert changed.attributes == {}


def test_saved_state_is_loaded(table):
    create(table, "orders", read_queue_count=7)
    create(table, "bills", permission=Permission.WRITE)
    document = json.loads(json.dumps(table.document_with()))
    loaded = TopicTable(now_ms=lambda: 2_000, default_queue_count=1)
    loaded.load(document)
    assert loaded.all() == table.all()
    assert loaded.version > table.version - 1


def test_a_file_of_rocketmq_keeps_what_is_its_own(table):
    table.load(JAVA_DOCUMENT)
    (config,) = table.all()
    assert config.permission is Permission.READ
    assert (config.version, table.version) == (9, 9)
    (entry,) = table.document_with()["topicConfigTable"].values()
    before = JAVA_DOCUMENT["topicConfigTable"]["orders"]
    assert {name: entry[name] for name in before} == before


@pytest.mark.parametrize("entry", [{}, {"readQueueNums": "x", "writeQueueNums": 1, "perm": 6}, 7])
def test_another_shape_is_not_guessed_at(table, entry):
    with pytest.raises((KeyError, TypeError, ValueError)):
        table.load({"topicConfigTable": {"orders": entry}})


def test_versions_only_grow(table):
    versions = []
    create(table, "a")
    versions.append(table.version)
    create(table, "b")
    versions.append(table.version)
    table.remove("a")
    versions.append(table.version)
    assert versions == sorted(set(versions))


def test_inherited_permission_still_reads_and_writes():
    permission = Permission.READ_WRITE | Permission.INHERIT
    config = TopicConfig(
        topic="TBW102", read_queue_count=1, write_queue_count=1, permission=permission
    )
    assert config.readable
    assert config.writable
    assert config.system
