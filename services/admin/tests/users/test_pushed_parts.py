"""Rules that are told in parts."""

from __future__ import annotations

from ariane.common.v1 import access_rules_pb2 as rules
from ariane_admin.users import rules_publisher as publisher_module


def test_names_that_stay_out_are_told_in_parts(monkeypatch):
    monkeypatch.setattr(publisher_module, "PART_BYTES_MAX", 40)
    told = rules.AccessRules(version=7, disabled_users=[f"user-{n}" for n in range(20)])
    told.roles.add(role="ops")
    parts = list(publisher_module._parts_of(told))
    assert len(parts) > 3
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    gathered = rules.AccessRules()
    for part in parts:
        gathered.MergeFrom(part.part)
    assert gathered == told
