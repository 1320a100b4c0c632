"""How the processes of a query reach a cluster that is closed.

::

    driver    logs in by its own key: the option accessKey, or ARIANE_CREDENTIALS
      |       draws a key for each plan, and signs what it may do and until when
      v
    tasks     log in by that key; they never have the driver's own

The drawn key travels with Spark's tasks: encrypt them (``spark.network.crypto.enabled``).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.security import (
    Access,
    CredentialSource,
    PrivateKey,
    Tls,
    credential_source,
    private_key,
    tls_files,
    tls_from_environment,
)
from ariane_spark.errors import OptionIllegal
from ariane_spark.options.given_options import GivenOptions
from ariane_spark.options.option_table import Use

if TYPE_CHECKING:
    from ariane_sdk.delegation import DelegatedKey

SECRET_OPTIONS: Final = frozenset({"accesskey"})
"""In lower case. Spark keeps such names out of plans, its UI and its event log."""

ACCESS_OPTIONS: Final = frozenset({"tlsca", "keylifetime", *SECRET_OPTIONS})

LIFETIME_MS: Final = 24 * 3_600_000
LIFETIME_MS_MAX: Final = 7 * 24 * 3_600_000
"""Processes of the cluster take no key for longer."""

_PEM: Final = "-----BEGIN"


class Right(NamedTuple):
    """What a task has to do."""

    resource: str
    """``TOPIC`` or ``SINK``."""
    actions: tuple[str, ...]
    """Such as ``PUBLISH``."""
    name: str = ""
    """Of the thing; empty for any that the user has a right on."""


@dataclass(frozen=True, slots=True)
class JobAccess:
    """TLS and credentials of one query. Pickled, it has lost the driver's own key."""

    tls_ca: str = ""
    """The authority of the cluster: on the driver a file or its text, in tasks the text; empty:
    what the environment says."""
    own_key: str = field(default="", repr=False)
    """The driver's key, a file or its text; empty: what the environment says."""
    lifetime_ms: int = LIFETIME_MS
    """How long the keys of tasks hold."""
    rights: tuple[Right, ...] = ()
    """What the key of tasks is for."""
    key: DelegatedKey | None = None
    """The key of tasks; ``None`` on the driver, and without any."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the driver's own key out."""
        return JobAccess, (self.tls_ca, "", self.lifetime_ms, self.rights, self.key)

    def for_tasks(self, rights: Iterable[Right]) -> JobAccess:
        """What tasks are given: the authority, and a key that is good for some rights.

        Raises:
            OptionIllegal: A file cannot be read.
            IllegalArgument: The same of one that the environment names.
        """
        own, given = self._own_source(), tls_from_environment()
        text = _text_of("tlsCa", self.tls_ca) if self.tls_ca else ""
        if own is not None and given is not None:
            text = text or _text_of("tlsCa", str(given.ca))
        if own is None:
            return replace(self, tls_ca=text)
        from ariane_sdk.delegation import delegate  # noqa: PLC0415 - only with keys.

        rights, own_key = tuple(rights), own()
        assert isinstance(own_key, PrivateKey)  # noqa: S101 - of a file, or of its text.
        ends_ms = int(time.time() * 1000) + self.lifetime_ms
        key = delegate(own_key, map(_entry, rights), ends_ms)
        return JobAccess(text, "", self.lifetime_ms, rights, key)

    def tls(self) -> Tls | None:
        """The files of TLS in this process; ``None`` without any."""
        given = tls_from_environment()
        if not self.tls_ca:
            return given
        return Tls(ca=self.tls_ca) if given is None else replace(given, ca=self.tls_ca)

    def credentials(self) -> CredentialSource | None:
        """What this process logs in by; ``None``: nothing.

        Raises:
            IllegalArgument: A file cannot be read.
        """
        if self.key is None:
            return self._own_source()
        scope = scope_of(self)

        def newest() -> PrivateKey:
            # A connection is kept over micro-batches, each of which brings a key that holds longer.
            return _newest[scope].private_key()

        return newest

    def connections(self) -> Access:
        """How this process makes connections.

        Raises:
            IllegalArgument: A file cannot be read.
        """
        return Access(tls_files(self.tls()), self.credentials())

    def _own_source(self) -> CredentialSource | None:
        if _PEM in self.own_key:
            key = private_key(self.own_key.encode(), "option 'accessKey'")
            return lambda: key
        return credential_source(self.own_key or None)


