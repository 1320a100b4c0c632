"""Settings: one frozen, typed class for each service, built once, from four places.

The first source of these counts: flags, environment (``ARIANE_BROKER_STORE_PATH``), TOML file
(``--config``), defaults. A key has one name everywhere: ``store_path`` in the file,
``--store-path`` as a flag. For an unknown key or an illegal value the process writes one line that
names the source, and does not start.

A service derives its class and describes every field: unit, meaning, and why this default::

    class NamesrvSettings(ServiceSettings):
        service_name: ClassVar[str] = "namesrv"
        silence_max_s: float = Field(120, gt=0, description="Seconds after which ...")

Building an instance directly, as tests do, reads neither file nor environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    SecretStr,
    model_validator,
)

from ariane_servicekit.addresses import Address
from ariane_servicekit.configuration.backend_urls import HINTS, plain_kind
from ariane_servicekit.configuration.openid_settings import OpenIdSettings
from ariane_servicekit.observability.logs import LogFormat, LogLevel
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_wire import LoopName, is_source

CHANGEABLE: Final[dict[str, Any]] = {"changeable": True}
"""``Field(..., json_schema_extra=CHANGEABLE)``: the setting may change at run time."""


def _split(value: object) -> object:
    return (
        tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value
    )


def _parse_address(value: object) -> object:
    return Address.parse(value) if isinstance(value, str) else value


CommaSeparated = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""A list of words, ``a,b,c`` in flags and environment; a file may also give an array."""

ListenAddress = Annotated[Address, BeforeValidator(_parse_address), PlainSerializer(str)]
"""An ``Address``, written ``host:port``."""


def _parse_addresses(value: object) -> object:
    split = _split(value)
    return tuple(map(_parse_address, split)) if isinstance(split, tuple | list) else split


def _address_texts(addresses: tuple[Address, ...]) -> list[str]:
    return list(map(str, addresses))


AddressList = Annotated[
    tuple[Address, ...], BeforeValidator(_parse_addresses), PlainSerializer(_address_texts)
]
"""Addresses, ``host:port,host:port``."""


