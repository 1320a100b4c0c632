from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from pydantic import Field, SecretStr, ValidationError

from ariane_servicekit import (
    CHANGEABLE,
    Address,
    AddressList,
    CommaSeparated,
    ListenAddress,
    NameServerList,
    ServiceSettings,
    SettingsError,
    load_settings,
    settings_reference,
)
from ariane_servicekit.configuration.live_settings import LiveSettings


class FlushMode(Enum):
    ASYNC = "async"
    SYNC = "sync"


class ShopSettings(ServiceSettings):
    """A shop."""

    service_name: ClassVar[str] = "shop-front"

    store_path: Path = Field(description="Where things lie.")
    name_servers: AddressList = Field((), description="Whom to ask.")
    words: CommaSeparated = Field(("a", "b"), description="Some words.")
    flush_mode: FlushMode = Field(FlushMode.ASYNC, description="How safe.")
    color: Literal["red", "blue"] = Field("red", description="Which one.")
    size: int = Field(3, ge=1, description="Pieces.", json_schema_extra=CHANGEABLE)
    peer: ListenAddress | None = Field(None, description="Somebody.")
    level: Literal[0] = Field(0, description="The only one.")
    key: SecretStr = Field(SecretStr(""), description="Opens the shop.")


PATH = ["--store-path", "/s"]


def load(*flags, environ=None, **_):
    return load_settings(ShopSettings, [*PATH, *flags], environ or {})


def refused(*flags, environ=None) -> str:
    with pytest.raises(SettingsError) as caught:
        load(*flags, environ=environ)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_flags_win_over_environment_over_file_over_defaults(tmp_path):
    config = tmp_path / "shop.toml"
    config.write_text('size = 10\ncolor = "blue"\nwords = ["x"]\nlisten = "127.0.0.1:1"\n')
    environ = {"ARIANE_SHOP_FRONT_SIZE": "20", "ARIANE_SHOP_FRONT_LISTEN": "127.0.0.1:2"}
    settings = load("--config", str(config), "--listen", "127.0.0.1:3", environ=environ)
    assert settings.listen == Address("127.0.0.1", 3)
    assert settings.size == 20
    assert settings.color == "blue"
    assert settings.words == ("x",)
    assert settings.flush_mode is FlushMode.ASYNC


def test_the_environment_may_name_the_file(tmp_path):
    config = tmp_path / "shop.toml"
    config.write_text("size = 10\n")
    assert load(environ={"ARIANE_SHOP_FRONT_CONFIG": str(config)}).size == 10


def test_kinds_of_values_are_read_from_text():
    settings = load(
        *("--name-servers", "127.0.0.1:1, [::1]:2"),
        *("--words", " one,two ,"),
        *("--flush-mode", "sync"),
        "--insecure",
        "--no-reflection",
    )
    assert settings.name_servers == (Address("127.0.0.1", 1), Address("::1", 2))
    assert settings.words == ("one", "two")
    assert settings.flush_mode is FlushMode.SYNC
    assert settings.insecure
    assert not settings.reflection_on
    assert load(environ={"ARIANE_SHOP_FRONT_INSECURE": "true"}).insecure


def test_name_servers_are_addresses_or_sources_of_them():
    class Asking(ServiceSettings):
        service_name = "asking"
        name_servers: NameServerList = Field((), description="Whom to ask.")

    sources = ("127.0.0.1:1", "dns:names.example:9876", "file:/etc/names", "http://names/list")
    assert Asking(name_servers=",".join(sources)).name_servers == sources
    for wrong in ("names", "ftp://names:1", "dns", "127.0.0.1"):
        with pytest.raises(ValidationError, match="dns:HOST:PORT, file:PATH or URL"):
            Asking(name_servers=wrong)


def test_settings_are_frozen():
    with pytest.raises(ValidationError):
        load().size = 4


def test_a_direct_instance_reads_no_environment(monkeypatch):
    monkeypatch.setenv("ARIANE_SHOP_FRONT_SIZE", "77")
    assert ShopSettings(store_path="/s").size == 3


