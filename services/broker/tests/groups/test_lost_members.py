from ariane_broker.groups import group_changes
from ariane_broker.groups.group_changes import LostMembers


def test_only_what_was_deleted_while_a_member_was_lost_was_missed():
    members = LostMembers()
    members.note_deleted("early")
    members.note_lost("a", "one")
    members.note_deleted("group")
    members.note_lost("b", "one")
    missed = members.has_missed_deletion
    assert [missed("a", each) for each in ("early", "group", "other")] == [False, True, False]
    assert not missed("b", "group")
    assert not missed("", "group")
    members.note_started("a", "one")
    assert missed("a", "group")
    members.note_started("a", "two")
    assert not missed("a", "group")


def test_not_all_that_were_ever_lost_are_remembered(monkeypatch):
    monkeypatch.setattr(group_changes, "LOST_KEPT_MAX", 2)
    members = LostMembers()
    for client_id in "abca":
        members.note_lost(client_id, "")
    for group in ("one", "two", "three"):
        members.note_deleted(group)
    known = [client_id for client_id in "abc" if members.has_missed_deletion(client_id, "three")]
    assert known == ["a", "c"]
    assert not members.has_missed_deletion("c", "one")
