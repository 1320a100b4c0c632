import pytest

from ariane_sdk import Producer, errors
from ariane_sdk.routing.name_servers import parse_addresses


def test_without_addresses_the_environment_names_them(monkeypatch):
    monkeypatch.delenv("ARIANE_NAME_SERVERS", raising=False)
    with pytest.raises(errors.IllegalArgument, match="or set ARIANE_NAME_SERVERS"):
        Producer()
    monkeypatch.setenv("ARIANE_NAME_SERVERS", "a:1, b:2")
    assert parse_addresses(None) == ("a:1", "b:2")
    Producer()
