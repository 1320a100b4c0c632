"""Decisions, compared with a model that says in 30 lines what docs/security.md says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_servicekit.security.rights.explained import decide
from ariane_servicekit.security.rights.rights import ANSWERS_MAX, Rights
from ariane_servicekit.security.rules.rule_book import RuleBook
from ariane_testkit.access_rules import entries_of, rules_of

PUBLISH, SUBSCRIBE = access.ACTION_PUBLISH, access.ACTION_SUBSCRIBE
GET, UPDATE = access.ACTION_GET, access.ACTION_UPDATE
TOPIC, GROUP = access.RESOURCE_TOPIC, access.RESOURCE_GROUP

NAMES = (
    *("a", "ab", "abc", "b", "", "%RETRY%a", "%RETRY%ab", "%DLQ%b", "RMQ_SYS_TRACE_TOPIC"),
    *("RMQ_SYS_TRANS_HALF_TOPIC", "c_REPLY_TOPIC", "TOOLS_CONSUMER", "CID_RMQ_SYS_X"),
)
ACTIONS = (PUBLISH, SUBSCRIBE, GET, UPDATE)

entries = st.builds(
    rules.AccessEntry,
    decision=st.sampled_from([rules.ACCESS_DECISION_ALLOW, rules.ACCESS_DECISION_DENY]),
    resource=st.sampled_from([TOPIC, GROUP]),
    pattern=st.sampled_from(
        [rules.NAME_PATTERN_ANY, rules.NAME_PATTERN_LITERAL, rules.NAME_PATTERN_PREFIX]
    ),
    name=st.sampled_from(NAMES),
    actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=2),
)


def model(stated, action, resource, name):
    """What is right, in words that one can check."""
    for prefix in ("%RETRY%", "%DLQ%"):
        if resource == TOPIC and name.startswith(prefix):
            action = UPDATE if action == PUBLISH else action
            return model(stated, action, GROUP, name.removeprefix(prefix))
    system = name.startswith(("RMQ_SYS_", "CID_RMQ_SYS_")) or name in {
        *("c_REPLY_TOPIC", "TOOLS_CONSUMER")
    }
    if resource == TOPIC:
        system = system and not name.startswith("CID_") and name != "TOOLS_CONSUMER"
    else:
        groups = ("CID_RMQ_SYS_", "%RETRY%", "%DLQ%")
        system = name.startswith(groups) or name == "TOOLS_CONSUMER"

    def fits(entry):
        if entry.resource != resource or action not in entry.actions:
            return False
        if entry.pattern == rules.NAME_PATTERN_LITERAL:
            return entry.name == name
        is_any = entry.pattern == rules.NAME_PATTERN_ANY
        return not system and (is_any or name.startswith(entry.name))

    fitting = {entry.decision for entry in stated if fits(entry)}
    if rules.ACCESS_DECISION_DENY in fitting:
        return False
    if rules.ACCESS_DECISION_ALLOW in fitting:
        return True
    if action == PUBLISH and resource == TOPIC and name in {"RMQ_SYS_TRACE_TOPIC", "c_REPLY_TOPIC"}:
        return True
    implying = (PUBLISH, SUBSCRIBE) if action == GET else ()
    return any(model(stated, each, resource, name) for each in implying)


@given(
    st.lists(entries, max_size=8),
    st.lists(
        st.tuples(
            st.sampled_from(ACTIONS), st.sampled_from([TOPIC, GROUP]), st.sampled_from(NAMES)
        ),
        max_size=20,
    ),
)
def test_decisions_are_those_of_the_model(stated, questions):
    rights = Rights(stated)
    for action, resource, name in questions * 2:  # The second time from memory.
        expected = model(stated, action, resource, name)
        assert rights.allows(action, resource, name) == expected
        decision = decide(stated, action, resource, name)
        assert decision.allowed == expected
        if decision.entry is not None:
            allowing = decision.entry.decision == rules.ACCESS_DECISION_ALLOW
            assert allowing == expected


def test_prefixes_end_where_they_end():
    rights = Rights(entries_of("allow PUBLISH topic order-*"))
    assert rights.allows(PUBLISH, TOPIC, "order-new")
    assert rights.allows(PUBLISH, TOPIC, "order-")
    assert not rights.allows(PUBLISH, TOPIC, "order")
    assert not rights.allows(PUBLISH, TOPIC, "Order-new")
    assert not rights.allows(SUBSCRIBE, TOPIC, "order-new")
    assert not rights.allows(PUBLISH, GROUP, "order-new")


def test_answers_that_are_remembered_are_bounded():
    rights = Rights(entries_of("allow PUBLISH topic t*"))
    for number in range(ANSWERS_MAX + 10):
        assert rights.allows(PUBLISH, TOPIC, f"t{number}")
    assert len(rights._answers) <= ANSWERS_MAX


def caller(name, peer="ipv4:10.1.2.3:4", groups=()):
    return Caller(CallerKind.USER, peer, name, groups=groups)


def allows(book, who, action, name):
    rights = book.rights_of(who)
    return rights is not None and rights.allows(action, TOPIC, name)


def test_roles_and_groups_of_a_provider_add_to_a_user():
    book = RuleBook(
        rules_of(
            1,
            "anna(billing): allow PUBLISH topic own",
            "role billing: allow PUBLISH topic bills; deny PUBLISH topic old",
            "role audit: allow SUBSCRIBE topic trail",
        )
    )
    assert allows(book, caller("anna"), PUBLISH, "own")
    assert allows(book, caller("anna"), PUBLISH, "bills")
    assert not allows(book, caller("anna"), PUBLISH, "old")
    assert not allows(book, caller("anna"), SUBSCRIBE, "trail")
    assert allows(book, caller("anna", groups=("audit",)), SUBSCRIBE, "trail")
    # Who is in a group that is a role need not be a user of his own.
    assert allows(book, caller("bert", groups=("audit",)), SUBSCRIBE, "trail")
    assert not allows(book, caller("bert", groups=("audit",)), PUBLISH, "bills")
    assert not allows(book, caller("bert", groups=("other",)), SUBSCRIBE, "trail")


def test_a_version_of_a_filter_is_the_filter():
    rights = Rights(
        entries_of("allow CREATE filter *; deny CREATE filter pay; allow GET filter mine")
    )
    digits = "0123456789ab"
    for name, action, allowed in (
        (f"pay@{digits}", access.ACTION_CREATE, False),
        (f"pays@{digits}", access.ACTION_CREATE, True),
        (f"mine@{digits}", access.ACTION_GET, True),
        (f"other@{digits}", access.ACTION_GET, False),
    ):
        assert rights.allows(action, access.RESOURCE_FILTER, name) is allowed, name


def test_a_disabled_user_has_no_roles_either():
    stated = rules_of(1, "role audit: allow SUBSCRIBE topic trail")
    stated.disabled_users.append("bert")
    book = RuleBook(stated)
    assert not allows(book, caller("bert", groups=("audit",)), SUBSCRIBE, "trail")
    assert allows(book, caller("carl", groups=("audit",)), SUBSCRIBE, "trail")


@pytest.mark.parametrize(
    ("peer", "allowed"),
    [
        ("ipv4:10.1.2.3:4", True),
        ("ipv6:[::ffff:10.1.2.3]:4", True),
        ("ipv4:10.9.2.3:4", False),
        ("ipv4:192.0.2.1:4", False),
        ("unix:", False),
    ],
)
def test_entries_hold_for_their_networks(peer, allowed):
    book = RuleBook(
        rules_of(
            1,
            "anna: allow PUBLISH topic * from 10.0.0.0/8; deny PUBLISH topic * from 10.9.0.0/16",
        )
    )
    for _ in range(2):
        assert allows(book, caller("anna", peer), PUBLISH, "t") == allowed


def test_super_users_may_do_everything_and_strangers_nothing():
    book = RuleBook(rules_of(1, "root: super"), frozenset({"first"}))
    for name, allowed in (("root", True), ("first", True), ("nobody", False)):
        assert allows(book, caller(name), UPDATE, "RMQ_SYS_TRANS_HALF_TOPIC") == allowed
        assert book.is_known(name) == allowed


def test_names_that_no_thing_has_are_not_remembered():
    rights = Rights(entries_of("allow PUBLISH topic *"))
    assert rights.allows(PUBLISH, TOPIC, "a" * 256)
    assert not rights.allows(SUBSCRIBE, TOPIC, "a" * 256)
    assert rights._answers == {}
    assert rights.allows(PUBLISH, TOPIC, "a" * 255)
    assert len(rights._answers) == 1
