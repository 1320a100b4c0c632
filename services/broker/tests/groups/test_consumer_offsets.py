import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.queue_key import QueueKey
from ariane_servicekit import at_once

names = st.text("abc-_%", min_size=1, max_size=5)
tables = st.dictionaries(
    st.tuples(names, names, st.integers(0, 70_000)), st.integers(0, 2**63 - 1), max_size=20
)


@given(tables)
def test_saved_state_is_loaded(table):
    offsets = ConsumerOffsets(now_ms=lambda: 5)
    for (group, topic, queue_id), offset in table.items():
        offsets.put(group, QueueKey(topic, queue_id), offset)
    loaded = ConsumerOffsets(now_ms=lambda: 5)
    loaded.load(json.loads(json.dumps(offsets.document())))
    found = {
        (place.consumer_group, *place.queue): place.consumer_offset
        for group in loaded.groups()
        for place in loaded.of_group(group)
    }
    assert found == table


def test_parts_of_others_are_kept():
    offsets = ConsumerOffsets(now_ms=lambda: 5)
    foreign = {"pullOffsetTable": {"t@g": {"0": 1}}, "groupTopicMap": {"g": ["t"]}}
    offsets.load({"offsetTable": {"t@g": {"0": 7}}} | foreign)
    document = offsets.document()
    assert {name: document[name] for name in foreign} == foreign
    assert document["offsetTable"] == {"t@g": {"0": 7}}


@pytest.mark.parametrize(
    "document", [{}, {"offsetTable": {"no separator": {}}}, {"offsetTable": {"t@g": {"x": 1}}}]
)
def test_another_shape_is_not_read_as_empty(document):
    with pytest.raises((KeyError, ValueError)):
        ConsumerOffsets(now_ms=lambda: 5).load(document)


def test_topics_and_groups_are_forgotten_whole():
    offsets = ConsumerOffsets(now_ms=lambda: 5)
    for group in ("a", "b"):
        for topic in ("t", "u"):
            offsets.put(group, QueueKey(topic, 0), 1)
    assert at_once(offsets.remove_topics({"t"})) == [True, True]
    assert not at_once(offsets.remove_topics({"t"}))
    assert [place.queue.topic for place in offsets.of_group("a")] == ["u"]
    assert offsets.remove_group("a")
    assert offsets.groups() == ["b"]
    assert offsets.find("a", QueueKey("u", 0)) is None


def test_offsets_that_were_removed_count_as_reset_for_those_who_had_them():
    offsets = ConsumerOffsets(now_ms=lambda: 5)
    gone, stays = QueueKey("t", 0), QueueKey("u", 0)
    for queue in gone, stays:
        offsets.put("a", queue, 1)
    offsets.remove_topic_of("a", "t")
    again = ConsumerOffsets(now_ms=lambda: 5)
    again.load(offsets.document())
    for each in offsets, again:
        assert (each.find("a", gone), each.reset_epoch("a", gone)) == (None, 1)
        assert (each.find("a", stays), each.reset_epoch("a", stays)) == (1, 0)
    offsets.put("a", gone, 7)
    offsets.remove_topic_of("a", "t")
    assert offsets.reset_epoch("a", gone) == 2
    # With the topic or the group, nothing is left; another topic that goes changes nothing.
    again.remove_topic_of("a", "u")
    assert at_once(again.remove_topics({"t"})) == []
    assert again.document()["resetTable"] == {"u@a": {"0": 1}}
    again.put("a", gone, 1)
    assert at_once(again.remove_topics({"t"})) == [True]
    assert again.document()["resetTable"] == {"u@a": {"0": 1}}
    assert offsets.remove_group("a")
    assert "resetTable" not in offsets.document()


def test_a_removed_offset_counts_as_reset_in_a_save_during_which_the_group_begins_anew():
    offsets, queue = ConsumerOffsets(now_ms=lambda: 5), QueueKey("t", 0)
    for known in queue, QueueKey("u", 0):
        offsets.put("a", known, 1)
    offsets.remove_topic_of("a", "t")
    # The turns of a save: the first is for the only offset.
    saving = offsets.documented()
    assert next(saving) is None
    offsets.put("a", queue, 0)
    (document,) = at_once(saving)
    assert document["offsetTable"] == {"u@a": {"0": 1}}
    assert document["resetTable"] == {"t@a": {"0": 1}}
