import json

import pytest

from ariane_broker.groups.consumer_groups import (
    ATTEMPTS_MAX,
    ConflictPolicy,
    ConsumerGroups,
    ExponentialRetry,
    GroupChange,
    GroupConfig,
    TableRetry,
)
from ariane_servicekit import ServiceError

JAVA_ENTRY = {
    "attributes": {"own": "kept"},
    "brokerId": 3,
    "consumeBroadcastEnable": False,
    "consumeEnable": True,
    "consumeFromMinEnable": False,
    "consumeMessageOrderly": True,
    "consumeTimeoutMinute": 7,
    "groupName": "billing",
    "groupRetryPolicy": {
        "type": "EXPONENTIAL",
        "exponentialRetryPolicy": {"initial": 100, "max": 200, "multiplier": 3},
    },
    "groupSysFlag": 5,
    "notifyConsumerIdsChangedEnable": False,
    "retryMaxTimes": 4,
    "retryQueueNums": 2,
    "whichBrokerWhenConsumeSlowly": 9,
}


@pytest.fixture
def groups():
    return ConsumerGroups(now_ms=lambda: 1)


def test_a_file_of_rocketmq_keeps_what_is_its_own(groups):
    groups.load({"forbiddenTable": {"x": {}}, "subscriptionGroupTable": {"billing": JAVA_ENTRY}})
    config = groups.get("billing")
    assert config.retry_policy == ExponentialRetry(100, 200, 3)
    assert (config.attempts_max, config.broadcast_enabled) == (4, False)
    document = groups.document_with()
    assert document["forbiddenTable"] == {"x": {}}
    entry = document["subscriptionGroupTable"]["billing"]
    assert {name: entry[name] for name in JAVA_ENTRY} == JAVA_ENTRY


def test_an_update_keeps_what_is_not_its_own(groups):
    groups.load({"subscriptionGroupTable": {"billing": JAVA_ENTRY}})
    groups.put(groups.updated(GroupChange(consumer_group="billing", attempts_max=1)))
    entry = groups.document_with()["subscriptionGroupTable"]["billing"]
    changed = {"retryMaxTimes": 1}
    assert {name: entry[name] for name in JAVA_ENTRY} == {**JAVA_ENTRY, **changed}
    with pytest.raises(ServiceError, match="attempts_max"):
        groups.updated(GroupChange(consumer_group="billing", attempts_max=-1))


def test_saved_state_is_loaded(groups):
    config = GroupConfig(
        consumer_group="billing",
        conflict_policy=ConflictPolicy.FLAG,
        retry_policy=TableRetry((1, 2, 3)),
        consume_enabled=False,
    )
    groups.put(groups.created(config))
    loaded = ConsumerGroups(now_ms=lambda: 1)
    loaded.load(json.loads(json.dumps(groups.document_with())))
    found = loaded.get("billing")
    assert found.conflict_policy is ConflictPolicy.FLAG
    assert found.retry_policy == TableRetry((1, 2, 3))
    assert not found.consume_enabled
    assert found.version == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: GroupConfig(consumer_group="g", attempts_max=-1),
        lambda: GroupConfig(consumer_group="g", attempts_max=ATTEMPTS_MAX + 1),
        lambda: TableRetry((-1,)),
        lambda: TableRetry((1,) * 101),
        lambda: ExponentialRetry(initial_ms=0),
        lambda: ExponentialRetry(initial_ms=5, max_ms=4),
        lambda: ExponentialRetry(multiplier=0.5),
        lambda: ExponentialRetry(multiplier=float("nan")),
    ],
)
def test_senseless_settings_are_refused(make):
    with pytest.raises(ServiceError):
        make()


def test_a_group_is_created_once(groups):
    groups.put(groups.created(GroupConfig(consumer_group="billing")))
    with pytest.raises(ServiceError, match="already exists"):
        groups.created(GroupConfig(consumer_group="billing"))
    groups.remove("billing")
    with pytest.raises(ServiceError, match="not known"):
        groups.get("billing")


def test_the_limit_in_order_is_kept_in_the_file_where_there_is_one(groups):
    groups.load({"subscriptionGroupTable": {"billing": JAVA_ENTRY}})
    assert groups.get("billing").ordered_attempts_max == ATTEMPTS_MAX
    groups.put(groups.updated(GroupChange(consumer_group="billing", ordered_attempts_max=5000)))
    document = groups.document_with()
    groups.load(document)
    assert groups.get("billing").ordered_attempts_max == 5000
    none = GroupChange(consumer_group="billing", ordered_attempts_max=ATTEMPTS_MAX)
    groups.put(groups.updated(none))
    entry = groups.document_with()["subscriptionGroupTable"]["billing"]
    assert entry["attributes"] == JAVA_ENTRY["attributes"]
