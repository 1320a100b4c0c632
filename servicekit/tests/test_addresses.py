from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_servicekit import Address

HOSTS = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
    st.from_regex(r"[a-z][a-z0-9-]{0,20}(\.[a-z]{2,5})?", fullmatch=True),
)


@given(HOSTS, st.integers(0, 65_535))
def test_spelling_and_reading_agree(host, port):
    address = Address(host, port)
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "host", "host:", ":1", "::1:1", "[]:1", "[::1]", "host:1:2"),
        *("host:x", "host:-1", "host:65536", "host:²", "a b:1", "a/b:1", "http://host:1"),
    ],
)
def test_an_invalid_address_is_reported(text):
    with pytest.raises(ValueError, match=r"address|brackets|port|host"):
        Address.parse(text)


def test_loopback_and_wildcard():
    assert Address.parse("[::]:1").is_wildcard
    assert Address.parse("0.0.0.0:1").is_wildcard
    assert not Address.parse("host:1").is_wildcard
    assert not Address.parse("0.0.0.0:1").is_loopback
    assert Address.parse("localhost:1").is_loopback
