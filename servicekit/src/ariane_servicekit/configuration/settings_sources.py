"""Reads settings from flags, environment and file, and writes ``--help``."""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, NoReturn, TypeVar, Union, get_args, get_origin

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined

from ariane_servicekit.configuration.settings import ServiceSettings
from ariane_servicekit.errors import SettingsError
from ariane_servicekit.observability.passwords import without_passwords

SettingsT = TypeVar("SettingsT", bound=ServiceSettings)

# Kubernetes gives every pod variables named after the services around it, and a service named
# "ariane-broker" yields ARIANE_BROKER_PORT=tcp://...: these are not our settings.
_SERVICE_LINK: Final = re.compile(
    r"(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?)"
)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as documents and administration show it."""

    name: str
    flag: str
    environment: str
    type: str
    default: str
    description: str
    required: bool
    changeable: bool
    """Whether it may change at run time."""


def load_settings(
    settings_class: type[SettingsT], argv: Sequence[str], environ: Mapping[str, str]
) -> SettingsT:
    """Build a service's settings.

    Args:
        settings_class: The service's class.
        argv: The flags, without the program's name.
        environ: The environment; ``os.environ`` in ``__main__``, nowhere else.

    Raises:
        SettingsError: A key is unknown or a value illegal; the text is one line.
        SystemExit: After ``--help``.
    """
    flags = _read_flags(settings_class, argv)
    config_path = flags.pop("config", None)
    from_environment = _read_environment(settings_class, environ)
    config_path = config_path or from_environment.pop("config", None)
    from_file = _read_file(settings_class, Path(config_path)) if config_path else {}
    values = {**from_file, **from_environment, **flags}

    def place(name: str) -> str:
        if name in flags:
            return flag_of(name)
        if name in from_environment:
            return environment_name(settings_class, name)
        return f"{name} in {config_path}" if name in from_file else flag_of(name)

    sources = {
        **dict.fromkeys(from_file, "file"),
        **dict.fromkeys(from_environment, "environment"),
        **dict.fromkeys(flags, "flag"),
    }
    try:
        return settings_class.model_validate(values).from_sources(sources)
    except ValidationError as error:
        secret = secret_names(settings_class)
        raise SettingsError(_one_line(error.errors()[0], place, secret)) from None


def secret_names(settings_class: type[ServiceSettings]) -> frozenset[str]:
    """Return the settings whose values are never shown."""
    fields = settings_class.model_fields.items()
    return frozenset(name for name, field in fields if _is_secret(field))


def flag_of(name: str) -> str:
    """Return a setting's flag: ``store_path`` is ``--store-path``."""
    return "--" + name.replace("_", "-")


def environment_name(settings_class: type[ServiceSettings], name: str) -> str:
    """Return a setting's environment variable: ``ARIANE_BROKER_STORE_PATH``."""
    return f"ARIANE_{settings_class.service_name}_{name}".replace("-", "_").upper()


def settings_reference(settings_class: type[ServiceSettings]) -> list[SettingRow]:
    """Return all settings of a service in their order: its own first, then what all share.

    Raises:
        ValueError: A setting has no description.
    """
    shared = ServiceSettings.model_fields
    own = [name for name in settings_class.model_fields if name not in shared]
    rows = []
    for name in (*own, *shared):
        field = settings_class.model_fields[name]
        if not field.description:
            msg = f"{settings_class.__name__}.{name} has no description"
            raise ValueError(msg)
        extra = field.json_schema_extra
        rows.append(
            SettingRow(
                name=name,
                flag=flag_of(name),
                environment=environment_name(settings_class, name),
                type=_type_name(field),
                default=_default_text(field),
                description=field.description,
                required=field.is_required(),
                changeable=isinstance(extra, dict) and bool(extra.get("changeable")),
            )
        )
    return rows


