"""RocketMQ's ``mqadmin``: each of its commands, and the same with ``ariane``.

The table is ``mqadmin.toml``. A line of it is a command with gaps::

    ariane topic update {t} [--read-queues {r}] [--permission {p:permission}]

``{t}`` is the value of mqadmin's ``-t``, or ``TOPIC``, its name, if ``-t`` was not given;
``{p:permission}`` is a value with another spelling here; a part in brackets is left out if one of
its gaps has no value. ``{NAME}`` is a value that mqadmin does not have. A line that begins with
``d=true:`` is used only if ``-d`` has that value, one with ``!i:`` only without ``-i``. A line with
``{r:resource}`` is said once for each resource that mqadmin's list has.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from ariane_admin.compat.rocketmq_acl import ACTIONS, RESOURCES

_GAP: Final = re.compile(r"(?P<space> ?)\{(?P<name>\w+)(?::(?P<kind>\w+))?\}")
_CONDITION: Final = re.compile(r"(?P<terms>!?[a-z](?:=\w+)?(?:\|!?[a-z](?:=\w+)?)*): ")
_OPTIONAL: Final = re.compile(r" \[(?P<inside>[^]]*)\]")

_NEWEST: Final = "-1"
"""The time that means the end of the queue in mqadmin's resets."""

NAME_SERVERS: Final = "n"
_EVERY_COMMANDS: Final = MappingProxyType({NAME_SERVERS: "namesrvAddr"})
"""Options of all commands of mqadmin."""

_NOT_ASKING_NAME_SERVERS: Final = frozenset({"access", "credential", "definition", "store", "user"})
"""Groups of our commands without that option: they ask admin, or nobody."""

_TYPES: Final = re.compile(r"\+message\.type=(\w+)")
_OUR_TYPES: Final = frozenset({"normal", "fifo", "delay", "transaction"})

_SETTINGS: Final = MappingProxyType(
    {
        "autoCreateSubscriptionGroup": "auto_create_groups",
        "autoCreateTopicEnable": "auto_create_topics",
        "defaultTopicQueueNums": "default_queue_count",
        "deleteWhen": "delete_at_hour",
        "fileReservedTime": "retention_hours",
        "flushDiskType": "flush_mode",
        "flushIntervalCommitLog": "flush_interval_ms",
        "maxMessageSize": "message_bytes_max",
        "messageDelayLevel": "delay_levels",
    }
)
"""Names of RocketMQ's settings of brokers, and ours."""

_SETTINGS_VALUES: Final = MappingProxyType({"ASYNC_FLUSH": "async", "SYNC_FLUSH": "sync"})

_PERMISSIONS: Final = MappingProxyType({"2": "write", "4": "read", "6": "read-write"})


@dataclass(frozen=True, slots=True)
class Spelling:
    """One command of mqadmin."""

    name: str
    """Its name in mqadmin."""
    does: str
    """Its purpose in a few words."""
    options: Mapping[str, str]
    """The names of its options by their letters."""
    switches: frozenset[str]
    """The letters of options without a value."""
    ours: tuple[str, ...]
    """The commands of ``ariane``, with gaps; none without an equivalent."""
    note: str
    """Further information: a sentence or two, or empty."""

    def equivalents(self, arguments: Sequence[str]) -> list[str]:
        """The commands of ``ariane`` with the values of mqadmin's command line.

        Args:
            arguments: The arguments after the name of the command.

        Raises:
            ValueError: An option is not one of the command, or has no value.
        """
        given = self._values(arguments)
        return [
            _filled(line, values, self.options)
            for line in (_meant(line, given) for line in self.ours)
            if line
            for values in _by_resource(line, given)
        ]

    def _values(self, arguments: Sequence[str]) -> dict[str, str]:
        """The values of a command line by letter."""
        known = {**_EVERY_COMMANDS, **self.options}
        letters = {name: letter for letter, name in known.items()}
        values: dict[str, str] = {}
        rest = list(arguments)
        while rest:
            word, equals, value = rest.pop(0).partition("=")
            name = word.lstrip("-")
            letter = name if name in known else letters.get(name)
            if not word.startswith("-") or letter is None:
                options = ", ".join(f"-{each}" for each in known)
                raise ValueError(f"{self.name} takes no {word!r}; its options are {options}")
            if letter in self.switches:
                continue
            if not equals:
                if not rest:
                    raise ValueError(f"-{letter} ({known[letter]}) of {self.name} needs a value")
                value = rest.pop(0)
            values[letter] = value.strip()
        return values


def mqadmin_commands() -> Mapping[str, Spelling]:
    """All commands of mqadmin, by name."""
    return _commands()


@cache
def _commands() -> Mapping[str, Spelling]:
    text = files("ariane_admin.compat").joinpath("mqadmin.toml").read_text(encoding="utf-8")
    return MappingProxyType(
        {name: _spelling(name, row) for name, row in tomllib.loads(text).items()}
    )


def _spelling(name: str, row: Mapping[str, object]) -> Spelling:
    words = [word.partition("=") for word in str(row.get("options", "")).split()]
    ours = row.get("ours", [])
    return Spelling(
        name=name,
        does=str(row["does"]),
        options={letter: long.removesuffix("!") for letter, _, long in words},
        switches=frozenset(letter for letter, _, long in words if long.endswith("!")),
        ours=tuple(map(str, ours)) if isinstance(ours, list) else (),
        note=str(row.get("note", "")),
    )


def _meant(line: str, given: Mapping[str, str]) -> str:
    """A line without its conditions; empty if one of them does not hold."""
    while condition := _CONDITION.match(line):
        if not any(_holds(term, given) for term in condition["terms"].split("|")):
            return ""
        line = line[condition.end() :]
    return line


