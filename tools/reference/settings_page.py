"""``docs/configuration.md``: every setting of every process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pydantic import BeforeValidator, PlainSerializer
from pydantic.fields import FieldInfo

from ariane_admin.service.settings import AdminSettings
from ariane_broker.settings import BrokerSettings
from ariane_filter.settings import FilterSettings
from ariane_gateway.settings import GatewaySettings
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import ProducerSettings, PullSettings, PushSettings
from ariane_servicekit.configuration.settings import ServiceSettings
from ariane_servicekit.configuration.settings_sources import (
    SettingRow,
    load_settings,
    settings_reference,
)
from ariane_servicekit.errors import SettingsError
from ariane_txn_checker import CheckerSettings
from tools.reference.client_settings import client_settings_table
from tools.reference.markdown import block, code, made_from, page, table

Settings = type[ServiceSettings]

SERVICES: Final[tuple[tuple[str, Settings], ...]] = (
    ("Name server", NamesrvSettings),
    ("Broker", BrokerSettings),
    ("Transaction checker", CheckerSettings),
    ("Admin", AdminSettings),
    ("FilterServer", FilterSettings),
    ("Gateway", GatewaySettings),
)
"""Heading and settings class of each process."""

CONTRADICTIONS: Final[tuple[tuple[Settings, str], ...]] = (
    (BrokerSettings, "--store-pth store"),
    (BrokerSettings, "--store-path store --flush-interval-ms soon"),
    (BrokerSettings, "--store-path store --listen 0.0.0.0:10911"),
    (
        BrokerSettings,
        "--store-path store --listen 0.0.0.0:10911 --insecure --name-servers 127.0.0.1:9876",
    ),
    (BrokerSettings, "--store-path store --client-heartbeat-s 120"),
    (BrokerSettings, "--store-path store --disk-clean-ratio 0.95"),
    (BrokerSettings, "--store-path store --held-pulls-max 4096"),
    (BrokerSettings, "--store-path store --message-bytes-max 8388608"),
    (BrokerSettings, "--store-path store --segment-bytes 1048576"),
    (NamesrvSettings, "--listen 9876"),
    (FilterSettings, "--data-path filters --listen 0.0.0.0:9885 --insecure"),
    (FilterSettings, "--data-path filters --uploads python"),
    (CheckerSettings, "--check-count-max 3"),
    (AdminSettings, "--name-servers 127.0.0.1:9876"),
    (AdminSettings, "--data-path admin --console-listen 0.0.0.0:9882"),
)
"""Flags that are refused, each for a different reason; the page shows the error messages."""

_KINDS: Final = {
    "bool": "true or false",
    "HOST:PORT": "`host:port`",
    "SecretStr": "text, never shown",
    "HOST:PORT,...": "`host:port,...`",
    "NETWORK,...": "`network,...`",
    "PATH": "path",
    "TEXT": "text",
}
_BOUNDS: Final = {
    "ge": "at least",
    "gt": "more than",
    "le": "at most",
    "lt": "less than",
    "multiple_of": "a multiple of",
    "pattern": "matches",
}
"""How pydantic's pieces of metadata read, by their attribute."""
_UNITS: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))

_INTRODUCTION: Final = """
A process is configured once, when it starts. Each setting has one name and can be set in four
places; the first one wins:

1. a flag, `--store-path ./store`
2. an environment variable, `ARIANE_BROKER_STORE_PATH=./store`
3. a key of the TOML file that `--config FILE` or `ARIANE_<SERVICE>_CONFIG` names
4. the default
"""

_MANNERS: Final = """
```toml
# broker.toml, for `python -m ariane_broker --config broker.toml`
listen = "127.0.0.1:10911"
store_path = "/var/lib/ariane/broker-a"
name_servers = ["127.0.0.1:9876", "127.0.0.1:9877"]
flush_mode = "sync"
```

- A list is `a,b` in flags and environment; in the file, it may be an array.
- A flag that is true or false needs no value: `--insecure`, `--no-insecure`.
- Names contain the unit: `_s` seconds, `_ms` milliseconds, `_bytes`, `_ratio` a share from 0 to 1.
- `--help` says the same as this page, for the installed version. The log line `service_ready` has
  all values in force.
- `ariane setting list` says which settings can be changed in a running process, and `ariane
  setting set` changes them until it ends. For all others, and to keep a change, restart it.
"""

_REFUSALS: Final = """
For a setting that is unknown, out of range, or contradicts another one, the process prints one line
on standard error and ends with status 2 before it has touched anything:
"""

_OTHERS: Final = """
- **Python client**: arguments of `Producer`, `PushConsumer` and `PullConsumer`, and the fields of
  `ProducerSettings`, `PushSettings` and `PullSettings`, below; see
  [sdk/python](../sdk/python/README.md).
- **Spark**: [options of `format("ariane")`](../spark/README.md#options).
- **Command line**: the flags of each command in [command-line.md](command-line.md). The name
  servers can be set in `ARIANE_NAME_SERVERS`.
"""


