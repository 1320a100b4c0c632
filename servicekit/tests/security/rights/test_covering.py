"""What may be given: never more than what is had, whatever the entries are."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules
from ariane_record.names import TRACE_TOPIC
from ariane_servicekit.security.rights.covering import covers
from ariane_servicekit.security.rights.explained import holds_from
from ariane_servicekit.security.rights.rights import Rights
from ariane_testkit.access_rules import entries_of, entry_of

NAMES = ("a", "ab", "abc", "b", TRACE_TOPIC)
ACTIONS = ("PUBLISH", "SUBSCRIBE", "GET", "DELETE")
ADDRESSES = ("10.0.0.1", "10.9.0.1", "2001:db8::1")
NETWORKS = ("", " from 10.0.0.0/8", " from 10.0.0.0/24", " from 2001:db8::/32", " from ::/0")

entries = st.builds(
    "{} {} topic {}{}".format,
    st.sampled_from(("allow", "allow", "deny")),
    st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=2, unique=True).map(",".join),
    st.sampled_from(("*", "a*", "ab*", "b*", "RMQ*", *NAMES)),
    st.sampled_from(NETWORKS),
)


@given(st.lists(entries, max_size=4), entries, st.sampled_from(ADDRESSES))
def test_a_given_entry_allows_no_more_than_its_giver_has(held, wanted, here):
    had = [entry for entry in map(entry_of, held) if holds_from(entry, here)]
    asked = entry_of(wanted)
    if not covers(had, asked):
        return
    asked.decision = rules.ACCESS_DECISION_ALLOW
    for action, name in product(ACTIONS, NAMES):
        use = access.Action.Value(f"ACTION_{action}"), access.RESOURCE_TOPIC, name
        for address in ADDRESSES:
            # An entry of the giver holds from its networks, of which one is where he calls from.
            there = Rights(entry for entry in had if holds_from(entry, address))
            given_there = Rights([asked] if holds_from(asked, address) else [])
            assert there.allows(*use) or not given_there.allows(*use), (held, wanted, address)


@pytest.mark.parametrize(
    ("held", "wanted", "is_covered"),
    [
        ("allow PUBLISH topic *", "allow PUBLISH topic orders", True),
        ("allow PUBLISH topic order-*", "allow PUBLISH topic order-1*", True),
        ("allow PUBLISH topic order-*", "allow PUBLISH topic *", False),
        ("allow PUBLISH topic order-*", "allow PUBLISH,SUBSCRIBE topic order-1", False),
        ("allow PUBLISH topic *", "allow GET topic orders", True),
        ("allow PUBLISH topic *; deny GET topic orders", "allow GET topic orders", False),
        ("allow PUBLISH topic *; deny PUBLISH topic o*", "allow PUBLISH topic orders", False),
        ("allow PUBLISH topic *; deny PUBLISH topic orders", "allow PUBLISH topic o*", False),
        ("allow PUBLISH topic *; deny PUBLISH topic bills", "allow PUBLISH topic o*", True),
        ("allow SUBSCRIBE topic *", f"allow SUBSCRIBE topic {TRACE_TOPIC}", False),
        ("allow GET cluster", "allow GET cluster", True),
        ("allow GET cluster", "allow UPDATE cluster", False),
        ("allow PUBLISH group *", "allow PUBLISH topic *", False),
        ("allow GET topic * from 10.0.0.0/8", "allow GET topic a from 10.1.0.0/16", True),
        ("allow GET topic * from 10.0.0.0/8", "allow GET topic a", False),
        ("", "allow GET topic a", False),
    ],
)
def test_what_is_covered(held, wanted, is_covered):
    assert covers(entries_of(held), entry_of(wanted)) is is_covered
