"""What stands before the applications: names that are the same everywhere."""

import inspect

import pytest
import sqlalchemy.orm

import ariane_sdk
from ariane_sdk import errors, sql, sync

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


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__module__)
def test_every_client_takes_name_servers_as_text_or_as_a_list(client):
    for given in ("a:1,b:2", "a:1; b:2", ["a:1", "b:2"], ("a:1,", " b:2")):
        make_client(client, given)
    for given in (None, 9876, [], [9876], ["127.0.0.1"], {"a:1"}, b"a:1"):
        with pytest.raises(errors.IllegalArgument, match="name server"):
            make_client(client, given)


def make_client(client, name_servers):
    """A client that is not started, with what it needs besides name servers."""
    usual = {
        "group": "face",
        "subscriptions": {"orders": "*"},
        "listener": print,
        "outbox": sql.Outbox("face"),
        "sessions": sqlalchemy.orm.sessionmaker(),
    }
    asked = inspect.signature(client).parameters
    return client(
        name_servers=name_servers, **{name: usual[name] for name in usual if name in asked}
    )
