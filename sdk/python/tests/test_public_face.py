"""What stands before the applications: names that are the same everywhere."""

import pytest

import ariane_sdk
from ariane_sdk import sql, sync

MODULES = (ariane_sdk, sync, sql)

CLIENTS = sorted(
    {
        named
        for module in MODULES
        for name in module.__all__
        if isinstance(named := getattr(module, name), type) and hasattr(named, "start")
    },
    key=lambda named: (named.__module__, named.__name__),
)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: f"{client.__module__}")
def test_whatever_is_started_is_closed_by_close(client):
    assert callable(client.close)
    assert not [name for name in ("stop", "aclose", "shutdown") if hasattr(client, name)]