def render() -> str:
    """The whole page."""
    shared = _shared_names()
    parts = []
    for heading, settings in SERVICES:
        program = settings.service_name
        own = _rows(settings, lambda name: name not in shared)
        parts += [
            f"## {heading}",
            f"`python -m ariane_{program.replace('-', '_')}`, or `ariane-{program}`.",
            _settings_table(own, lambda row: row.environment),
        ]
    _, any_settings = SERVICES[0]
    services = " or ".join(code(_in_environment(settings)) for _, settings in SERVICES)
    return page(
        "# Configuration",
        made_from("the settings classes of the services"),
        _INTRODUCTION,
        _MANNERS,
        *parts,
        "## Every process",
        f"`<SERVICE>` is {services}.",
        _settings_table(
            _rows(any_settings, shared.__contains__),
            lambda row: f"ARIANE_<SERVICE>_{row.name.upper()}",
        ),
        "## What is refused",
        _REFUSALS,
        block("text", "\n".join(map(_refusal, CONTRADICTIONS))),
        "## Clients",
        _OTHERS,
        f"### {code(ProducerSettings.__name__)}",
        client_settings_table(ProducerSettings),
        f"### {code(PullSettings.__name__)}",
        client_settings_table(PullSettings),
        f"### {code(PushSettings.__name__)}",
        f"All of {code(PullSettings.__name__)}, and:",
        client_settings_table(PushSettings, beside=PullSettings),
    )


def _in_environment(settings: Settings) -> str:
    return settings.service_name.upper().replace("-", "_")


def _shared_names() -> set[str]:
    """Settings that are the same in all services: not those that one has changed."""
    references = [
        {row.name: (row.type, row.default, row.description) for row in settings_reference(settings)}
        for _, settings in SERVICES
    ]
    first, *others = references
    return {
        name
        for name in ServiceSettings.model_fields
        if all(other[name] == first[name] for other in others)
    }


def _rows(settings: Settings, wanted: Callable[[str], bool]) -> list[tuple[SettingRow, FieldInfo]]:
    """The wanted rows of a service with their fields, those that all services have first."""
    rows = [(row, settings.model_fields[row.name]) for row in settings_reference(settings)]
    rows.sort(key=lambda pair: pair[0].name not in ServiceSettings.model_fields)
    return [(row, field) for row, field in rows if wanted(row.name)]


def _settings_table(
    rows: Iterable[tuple[SettingRow, FieldInfo]], environment: Callable[[SettingRow], str]
) -> str:
    lines = []
    for row, field in rows:
        flags = [row.flag, f"--no-{row.flag[2:]}"] if row.type == "bool" else [row.flag]
        names = map(code, [row.name, *flags, environment(row)])
        values = f"{_values(row, field)}<br>{_default(row)}"
        lines.append(["<br>".join(names), values, row.description])
    return table(["Name, flag, environment", "Values", "Meaning"], lines)


def _values(row: SettingRow, field: FieldInfo) -> str:
    """Type and range in words."""
    kind = _KINDS.get(row.type)
    if kind is None and row.type != "N":
        return ", ".join(map(code, row.type.split("|")))
    if kind is None:
        kind = "whole number" if field.annotation is int else "number"
    bounds = [text for part in field.metadata for text in _bound(row.name, part)]
    return ", ".join([kind, *bounds])


def _bound(name: str, part: object) -> list[str]:
    """What one piece of a field's metadata allows.

    Raises:
        TypeError: Nobody has said yet how this kind of piece reads.
    """
    if isinstance(part, BeforeValidator | PlainSerializer):
        return []
    for attribute, words in _BOUNDS.items():
        limit = getattr(part, attribute, None)
        if limit is not None:
            return [f"{words} {_number(name, limit)}"]
    raise TypeError(f"{name}: say in words what {part!r} allows")


def _default(row: SettingRow) -> str:
    if row.required:
        return "**required**"
    return f"default {_number(row.name, row.default)}" if row.default else "default: unset"


def _number(name: str, value: object) -> str:
    """A value as it is typed; where it counts bytes, with a unit that can be read."""
    text = code(str(value))
    if "bytes" in name.split("_"):
        count = int(str(value))
        for unit, sign in _UNITS:
            if count >= unit and count % unit == 0:
                return f"{text} ({count // unit} {sign})"
    return text


def _refusal(case: tuple[Settings, str]) -> str:
    """Flags, and what a process that is given them says.

    Raises:
        AssertionError: It says nothing: the flags are fine by now.
    """
    settings, flags = case
    program = f"ariane-{settings.service_name}"
    try:
        load_settings(settings, flags.split(), {})
    except SettingsError as error:
        return f"$ {program} {flags}\n{program}: {error}"
    raise AssertionError(f"{program} {flags}: is not refused any more")
