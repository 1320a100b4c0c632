"""Access keys with their secrets, from RocketMQ's ``plain_acl.yml`` or from lines.

No error has any text of the file: it is full of secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.exits import ExitStatus


class RocketmqKey(NamedTuple):
    """What a client of RocketMQ signs with."""

    access_key: str
    """Names the key."""
    secret_key: str
    """Signs. Secret."""

    def __repr__(self) -> str:
        """Name it without the secret."""
        return f"RocketmqKey({self.access_key!r})"


def keys_of(text: str) -> list[RocketmqKey]:
    """Read a file of either form.

    Raises:
        CommandFailed: It has neither.
    """
    accounts = _accounts_of(text)
    found = list(_of_lines(text) if accounts is None else _of_accounts(accounts))
    if len({key.access_key for key in found}) < len(found):
        raise CommandFailed("the file has an access key twice", ExitStatus.USAGE)
    return found


def _accounts_of(text: str) -> list[Any] | None:
    """The accounts of ``plain_acl.yml``; None if the text is something else."""
    try:
        # It makes texts of everything: a secret of digits is no number.
        content = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - it makes no objects.
    except yaml.YAMLError:
        return None
    if not isinstance(content, Mapping) or not isinstance(content.get("accounts"), list):
        return None
    accounts: list[Any] = content["accounts"]
    return accounts


def _of_accounts(accounts: list[Any]) -> Iterator[RocketmqKey]:
    for number, account in enumerate(accounts, 1):
        known = account if isinstance(account, Mapping) else {}
        access_key, secret_key = known.get("accessKey"), known.get("secretKey")
        if not access_key or not secret_key:
            raise CommandFailed(
                f"account {number} has no accessKey and secretKey", ExitStatus.USAGE
            )
        yield RocketmqKey(str(access_key), str(secret_key))


def _of_lines(text: str) -> Iterator[RocketmqKey]:
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.partition("#")[0].strip()
        access_key, _, secret_key = (part.strip() for part in entry.partition(":"))
        if entry and not (access_key and secret_key):
            raise CommandFailed(
                f"line {number} is no ACCESS_KEY:SECRET_KEY, and the file no plain_acl.yml",
                ExitStatus.USAGE,
            )
        if entry:
            yield RocketmqKey(access_key, secret_key)