def _holds(term: str, given: Mapping[str, str]) -> bool:
    """Whether an option is given, or has a value; with ``!``, whether not."""
    letter, equals, value = term.removeprefix("!").partition("=")
    holds = given.get(letter, "").lower() == value if equals else letter in given
    return holds != term.startswith("!")


def _by_resource(line: str, given: Mapping[str, str]) -> list[Mapping[str, str]]:
    """The values, for each resource of the list that the line has a gap for."""
    gaps = (gap["name"] for gap in _GAP.finditer(line) if gap["kind"] in {"resource", "on"})
    letter = next(gaps, "")
    if letter not in given:
        return [given]
    resources = _resources(given[letter])
    if not resources:
        raise ValueError(f"-{letter} names no resource")
    return [{**given, letter: one} for one in resources]


def _filled(line: str, given: Mapping[str, str], names: Mapping[str, str]) -> str:
    """A command of ``ariane`` with its gaps filled."""

    def fill(gap: re.Match[str]) -> str:
        letter = gap["name"]
        if letter in given:
            value = _KINDS[gap["kind"] or "plain"](given[letter])
        else:
            value = _upper(names.get(letter, letter))
        return gap["space"] + value if value else ""

    def keep(part: re.Match[str]) -> str:
        gaps = [gap["name"] for gap in _GAP.finditer(part["inside"])]
        return f" {part['inside']}" if given.keys() >= set(gaps) else ""

    filled = _GAP.sub(fill, _OPTIONAL.sub(keep, line))
    group = line.rpartition(" | ")[2].split()[1]
    takes_it = NAME_SERVERS not in names and group not in _NOT_ASKING_NAME_SERVERS
    if NAME_SERVERS in given and takes_it:
        filled += f" --name-servers {shlex.quote(given[NAME_SERVERS].replace(';', ','))}"
    return filled


def _upper(name: str) -> str:
    """A name in the form of a placeholder: ``groupName`` is ``GROUP_NAME``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def _moment(value: str) -> str:
    """A time of mqadmin, milliseconds since the epoch or a date; other texts stay unchanged."""
    if value in {"now", "currentTimeMillis", _NEWEST}:
        return "latest"
    if value.isascii() and value.isdecimal():
        moment = datetime.fromtimestamp(int(value) / 1000, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    try:
        # mqadmin writes 2026-01-31#10:00:00:000, in the time zone of its machine.
        moment = datetime.strptime(value, "%Y-%m-%d#%H:%M:%S:%f").astimezone()
    except ValueError:
        return shlex.quote(value)
    return moment.isoformat(timespec="milliseconds")


def _end(value: str) -> str:
    """A time at which reading ends: as ``_moment``, and now is a time, too."""
    moment = _moment(value)
    return "-1ms" if moment == "latest" else moment


def _type(value: str) -> str:
    """The type of messages among attributes such as ``+message.type=FIFO``."""
    found = _TYPES.search(value)
    word = found[1].lower() if found else ""
    return word if word in _OUR_TYPES else "any"


def _tags(value: str) -> str:
    """Options for tags joined by "||"; none for all messages."""
    tags = [tag.strip() for tag in value.split("||")]
    return " ".join(f"--tag {shlex.quote(tag)}" for tag in tags if tag not in {"", "*"})


def _user(value: str) -> str:
    """The user of a subject such as ``User:alice``."""
    return shlex.quote(value.rpartition(":")[2])


def _actions(value: str) -> str:
    """Our words for actions such as ``Pub,Sub``."""
    words = (ACTIONS.get(each.upper(), (each,)) for each in _parts(value))
    return shlex.quote(",".join(dict.fromkeys(each.lower() for found in words for each in found)))


def _resources(value: str) -> list[str]:
    """Kind and name of each resource of a list such as ``Topic:order*,Group:*``."""
    found = []
    for each in _parts(value):
        kind, _, name = each.partition(":")
        kinds = RESOURCES.get("ANY" if kind == "*" else kind.upper(), (kind,))
        found += [one if one == "cluster" else f"{one} {name or '*'}" for one in kinds]
    return found


def _resource(value: str) -> str:
    kind, _, name = value.partition(" ")
    return f"{shlex.quote(kind)} {shlex.quote(name)}" if name else shlex.quote(kind)


def _on(value: str) -> str:
    """Options of a list for one resource."""
    kind, _, name = value.partition(" ")
    chosen = f"--resource {shlex.quote(kind)}"
    return chosen if name in {"", "*"} else f"{chosen} --name {shlex.quote(name)}"


def _networks(value: str) -> str:
    """Options for addresses such as ``10.1.0.7,10.2.0.0/16``."""
    return " ".join(f"--from {shlex.quote(each)}" for each in _parts(value))


def _parts(value: str) -> list[str]:
    """The parts of a list with commas; empty ones are none."""
    return [part for each in value.split(",") if (part := each.strip())]


_KINDS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {
        "plain": shlex.quote,
        "quoted": lambda value: "'" + value.replace("'", "'\\''") + "'",
        "permission": lambda value: _PERMISSIONS.get(value, shlex.quote(value)),
        "moment": _moment,
        "end": _end,
        "setting": lambda value: shlex.quote(_SETTINGS.get(value, value)),
        "settings_value": lambda value: shlex.quote(_SETTINGS_VALUES.get(value, value)),
        "type": _type,
        "user": _user,
        "actions": _actions,
        "resource": _resource,
        "on": _on,
        "networks": _networks,
        "tags": _tags,
    }
)
"""The conversion of a value, by the kind of its gap."""
