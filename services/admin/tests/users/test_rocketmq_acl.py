"""Users and rights of RocketMQ, as its files say them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.common.v1 import access_pb2 as access
from ariane_admin.compat.rocketmq_acl import imported
from ariane_admin.compat.rocketmq_keys import keys_of
from ariane_admin.errors import CommandFailed
from ariane_servicekit.security.rights.rights import Rights

PUBLISH, SUBSCRIBE = access.ACTION_PUBLISH, access.ACTION_SUBSCRIBE
TOPIC, GROUP = access.RESOURCE_TOPIC, access.RESOURCE_GROUP

PLAIN_ACL = """
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  - groupA=DENY
  - groupB=PUB|SUB
- accessKey: rocketmq2
  secretKey: 12345678
  whiteRemoteAddress: 192.168.1.*
  admin: true
- accessKey: open
  secretKey: 12345678
  defaultTopicPerm: PUB|SUB
  topicPerms:
  - topicA=PUB
"""


def test_accounts_of_acl_1():
    told = imported(PLAIN_ACL)
    plain, admin, opened = told.users
    assert [user.name for user in told.users] == ["RocketMQ", "rocketmq2", "open"]
    assert admin.is_super
    assert not plain.is_super
    rights = Rights(plain.entries)
    expected = {
        (PUBLISH, TOPIC, "topicA"): False,
        (PUBLISH, TOPIC, "topicB"): True,
        (SUBSCRIBE, TOPIC, "topicB"): True,
        (PUBLISH, TOPIC, "topicC"): False,
        (SUBSCRIBE, TOPIC, "topicC"): True,
        (SUBSCRIBE, TOPIC, "other"): False,
        (SUBSCRIBE, GROUP, "groupA"): False,
        (SUBSCRIBE, GROUP, "groupB"): True,
        (SUBSCRIBE, GROUP, "other"): True,
    }
    assert {asked: rights.allows(*asked) for asked in expected} == expected
    rights = Rights(opened.entries)
    assert rights.allows(PUBLISH, TOPIC, "topicA")
    assert not rights.allows(SUBSCRIBE, TOPIC, "topicA")
    assert rights.allows(SUBSCRIBE, TOPIC, "other")
    assert len(told.left_out) == 2
    assert "12345678" not in str(told)


TABLE = """\
#Subject        #PolicyType     #Resource       #Actions        #SourceIp       #Decision
User:alice      CUSTOM          Topic:test*     [PUB,SUB]       192.168.0.0/24  ALLOW
User:alice      CUSTOM          Topic:test1     PUB             null            DENY
User:alice      CUSTOM          Group:*         SUB             null            ALLOW
"""

SUBJECTS = json.dumps(
    [
        {
            "subject": "User:alice",
            "policies": [
                {
                    "policyType": "CUSTOM",
                    "entries": [
                        {
                            "resource": {
                                "resourceType": "TOPIC",
                                "resourceName": "test",
                                "resourcePattern": "PREFIXED",
                            },
                            "actions": ["PUB", "SUB"],
                            "environment": {"sourceIps": ["192.168.0.0/24"]},
                            "decision": "ALLOW",
                        },
                        {"resource": "Topic:test1", "actions": ["PUB"], "decision": "DENY"},
                        {"resource": "Group:*", "actions": ["SUB"], "decision": "ALLOW"},
                    ],
                }
            ],
        }
    ]
)


@pytest.mark.parametrize("text", [TABLE, SUBJECTS])
def test_lists_of_acl_2(text):
    told = imported(text)
    [user] = told.users
    assert user.name == "alice"
    assert list(user.entries[0].source_networks) == ["192.168.0.0/24"]
    rights = Rights(user.entries)
    assert rights.allows(SUBSCRIBE, TOPIC, "test1")
    assert not rights.allows(PUBLISH, TOPIC, "test1")
    assert rights.allows(PUBLISH, TOPIC, "test2")
    assert rights.allows(SUBSCRIBE, GROUP, "g")


def test_a_rule_without_counterpart_is_reported_and_grants_nothing():
    rows = ("User:a CUSTOM Namespace:n PUB null ALLOW", "Role:r CUSTOM Topic:t PUB - ALLOW")
    told = imported("\n".join(("#Subject", *rows)))
    assert told.users == []
    assert len(told.left_out) == 2


@given(st.text(max_size=200))
def test_other_files_are_refused(text):
    try:
        told = imported(text)
    except CommandFailed:
        return
    assert told.users == []


@pytest.mark.parametrize("read", [imported, keys_of])
def test_no_error_has_a_secret_of_the_file(read):
    with pytest.raises(CommandFailed, match="line") as caught:
        read("accounts:\n- accessKey: a\n  secretKey\n  more: hush: hush\n")
    assert "hush" not in str(caught.value)


def test_keys_are_read_from_accounts_and_from_lines():
    found = keys_of(PLAIN_ACL.replace("12345678", "007"))
    assert [tuple(key) for key in found] == [
        ("RocketMQ", "007"),
        ("rocketmq2", "007"),
        ("open", "007"),
    ]
    assert "007" not in repr(found)
    assert [tuple(key) for key in keys_of("# old\na:1\n\nb : 2:3 # x\n")] == [
        ("a", "1"),
        ("b", "2:3"),
    ]
    for wrong in ("a\n", "accounts:\n- accessKey: a\n", "a:1\na:2\n"):
        with pytest.raises(CommandFailed):
            keys_of(wrong)


def test_names_of_digits_stay_as_they_are_written():
    found = imported("accounts:\n- accessKey: 0123\n- accessKey: 1e3\n- accessKey: 2026-01-31\n")
    assert [user.name for user in found.users] == ["0123", "1e3", "2026-01-31"]


@pytest.mark.parametrize(
    ("text", "is_super"), [("true", True), ("false", False), ('"true"', True), ('"false"', False)]
)
def test_who_is_no_admin_in_quotes_is_none_either(text, is_super):
    [user] = imported(f"accounts:\n- accessKey: ops\n  admin: {text}\n").users
    assert user.is_super is is_super
