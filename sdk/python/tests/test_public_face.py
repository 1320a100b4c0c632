"""What stands before the applications: names that are the same everywhere."""

import ast
import inspect
from importlib.metadata import version

import pydantic
import pytest
import sqlalchemy.orm

import ariane_record
import ariane_record.public_names
import ariane_sdk
import ariane_sdk.public_names
import ariane_servicekit
import ariane_servicekit.public_names
from ariane_sdk import ProducerSettings, PullSettings, PushSettings, errors, sql, sync

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


@pytest.mark.parametrize(
    "package", [ariane_sdk, ariane_record, ariane_servicekit], ids=lambda each: each.__name__
)
def test_names_that_load_late_are_those_that_type_checkers_read(package):
    read = {
        alias.name: node.module
        for node in ast.walk(ast.parse(inspect.getsource(package)))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    assert read == package.public_names._NAMES.home_of
    assert dir(package) == sorted(package.__all__) == sorted(read)
    assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match=rf"'{package.__name__}' has no attribute 'Prodcer'"):
        _ = package.Prodcer


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


@pytest.mark.parametrize("settings", [ProducerSettings, PullSettings, PushSettings])
def test_settings_are_fields_of_pydantic_models(settings):
    model = pydantic.create_model("Configuration", client=(settings, settings()))
    assert model(client={"call_timeout_s": "7"}).client == settings(call_timeout_s=7.0)
    assert model.model_json_schema()["$defs"][settings.__name__]["properties"]
    with pytest.raises(pydantic.ValidationError, match="above 0 is expected"):
        model(client={"call_timeout_s": 0})


def test_the_package_says_its_version():
    assert ariane_sdk.__version__ == version("ariane-sdk")
