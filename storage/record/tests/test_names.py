import pytest

from ariane_record.errors import IllegalName
from ariane_record.names import (
    check_group_name,
    check_topic_name,
    dead_letter_topic,
    is_system_group,
    is_system_topic,
    retry_topic,
)


@pytest.mark.parametrize(
    "name",
    ["a", "TopicTest", "orders-2024_eu", "x" * 127, "-", "0", "shop%orders|eu", "%", "%retry%g"],
)
def test_user_topics(name):
    assert check_topic_name(name) == name
    assert not is_system_topic(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * 128,
        "a b",
        "a/b",
        "..",
        "a.b",
        "ü",
        "a\n",
        "a#b",
        "a+b",
        "a\x00",
    ],
)
def test_illegal_topics(name):
    with pytest.raises(IllegalName):
        check_topic_name(name)
    with pytest.raises(IllegalName):
        check_topic_name(name, system=True)


@pytest.mark.parametrize(
    "name",
    [
        "%RETRY%group",
        "%RETRY%group+topic",
        "%DLQ%group",
        "%LMQ%queue",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "rmq_sys_wheel_timer",
        "TBW102",
    ],
)
def test_system_topics_are_not_for_users(name):
    assert is_system_topic(name)
    assert check_topic_name(name, system=True) == name
    with pytest.raises(IllegalName, match="belongs to the system"):
        check_topic_name(name)


@pytest.mark.parametrize("name", ["%RETRY%../../etc", "%RETRY%a/b", "%DLQ%" + "g" * 251, "%DLQ%ü"])
def test_system_prefixes_open_no_door(name):
    with pytest.raises(IllegalName):
        check_topic_name(name, system=True)


def test_topics_of_a_group_are_legal_system_topics():
    group = "g" * 120

    assert check_topic_name(retry_topic(group), system=True) == "%RETRY%" + group
    assert check_topic_name(dead_letter_topic(group), system=True) == "%DLQ%" + group


def test_group_names():
    for name in ("g" * 120, "team|billing%old", "%retry%g"):
        assert check_group_name(name) == name
    for name in ("", "g" * 121, "a b", "a+b", "%RETRY%g", "%DLQ%g"):
        with pytest.raises(IllegalName):
            check_group_name(name)


def test_system_groups():
    assert is_system_group("CID_RMQ_SYS_TRANS")
    assert is_system_group("TOOLS_CONSUMER")
    assert check_group_name("CID_RMQ_SYS_TRANS", system=True) == "CID_RMQ_SYS_TRANS"
    with pytest.raises(IllegalName, match="belongs to the system"):
        check_group_name("CID_RMQ_SYS_TRANS")


def test_longer_groups_can_be_asked_about():
    assert check_group_name("g" * 255, system=True) == "g" * 255
    for name in ("", "g" * 256, "a b", "a\n"):
        with pytest.raises(IllegalName):
            check_group_name(name, system=True)