def _check_name_servers(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        if not is_source(text):
            try:
                Address.parse(text)
            except ValueError as error:
                raise ValueError(f"{error}, dns:HOST:PORT, file:PATH or URL") from error
    return texts


def _split_texts(value: object) -> object:
    """As ``_split``; code may give ``Address`` objects, too."""
    split = _split(value)
    return tuple(map(str, split)) if isinstance(split, tuple | list) else split


def _network_of(text: object) -> object:
    return ip_network(text) if isinstance(text, str) else text


def _network_texts(networks: tuple[IPv4Network | IPv6Network, ...]) -> list[str]:
    return list(map(str, networks))


def _parse_networks(value: object) -> object:
    split = _split(value)
    return tuple(map(_network_of, split)) if isinstance(split, tuple | list) else split


NetworkList = Annotated[
    tuple[IPv4Network | IPv6Network, ...],
    BeforeValidator(_parse_networks),
    PlainSerializer(_network_texts),
]
"""Networks, ``10.1.0.0/16,fd00::/8``."""

NameServerList = Annotated[
    tuple[str, ...], BeforeValidator(_split_texts), AfterValidator(_check_name_servers)
]
"""Name servers: addresses, and sources of addresses (``ariane_wire.AddressSources``)."""

NAME_SERVER_FORMS: Final = (
    "host:port,host:port; in place of an address also dns:HOST:PORT for all addresses of a name, "
    "file:PATH or a URL for a list, which are read again while the process runs."
)
"""What descriptions of settings say of ``NameServerList``."""


class ServiceSettings(OpenIdSettings):
    """Settings that every service has."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, arbitrary_types_allowed=True
    )

    _sources: Mapping[str, str] = PrivateAttr(default_factory=dict)

    service_name: ClassVar[str] = ""
    """Names the service in environment (upper case), logs and metrics."""
    example: ClassVar[str] = "--listen 127.0.0.1:0"
    """Flags that ``--help`` shows as an example."""

    listen: ListenAddress = Field(
        Address("127.0.0.1", 0),
        description="Address to listen on, host:port; port 0 lets the system choose one. "
        "Loopback by default: nothing outside this machine reaches a service by accident.",
    )
    insecure: bool = Field(
        default=False,
        description="Allow to listen beyond loopback without credentials: whoever reaches the "
        "port may then do everything. For networks that are closed by other means. With "
        "tls_certificate: also take plain text, while clients go over to TLS, and have access "
        "other than closed.",
    )
    access: AccessMode = Field(
        AccessMode.OPEN,
        description="Who may call. open: everybody, everything, without rights; learn: the same, "
        "and what would be refused is counted and logged; closed: users within their rights, and "
        "members of the cluster.",
        json_schema_extra=CHANGEABLE,
    )
    super_users: CommaSeparated = Field(
        (),
        description="Users that may do everything here, whatever the rules of the admin service "
        "say: the first one of a new cluster, and the one for the day when admin is gone.",
    )
    proxy_networks: NetworkList = Field(
        (),
        description="Networks of load balancers, such as 10.1.0.0/24,fd00::/64. Their connections "
        "must begin with the header of the PROXY protocol, version 2, and count as those of the "
        "client that it names: in rights by network, quotas, logs and the audit trail. One without "
        "a header is dropped; from anywhere else nobody can send one.",
    )
    access_rules_file: Path | None = Field(
        None,
        description="File that keeps the rules that the admin service sent. Unset: after a restart "
        "a closed service knows super users and members only, until admin has called.",
    )
    access_rules_s_max: float = Field(
        86_400,
        gt=0,
        description="Seconds that rules hold after the last word of the admin service. After that "
        "a closed service serves super users and members only.",
    )
    insecure_backends: bool = Field(
        default=False,
        description="With access closed, allow a database, a collector and a webhook on other "
        "machines without TLS that proves who answers: whoever is on the way may then read and "
        "change what is said. For a network that these share with the service alone. The log says "
        "so every minute.",
    )
    log_format: LogFormat = Field(
        "json", description="json: one object a line, for machines; text: for a terminal."
    )
    log_level: LogLevel = Field(
        "info",
        description="The least level that is written. Refused calls are info, faults are error.",
    )
    metrics_listen: ListenAddress | None = Field(
        None,
        description="Address where Prometheus reads metrics, host:port, path /metrics. Unset: "
        "none. Whoever reaches it reads names of topics and groups, nothing else. With "
        "tls_certificate, and beyond loopback: TLS, for those who have a certificate.",
    )
    otlp_endpoint: str = Field(
        "",
        pattern=r"^(|https?://[^@?\s]+)$",
        description="Collector that gets metrics and spans by OTLP over gRPC, such as "
        "https://otel-collector:4317; http:// is plain text. Empty: none.",
    )
    otlp_interval_s: float = Field(
        30, ge=1, description="Seconds between two exports to the collector."
    )
    ready_file: Path | None = Field(
        None,
        description="File that receives the ready line when the service serves, for those who "
        "cannot read its standard output. Removed when the service stops.",
    )
    reflection: bool | None = Field(
        None,
        description="Whether to answer server reflection, which lets tools list the methods. "
        "Unset: only on a loopback address, and not while access is closed, since it tells "
        "strangers what to try.",
    )
    receive_bytes_max: int = Field(
        5 << 20,
        ge=1 << 16,
        description="Largest request in bytes. 4 MiB of records, and 1 MiB for their columns.",
    )
    metadata_bytes_max: int = Field(
        8 << 10,
        ge=1 << 10,
        description="Metadata of a request in bytes beyond which gRPC begins to refuse; it "
        "refuses all beyond twice as much. Our own need less than 1 KiB.",
    )
    concurrent_calls_max: int = Field(
        4096,
        ge=1,
        description="Calls in work at once, streams and held pulls included; more are refused "
        "with SERVICE_BUSY. A producer has a few while it sends, and none otherwise. Each costs "
        "some 6 KiB and its request. One connection may have a quarter of them, one host three "
        "quarters.",
        json_schema_extra=CHANGEABLE,
    )
    keepalive_interval_s: float = Field(
        60,
        ge=1,
        description="Seconds of silence on a connection after which the service asks whether the "
        "client lives. Finds dead clients that hold streams open.",
    )
    keepalive_wait_s: float = Field(
        20, ge=1, description="Seconds that a client has to answer that before it is cut off."
    )
    ping_interval_min_s: float = Field(
        10,
        ge=0,
        description="Seconds that a client must leave between its own keepalive pings; one that "
        "pings faster is cut off. Our SDK leaves 30 s.",
    )
    event_loop: LoopName = Field(
        "uvloop",
        description="The event loop that the process runs on. uvloop: the faster one, or asyncio's "
        "where it is not installed; asyncio: Python's own.",
    )
    drain_s_max: float = Field(
        10,
        gt=0,
        description="Seconds that draining may take: goodbye to the name servers, held pulls "
        "answered. What is not done by then is left.",
    )
    grace_s: float = Field(
        5, ge=0, description="Seconds that calls in work have to end after the drain."
    )

    @model_validator(mode="after")
    def _closed_by_default(self) -> Self:
        if self.insecure:
            return self
        if not self.listen.is_loopback and not self.has_tls:
            msg = (
                f"listen: {self.listen} is reachable from other machines and this service has no "
                "credentials; use 127.0.0.1, or insecure to say that the network is closed"
            )
            raise ValueError(msg)
        if not self.listen.is_loopback and self.access is not AccessMode.CLOSED:
            msg = (
                f"access: {self.listen} is reachable from other machines, and access is "
                f"{self.access.value} to all who reach it; use access closed, or insecure to say "
                "that the network is closed"
            )
            raise ValueError(msg)
        metrics = self.metrics_listen
        if metrics is not None and not metrics.is_loopback and not self.has_tls:
            msg = (
                f"metrics_listen: {metrics} is reachable from other machines and this service has "
                "no certificate; use 127.0.0.1, or insecure to say that the network is closed"
            )
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _backends_are_private(self) -> Self:
        if self.access is not AccessMode.CLOSED or self.insecure or self.insecure_backends:
            return self
        for name, kind in self.plain_backends.items():
            msg = (
                f"{name}: what is said there would be read on the way; {HINTS[kind]}, or "
                "insecure_backends to say that the network between is closed"
            )
            raise ValueError(msg)
        return self

    @property
    def backend_urls(self) -> Mapping[str, str]:
        """The URLs of what the service calls beside the cluster, by setting; empty for none."""
        return {"otlp_endpoint": self.otlp_endpoint}

    @property
    def plain_backends(self) -> Mapping[str, str]:
        """The settings that name another machine without TLS, each with its kind in ``HINTS``."""
        kinds = {name: plain_kind(url) for name, url in self.backend_urls.items()}
        return {name: kind for name, kind in kinds.items() if kind is not None}

    @property
    def member_cluster(self) -> str:
        """The name of the cluster that the process belongs to; empty where no setting tells it."""
        return ""

    @property
    def member_name(self) -> str:
        """The name of the process among members of its kind; empty for one without."""
        return ""

    @property
    def reflection_on(self) -> bool:
        """Whether reflection is served."""
        if self.reflection is not None:
            return self.reflection
        return self.listen.is_loopback and self.access is not AccessMode.CLOSED

    def shown(self) -> Mapping[str, Any]:
        """Return all values as plain JSON, secrets masked, for logs and administration."""
        return self.model_dump(mode="json", fallback=str)

    def secrets(self) -> list[str]:
        """Return the values that are never shown."""
        values = (getattr(self, name) for name in type(self).model_fields)
        return [each.get_secret_value() for each in values if isinstance(each, SecretStr)]

    def source_of(self, name: str) -> str:
        """Return where a setting comes from: default, file, environment or flag."""
        return self._sources.get(name, "default")

    def from_sources(self, sources: Mapping[str, str]) -> Self:
        """Remember where each value that is not a default comes from; return itself."""
        self._sources = sources
        return self

    def with_value(self, name: str, text: str) -> Self:
        """Return these settings with one other value, checked as at the start.

        Raises:
            pydantic.ValidationError: The value is illegal, alone or beside the others.
        """
        values = {other: getattr(self, other) for other in type(self).model_fields}
        changed = type(self).model_validate({**values, name: text})
        return changed.from_sources(self._sources)
