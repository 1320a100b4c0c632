"""Users and rights from RocketMQ's files: ``plain_acl.yml`` of ACL 1.0, and lists of ACL 2.0.

Secrets are left out. What has no counterpart is listed, and nothing is granted for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from ariane.common.v1 import access_rules_pb2 as rules_pb
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.users.entry_text import entry_of

ACTIONS: Final = {
    "PUB": ("PUBLISH",),
    "SUB": ("SUBSCRIBE",),
    "CREATE": ("CREATE",),
    "UPDATE": ("UPDATE",),
    "DELETE": ("DELETE",),
    "GET": ("GET",),
    "LIST": ("GET",),
    "ALL": ("PUBLISH", "SUBSCRIBE", "CREATE", "UPDATE", "DELETE", "GET"),
}
"""What RocketMQ's actions are here. Lists show here what a user may GET."""

RESOURCES: Final = {
    "TOPIC": ("topic",),
    "GROUP": ("group",),
    "CLUSTER": ("cluster",),
    "ANY": ("topic", "group", "cluster"),
}
"""What RocketMQ's resource types are here."""

_NO_TEXTS: Final = frozenset({"tag:yaml.org,2002:bool", "tag:yaml.org,2002:null"})
_ROW_WORDS: Final = 6
_DENY: Final = "DENY"


@dataclass(slots=True)
class ImportedUser:
    """A user of a file."""

    name: str
    """The user; in ACL 1.0, its access key."""
    is_super: bool = False
    """Whether it may do everything."""
    entries: list[rules_pb.AccessEntry] = field(default_factory=list)
    """What it may do."""


@dataclass(slots=True)
class Imported:
    """What a file says."""

    users: list[ImportedUser] = field(default_factory=list)
    """The users, in the order of the file."""
    left_out: list[str] = field(default_factory=list)
    """What has no counterpart, in words."""

    def user(self, name: str) -> ImportedUser:
        """The user of a name; made if it is new."""
        for user in self.users:
            if user.name == name:
                return user
        self.users.append(ImportedUser(name))
        return self.users[-1]