NO_ACCESS: Final = JobAccess()

_newest: Final[dict[JobAccess, DelegatedKey]] = {}


def scope_of(access: JobAccess) -> JobAccess:
    """By what connections may be shared; the newest key of tasks for it is kept."""
    if access.key is None:
        return access
    scope = replace(access, key=None)
    _newest[scope] = access.key
    return scope


def access_options(options: GivenOptions) -> JobAccess:
    """The options of TLS and credentials.

    Raises:
        OptionIllegal: A file cannot be read, or a key is none; the text has nothing secret.
    """
    ca, key = options.text("tlsCa") or "", options.text("accessKey") or ""
    lifetime_ms = options.duration_ms("keyLifetime")
    if lifetime_ms is not None and not 60_000 <= lifetime_ms <= LIFETIME_MS_MAX:
        raise OptionIllegal("keyLifetime", "is 1m to 168h")
    access = JobAccess(
        tls_ca=ca,
        own_key=key,
        lifetime_ms=lifetime_ms or LIFETIME_MS,
    )
    if ca:
        _text_of("tlsCa", ca)
    if key:
        try:
            access._own_source()  # noqa: SLF001 - of this module.
        except IllegalArgument as error:
            # A text that is no key may be one all the same: it is not repeated.
            words = str(error) if _PEM in key else "neither a file that can be read, nor a key"
            raise OptionIllegal("accessKey", words) from None
    return access


def given_access(given: Mapping[str, str]) -> JobAccess:
    """The same of all options of a query.

    Raises:
        OptionIllegal: As above.
    """
    some = {name: value for name, value in given.items() if name.lower() in ACCESS_OPTIONS}
    return access_options(GivenOptions(some, Use.WRITE))


def without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """Options that may travel to tasks."""
    return {name: each for name, each in options.items() if name.lower() not in SECRET_OPTIONS}


def rights_to_read(topics: Iterable[str]) -> list[Right]:
    """What tasks that read topics have to do."""
    return [Right("TOPIC", ("SUBSCRIBE",), topic) for topic in sorted(set(topics))]


def rights_to_write(topics: Iterable[str | None], *, exactly_once: bool) -> list[Right]:
    """What tasks that write have to do, and their commit; None: topics that rows name."""
    rights = [
        Right("TOPIC", ("PUBLISH", "CREATE"), topic)
        for topic in sorted({topic or "" for topic in topics})
    ]
    return [*rights, Right("SINK", ("GET", "UPDATE"))] if exactly_once else rights


def _entry(right: Right) -> Any:
    from ariane.common.v1 import access_pb2, access_rules_pb2  # noqa: PLC0415 - only with keys.

    return access_rules_pb2.AccessEntry(
        decision=access_rules_pb2.ACCESS_DECISION_ALLOW,
        resource=access_pb2.Resource.Value(f"RESOURCE_{right.resource}"),
        pattern=(
            access_rules_pb2.NAME_PATTERN_LITERAL
            if right.name
            else access_rules_pb2.NAME_PATTERN_ANY
        ),
        name=right.name,
        actions=[access_pb2.Action.Value(f"ACTION_{action}") for action in right.actions],
    )


def _text_of(option: str, value: str) -> str:
    if _PEM in value:
        return value
    try:
        text = Path(value).read_text("ascii")
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else "is no file of certificates"
        raise OptionIllegal(option, f"{value}: {words}") from None
    if _PEM not in text:
        raise OptionIllegal(option, f"{value}: is no file of certificates")
    return text
