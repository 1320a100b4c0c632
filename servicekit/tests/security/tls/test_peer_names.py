"""URIs in certificates, and whom they name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_servicekit.security.caller import MemberKind
from ariane_servicekit.security.tls.member_names import MemberName, user_uri
from ariane_servicekit.security.tls.service_tls import user_rule


@pytest.mark.parametrize(
    ("pattern", "uri", "user"),
    [
        ("", "ariane://main/user/anna", "anna"),
        ("", "ariane://other/user/anna", ""),
        ("", "ariane://main/user/anna/more", ""),
        ("", "ariane://main/user/an.na", ""),
        ("", "ariane://main/user/", ""),
        ("", "ariane://main/broker/anna", ""),
        ("", "xariane://main/user/anna", ""),
        ("", "ariane://main/user/anna\n", ""),
        ("spiffe://corp/ns/*/sa/{user}", "spiffe://corp/ns/shop/sa/orders", "orders"),
        ("spiffe://corp/ns/*/sa/{user}", "spiffe://corp/ns/a/b/sa/orders", ""),
        ("spiffe://corp.x/{user}", "spiffe://corpyx/orders", ""),
        ("mailto:{user}@corp", "mailto:anna@corp", "anna"),
    ],
)
def test_a_rule_says_whom_a_uri_names(pattern, uri, user):
    assert user_rule(pattern, "main")(uri) == user


@given(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
    st.sampled_from(MemberKind),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
)
def test_a_name_is_read_as_it_was_written(cluster, kind, name):
    written = MemberName(cluster, kind, name)
    assert MemberName.parse(str(written)) == written
    assert user_rule("", cluster)(str(written)) == ""


@given(st.text(max_size=60) | st.from_regex(r"ariane://[\x00-\x7f]{0,40}"))
def test_any_text_names_one_member_or_none(text):
    name = MemberName.parse(text)
    assert name is None or str(name) == text
    assert MemberName.parse(user_uri("main", text)) is None
