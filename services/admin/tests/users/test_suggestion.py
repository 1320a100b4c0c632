"""What is suggested from what was used."""

from __future__ import annotations

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_service_pb2 as access_service_pb
from ariane_admin.users.suggestion import least_entries
from ariane_servicekit.security.rights.rights import Rights
from ariane_testkit.access_rules import entries_of


def test_a_suggestion_covers_what_was_used_and_no_more():
    def use(action, resource, name):
        return access_service_pb.AccessUse(action=action, resource=resource, name=name)

    topic, group = access.RESOURCE_TOPIC, access.RESOURCE_GROUP
    uses = [
        use(access.ACTION_PUBLISH, topic, "a"),
        use(access.ACTION_GET, topic, "a"),
        use(access.ACTION_GET, topic, "b"),
        use(access.ACTION_SUBSCRIBE, topic, "%RETRY%g"),
        use(access.ACTION_SUBSCRIBE, group, "g"),
        use(access.ACTION_PUBLISH, topic, "RMQ_SYS_TRACE_TOPIC"),
        use(access.ACTION_GET, access.RESOURCE_CLUSTER, ""),
    ]
    entries = least_entries(uses * 2)
    assert entries == entries_of(
        "allow GET cluster; allow PUBLISH topic a; allow GET topic b; allow SUBSCRIBE group g"
    )
    rights = Rights(entries)
    for each in uses:
        assert rights.allows(each.action, each.resource, each.name), each