class _FlagParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def _flag_parser(settings_class: type[ServiceSettings]) -> _FlagParser:
    """A parser with a flag for each setting, whose result has only the given flags."""
    service = settings_class.service_name
    module = f"ariane_{service}".replace("-", "_")
    parser = _FlagParser(
        prog=f"python -m {module}",
        description=(settings_class.__doc__ or "").strip().splitlines()[0],
        epilog=f"Each setting is also an environment variable, as in "
        f"{environment_name(settings_class, 'listen')}=127.0.0.1:0, and a key of the TOML file. "
        f"Flags win over the environment, the environment over the file.\n\n"
        f"example:\n  python -m {module} {settings_class.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("--config", metavar="FILE", help="TOML file with settings.")
    own = parser.add_argument_group(f"settings of {service}")
    shared = parser.add_argument_group("settings of all services")
    for row in settings_reference(settings_class):
        group = shared if row.name in ServiceSettings.model_fields else own
        ending = "Required." if row.required else f"Default: {row.default or 'unset'}."
        text = f"{row.description} {ending}".replace("%", "%%")
        if row.type.startswith("bool"):
            group.add_argument(row.flag, action=argparse.BooleanOptionalAction, help=text)
        else:
            group.add_argument(row.flag, metavar=row.type, help=text)
    return parser


def _read_flags(settings_class: type[ServiceSettings], argv: Sequence[str]) -> dict[str, Any]:
    parser = _flag_parser(settings_class)
    known, unknown = parser.parse_known_args(argv)
    if unknown:
        given = unknown[0].partition("=")[0]
        flags = [flag_of(name) for name in ("config", *settings_class.model_fields)]
        raise SettingsError(_unknown("flag", given, flags))
    return dict(vars(known))


def _read_environment(
    settings_class: type[ServiceSettings], environ: Mapping[str, str]
) -> dict[str, Any]:
    names = {
        environment_name(settings_class, name): name
        for name in ("config", *settings_class.model_fields)
    }
    prefix = environment_name(settings_class, "")
    values = {}
    for variable, value in environ.items():
        if variable in names:
            values[names[variable]] = value
        elif variable.startswith(prefix) and not _SERVICE_LINK.fullmatch(variable, len(prefix)):
            raise SettingsError(_unknown("environment variable", variable, names))
    return values


def _read_file(settings_class: type[ServiceSettings], path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"--config {path}: {error.strerror}"
        raise SettingsError(msg) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        msg = f"--config {path}: {error}"
        raise SettingsError(msg) from None
    for name in values:
        if name not in settings_class.model_fields:
            raise SettingsError(f"{path}: " + _unknown("key", name, settings_class.model_fields))
    return values


def _unknown(kind: str, given: str, known: Sequence[str] | Mapping[str, object]) -> str:
    # Without dashes, which all flags share: with them any two short names would be similar.
    bare = {name.lstrip("-"): name for name in known}
    nearest = [bare[name] for name in get_close_matches(given.lstrip("-"), bare, n=1, cutoff=0.6)]
    hint = f"; did you mean {nearest[0]}?" if nearest else "; --help lists all"
    return f"unknown {kind} {given}{hint}"


def _is_secret(field: FieldInfo) -> bool:
    return SecretStr in {field.annotation, *get_args(field.annotation)}


def _one_line(error: ErrorDetails, place: Any, secret: Collection[str]) -> str:
    text = " ".join(error["msg"].removeprefix("Value error, ").split())
    if not error["loc"]:
        return text
    name = str(error["loc"][0])
    if error["type"] == "missing":
        return f"{place(name)} is required"
    given = error["input"]
    shown = ""
    # Before an @ may be a password, also where what is given is no URL.
    if name not in secret and isinstance(given, str | int | float) and "@" not in str(given):
        shown = f" (given: {given!r})"
    return without_passwords(f"{place(name)}: {text[0].lower()}{text[1:]}{shown}")


def _type_name(field: FieldInfo) -> str:
    annotation: Any = field.annotation
    arguments = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) in {Union, UnionType} and len(arguments) == 1:
        # Optional: the default shows whether None is allowed.
        annotation, arguments = arguments[0], []
    if get_origin(annotation) is Annotated:
        annotation, *_ = get_args(annotation)
    if get_origin(annotation) is Literal:
        return "|".join(map(str, arguments))
    if get_origin(annotation) is tuple:
        return f"{_simple_name(arguments[0])},..."
    return _simple_name(arguments[0] if arguments else annotation)


_SIMPLE_NAMES: Final = {
    "str": "TEXT",
    "Path": "PATH",
    "Address": "HOST:PORT",
    "IPv4Network": "NETWORK",
    "int": "N",
    "float": "N",
}


def _simple_name(kind: Any) -> str:
    if isinstance(kind, type) and hasattr(kind, "__members__"):
        return "|".join(member.value for member in kind.__members__.values())
    if get_origin(kind) in {Union, UnionType}:
        kind, *_ = get_args(kind)  # Of one purpose, such as networks of both versions.
    name = getattr(kind, "__name__", str(kind))
    return _SIMPLE_NAMES.get(name, name)


def _default_text(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is PydanticUndefined or default is None:
        return ""
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float) and default.is_integer():
        return str(int(default))
    return str(getattr(default, "value", default))