@pytest.mark.parametrize(
    ("flags", "environ", "text"),
    [
        (["--sise", "4"], {}, "unknown flag --sise; did you mean --size?"),
        (["--nope", "4"], {}, "unknown flag --nope; --help lists all"),
        (["--sise=4"], {}, "unknown flag --sise; did you mean --size?"),
        (["--qqqq"], {}, "unknown flag --qqqq; --help lists all"),
        (["stray"], {}, "unknown flag stray; --help lists all"),
        (["--size"], {}, "argument --size: expected one argument"),
        (["--siz", "4"], {}, "unknown flag --siz; did you mean --size?"),
        (["--size", "0"], {}, "--size: input should be greater than or equal to 1 (given: '0')"),
        (
            [],
            {"ARIANE_SHOP_FRONT_SISE": "4"},
            (
                "unknown environment variable ARIANE_SHOP_FRONT_SISE; "
                "did you mean ARIANE_SHOP_FRONT_SIZE?"
            ),
        ),
        (
            [],
            {"ARIANE_SHOP_FRONT_SIZE": "x"},
            (
                "ARIANE_SHOP_FRONT_SIZE: input should be a valid integer, "
                "unable to parse string as an integer (given: 'x')"
            ),
        ),
        (
            ["--listen", "nowhere"],
            {},
            (
                "--listen: 'nowhere' is no address: expected host:port, as in 127.0.0.1:9876 "
                "(given: 'nowhere')"
            ),
        ),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_its_source(flags, environ, text):
    assert refused(*flags, environ=environ) == text


def test_a_missing_setting_is_named_by_its_flag():
    with pytest.raises(SettingsError, match=r"^--store-path is required$"):
        load_settings(ShopSettings, [], {})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("sise = 4\n", "unknown key sise; did you mean size?"),
        ("size = 0\n", "size in {path}: input should be greater than or equal to 1 (given: 0)"),
        ("size = \n", "Invalid value (at line 1, column 8)"),
        ("[shop]\nsize = 1\n", "unknown key shop; "),
        (f"size = {'[' * 10_000}", "recursion"),
    ],
)
def test_a_wrong_setting_in_a_file_names_the_file(tmp_path, content, text):
    config = tmp_path / "shop.toml"
    config.write_text(content)
    line = refused("--config", str(config))
    assert str(config) in line
    assert text.format(path=config) in line


def test_a_missing_file_is_one_line(tmp_path):
    missing = tmp_path / "none.toml"
    assert refused("--config", str(missing)) == f"--config {missing}: No such file or directory"


def test_variables_of_kubernetes_and_of_other_services_are_left_alone():
    environ = {
        "ARIANE_SHOP_FRONT_SERVICE_HOST": "10.0.0.1",
        "ARIANE_SHOP_FRONT_SERVICE_PORT_GRPC": "9876",
        "ARIANE_SHOP_FRONT_PORT": "tcp://10.0.0.1:9876",
        "ARIANE_SHOP_FRONT_PORT_9876_TCP_ADDR": "10.0.0.1",
        "ARIANE_BROKER_ANYTHING": "1",
    }
    assert load(environ=environ).size == 3


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "example.org:1"])
def test_beyond_loopback_needs_insecure(listen):
    assert "is reachable from other machines" in refused("--listen", listen)
    assert not load("--listen", listen, "--insecure").reflection_on


def test_a_closed_service_serves_no_reflection_unless_it_is_told_to():
    assert load().reflection_on
    assert not load("--access", "closed").reflection_on
    assert load("--access", "closed", "--reflection").reflection_on


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"])
def test_loopback_is_free_and_reflects(listen):
    assert load("--listen", listen).reflection_on


def test_shown_settings_are_plain_and_hide_secrets():
    shown = load("--key", "hunter2").shown()
    assert shown["listen"] == "127.0.0.1:0"
    assert shown["store_path"] == "/s"
    assert "hunter2" not in str(shown)


def test_help_lists_every_setting_with_its_default(capsys):
    with pytest.raises(SystemExit) as caught:
        load("--help")
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for row in settings_reference(ShopSettings):
        assert row.flag in text
        assert row.description in text
    assert "Where things lie. Required." in text
    assert "Which one. Default: red." in text
    assert "Some words. Default: a,b." in text
    assert "python -m ariane_shop_front --listen 127.0.0.1:0" in text


def test_the_reference_describes_all_settings():
    rows = {row.name: row for row in settings_reference(ShopSettings)}
    assert list(rows)[:2] == ["store_path", "name_servers"]
    assert set(rows) == set(ShopSettings.model_fields)
    assert rows["store_path"].required
    assert rows["store_path"].environment == "ARIANE_SHOP_FRONT_STORE_PATH"
    assert rows["size"].changeable
    assert not rows["color"].changeable
    assert rows["flush_mode"].type == "async|sync"
    assert rows["flush_mode"].default == "async"
    assert rows["name_servers"].type == "HOST:PORT,..."
    assert rows["proxy_networks"].type == "NETWORK,..."
    assert rows["ready_file"].type == "PATH"
    assert rows["peer"].type == "HOST:PORT"
    assert rows["peer"].default == ""
    assert rows["level"].type == "0"
    assert rows["log_format"].type == "json|text"
    assert rows["reflection"].type == "bool"
    assert rows["key"].default in {"", "**********"}


def test_a_setting_without_description_is_a_mistake():
    class BareSettings(ServiceSettings):
        bare: int = 1

    with pytest.raises(ValueError, match=r"BareSettings\.bare has no description"):
        settings_reference(BareSettings)


def test_lists_of_addresses_are_shown_as_they_are_written():
    class Settings(ServiceSettings):
        """A service that has peers."""

        peers: AddressList = Field((), description="Others.")

    settings = load_settings(Settings, ["--peers", "a:1,b:2"], {})
    assert settings.shown()["peers"] == ["a:1", "b:2"]
    live = LiveSettings(settings, {"access": print, "concurrent_calls_max": print})
    assert live.get("peers").value == "a:1,b:2"
