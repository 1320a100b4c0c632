import pytest

from ariane_sdk import Producer, errors
from ariane_sdk.routing.name_servers import parse_addresses


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("127.0.0.1:9876", ("127.0.0.1:9876",)),
        ("a:1, b:2 ;c:3,", ("a:1", "b:2", "c:3")),
        ("[::1]:9876", ("[::1]:9876",)),
    ],
)
def test_addresses(text, addresses):
    assert parse_addresses(text) == addresses


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        "localhost",
        ":9876",
        "a:b",
        "a:1,b",
        "ftp://a:1",
        "a b:1",
        "a:0",
        "a:65536",
        "a:\u0661",
    ],
)
def test_no_addresses(text):
    with pytest.raises(errors.IllegalArgument):
        parse_addresses(text)


def test_without_addresses_the_environment_names_them(monkeypatch):
    monkeypatch.delenv("ARIANE_NAME_SERVERS", raising=False)
    with pytest.raises(errors.IllegalArgument, match="or set ARIANE_NAME_SERVERS"):
        Producer()
    monkeypatch.setenv("ARIANE_NAME_SERVERS", "a:1, b:2")
    assert parse_addresses(None) == ("a:1", "b:2")
    Producer()
