"""Contexts: addresses and certificates of clusters by name, saved by ``ariane context``.

One JSON file, ``$XDG_CONFIG_HOME/ariane/contexts.json`` (``~/.config`` by default)::

    {"current": "prod",
     "contexts": {"prod": {"name_servers": "10.0.0.1:9876,10.0.0.2:9876",
                           "checker": "10.0.0.1:9880",
                           "admin": "10.0.0.1:9881",
                           "tls_ca": "/etc/ariane/members.pem",
                           "tls_certificate": "/etc/ariane/user-anna.pem",
                           "tls_key": "/etc/ariane/user-anna.key"}}}

A flag overrides the environment, the environment a context, and a context the default. The context
is that of ``ariane --context NAME``, or of ``ARIANE_CONTEXT``, or the current one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import click
from click.core import ParameterSource

from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.exits import ExitStatus

CONTEXT_VARIABLE: Final = "ARIANE_CONTEXT"

NAME_SERVERS: Final = "name_servers"
CHECKER: Final = "checker"
ADMIN: Final = "admin"
TLS_CA: Final = "tls_ca"
TLS_CERTIFICATE: Final = "tls_certificate"
TLS_KEY: Final = "tls_key"
FILES: Final = (TLS_CA, TLS_CERTIFICATE, TLS_KEY)
VARIABLES: Final = MappingProxyType(
    {
        NAME_SERVERS: "ARIANE_NAME_SERVERS",
        CHECKER: "ARIANE_TXN_CHECKER",
        ADMIN: "ARIANE_ADMIN",
        TLS_CA: "ARIANE_TLS_CA",
        TLS_CERTIFICATE: "ARIANE_TLS_CERTIFICATE",
        TLS_KEY: "ARIANE_TLS_KEY",
    }
)
"""The keys of a context, and the variable with the same meaning."""


NO_FILES: Final[Mapping[str, str | None]] = MappingProxyType({})


class ContextInUse(NamedTuple):
    """The context of a command line."""

    name: str
    """Its name."""
    places: Mapping[str, str]
    """Its addresses, by key."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """All contexts of a user."""

    current: str = ""
    """The context in use; empty for none."""
    by_name: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The addresses of each context, by key."""

    def of(self, name: str) -> Mapping[str, str]:
        """The addresses of one context.

        Raises:
            CommandFailed: There is no context of that name.
        """
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise CommandFailed(
                f"there is no context {name!r}; known: {known}", ExitStatus.NOT_FOUND
            )
        return self.by_name[name]

    def with_context(self, name: str, places: Mapping[str, str]) -> Self:
        """These contexts with one more, or with one changed; the first is used at once."""
        return replace(
            self, current=self.current or name, by_name={**self.by_name, name: dict(places)}
        )

    def without(self, name: str) -> Self:
        """These contexts without one.

        Raises:
            CommandFailed: There is no context of that name.
        """
        self.of(name)
        left = {each: places for each, places in self.by_name.items() if each != name}
        return replace(self, current="" if self.current == name else self.current, by_name=left)

    def using(self, name: str) -> Self:
        """These contexts with another one in use.

        Raises:
            CommandFailed: There is no context of that name.
        """
        self.of(name)
        return replace(self, current=name)


def contexts_path() -> Path:
    """The file of this user's contexts."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "ariane" / "contexts.json"


def load_contexts() -> Contexts:
    """The contexts of this user; none without a file.

    Raises:
        CommandFailed: The file cannot be read, or holds no contexts.
    """
    path = contexts_path()
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return _checked(stored)
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError, RecursionError) as error:
        raise CommandFailed(f"{path} cannot be read: {error}; fix or delete it") from error


def save_contexts(contexts: Contexts) -> None:
    """Replace the whole file.

    Raises:
        CommandFailed: It cannot be written.
    """
    path = contexts_path()
    text = json.dumps({"current": contexts.current, "contexts": contexts.by_name}, indent=1)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.write_text(text + "\n", encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}") from error


def enter_context(
    context: click.Context, name: str | None, files: Mapping[str, str | None] = NO_FILES
) -> None:
    """Let the options of a command line use the addresses and files of a context.

    The options, also those of plugins, read them from the environment, which is restored when the
    command ends.

    Args:
        context: Context of the command line's root.
        name: The context that was named; None for the current one.
        files: Files of TLS that the command line gives, by key; they go before all others.

    Raises:
        CommandFailed: The named context does not exist, or the file cannot be read.
    """
    for key, file in files.items():
        if file is not None:
            _set(context, VARIABLES[key], file)
    contexts = load_contexts()
    name = name or contexts.current
    if not name:
        return
    places = contexts.of(name)
    context.obj = ContextInUse(name, places)
    on_line = context.get_parameter_source("context_name") is ParameterSource.COMMANDLINE
    for place, variable in VARIABLES.items():
        given = files.get(place) is not None
        if place in places and not given and (on_line or not os.environ.get(variable)):
            _set(context, variable, places[place])


def _set(context: click.Context, variable: str, value: str) -> None:
    context.call_on_close(partial(_put_back, variable, os.environ.get(variable)))
    os.environ[variable] = value


def _put_back(variable: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(variable, None)
    else:
        os.environ[variable] = value


def _checked(stored: Any) -> Contexts:
    """Check the contents of a file.

    Raises:
        ValueError: It does not hold contexts.
    """
    match stored:
        case {"current": str(current), "contexts": dict(by_name)}:
            pass
        case _:
            raise ValueError("it does not contain contexts")
    for name, places in by_name.items():
        if not isinstance(places, dict) or not all(isinstance(v, str) for v in places.values()):
            raise ValueError(f"context {name!r} does not map names to addresses")
    return Contexts(current, by_name)