class _Texts(yaml.SafeLoader):
    """Reads numbers and dates as texts: a name of digits is no number."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as yaml has it.
        first: [each for each in rules if each[0] in _NO_TEXTS]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def imported(text: str) -> Imported:
    """Read a file of either kind.

    Raises:
        CommandFailed: It is neither.
    """
    if text.lstrip().startswith("#Subject"):
        return _of_table(text)
    try:
        content = yaml.load(text, Loader=_Texts)  # noqa: S506 - it is a safe loader.
    except yaml.YAMLError as error:
        # Never the text around it: plain_acl.yml is full of secrets.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", see line {mark.line + 1}"
        raise CommandFailed(
            f"the file is neither YAML nor a list of mqadmin{where}", ExitStatus.USAGE
        ) from None
    if isinstance(content, Mapping) and isinstance(content.get("accounts"), list):
        return _of_accounts(content)
    if isinstance(content, Mapping):
        content = [content]
    if isinstance(content, list) and all(
        isinstance(each, Mapping) and "subject" in each for each in content
    ):
        return _of_subjects(content)
    raise CommandFailed(
        "the file has neither accounts (ACL 1.0) nor subjects (ACL 2.0)", ExitStatus.USAGE
    )


def _listed(value: Any, name: str) -> list[Any]:
    """A list of the file, which may be absent.

    Raises:
        CommandFailed: It is something else; the text has nothing of it, which may be a secret.
    """
    if value and not isinstance(value, list):
        raise CommandFailed(f"{name} of the file is no list", ExitStatus.USAGE)
    return value or []


def _objects(value: Any, name: str) -> list[Mapping[str, Any]]:
    """The same, of objects.

    Raises:
        CommandFailed: It is something else.
    """
    listed = _listed(value, name)
    if not all(isinstance(each, Mapping) for each in listed):
        raise CommandFailed(f"{name} of the file is no list of objects", ExitStatus.USAGE)
    return listed


def _of_accounts(content: Mapping[str, Any]) -> Imported:
    """ACL 1.0: a right on a name replaces the default for all names."""
    made = Imported()
    if content.get("globalWhiteRemoteAddresses"):
        made.left_out.append("globalWhiteRemoteAddresses: nobody comes in without a proof here")
    for account in _objects(content["accounts"], "accounts"):
        name = str(account.get("accessKey", ""))
        user = made.user(name)
        user.is_super = str(account.get("admin")).lower() == "true"
        if account.get("whiteRemoteAddress"):
            made.left_out.append(f"{name}: whiteRemoteAddress; use a network in its entries")
        for kind, listed, default in (
            ("topic", "topicPerms", "defaultTopicPerm"),
            ("group", "groupPerms", "defaultGroupPerm"),
        ):
            general = _perms(str(account.get(default) or _DENY))
            if kind == "group":
                general &= {"SUBSCRIBE"}
            if general:
                user.entries.append(entry_of(sorted(general), kind, "*"))
            for each in _listed(account.get(listed), listed):
                thing, _, perm = str(each).partition("=")
                user.entries += _of_perm(kind, thing.strip(), _perms(perm), general)
    return made


def _of_perm(
    kind: str, name: str, allowed: set[str], general: set[str]
) -> Iterator[rules_pb.AccessEntry]:
    if kind == "group":
        allowed = allowed & {"SUBSCRIBE"}
    if allowed - general:
        yield entry_of(sorted(allowed - general), kind, name)
    if general - allowed:
        yield entry_of(sorted(general - allowed), kind, name, deny=True)


def _perms(text: str) -> set[str]:
    found: set[str] = set()
    for word in text.upper().split("|"):
        if word.strip() in {"PUB", "SUB"}:
            found.update(ACTIONS[word.strip()])
    return found


def _of_subjects(content: Sequence[Mapping[str, Any]]) -> Imported:
    """ACL 2.0 as JSON or YAML: subjects with policies."""
    made = Imported()
    for each in content:
        subject = str(each["subject"])
        for policy in _objects(each.get("policies"), "policies"):
            for entry in _objects(policy.get("entries"), "entries"):
                [environment] = _objects([entry.get("environment") or {}], "environment")
                networks = environment.get("sourceIps") or entry.get("sourceIps")
                _add(
                    made,
                    subject,
                    _resource_text(entry.get("resource", "")),
                    list(map(str, _listed(entry.get("actions"), "actions"))),
                    networks=list(map(str, _listed(networks, "sourceIps"))),
                    decision=str(entry.get("decision", "")),
                )
    return made


def _resource_text(resource: Any) -> str:
    if not isinstance(resource, Mapping):
        return str(resource)
    kind, name = resource.get("resourceType", ""), resource.get("resourceName") or "*"
    star = "*" if str(resource.get("resourcePattern", "")).upper() == "PREFIXED" else ""
    return f"{kind}:{name}{star}"


def _of_table(text: str) -> Imported:
    """ACL 2.0 as ``mqadmin listAcl`` prints it: subject, type, resource, actions, IPs, decision."""
    made = Imported()
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != _ROW_WORDS:
            made.left_out.append(f"a line of another form: {line.strip()[:80]}")
            continue
        subject, _, resource, actions, networks, decision = words
        _add(
            made,
            subject,
            resource,
            re.split(r"[,\[\]]", actions),
            networks=[each for each in networks.split(",") if each not in {"null", "-", "[]"}],
            decision=decision,
        )
    return made


def _add(
    made: Imported,
    subject: str,
    resource: str,
    actions: Sequence[str],
    *,
    networks: Sequence[str],
    decision: str,
) -> None:
    kind, _, name = subject.partition(":")
    if kind.lower() != "user":
        made.left_out.append(f"{subject}: only users have rights")
        return
    of_kind, _, thing = resource.partition(":")
    words = sorted({w for each in actions for w in ACTIONS.get(each.strip().upper(), ())})
    kinds = RESOURCES.get(of_kind.strip().upper(), ())
    if not words or not kinds:
        made.left_out.append(f"{subject}: {resource} {','.join(actions)} has no counterpart")
        return
    user = made.user(name)
    for each in kinds:
        names = "*" if each == "cluster" else thing or "*"
        user.entries.append(
            entry_of(words, each, names, deny=decision.upper() == _DENY, networks=networks)
        )
