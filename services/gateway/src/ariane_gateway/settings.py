"""Settings of a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, model_validator

from ariane_servicekit import (
    CHANGEABLE,
    NAME_SERVER_FORMS,
    Address,
    AddressList,
    ListenAddress,
    NameServerList,
    ServiceSettings,
)


class GatewaySettings(ServiceSettings):
    """Gateway of ArianeMQ: serves the clients of RocketMQ 5, unmodified."""

    service_name: ClassVar[str] = "gateway"
    example: ClassVar[str] = "--name-servers 127.0.0.1:9876 --listen 127.0.0.1:8081"

    listen: ListenAddress = Field(
        Address("127.0.0.1", 8081),
        description="Address to listen on, host:port; with port 0 the system chooses one. 8081 is "
        "the port that RocketMQ's own proxy has. The default is loopback, so that nothing outside "
        "this machine reaches a service by accident.",
    )
    name_servers: NameServerList = Field(
        ("127.0.0.1:9876",),
        description="All name servers, which say where topics are. " + NAME_SERVER_FORMS,
    )
    advertised_address: ListenAddress | None = Field(
        None,
        description="Address that clients are told to use for all further calls, host:port. "
        "Unset: the one by which each client came, as it says itself, which is right behind a "
        "balancer and a port mapping, too.",
    )
    front_certificate: Path | None = Field(
        None,
        description="Certificate that clients are shown, PEM, with those between it and its "
        "authority. Plain text is taken at the same port. Unset: tls_certificate, and without "
        "that a pair of its own.",
    )
    front_key: Path | None = Field(None, description="Private key of front_certificate, PEM.")
    self_signed: bool = Field(
        default=True,
        description="Whether to make a pair at the start where no certificate is given, and to "
        "take TLS beside plain text. The clients of Java, Go, C++ and C# speak TLS unless told "
        "otherwise, and look at no certificate. It keeps out nobody.",
    )
    admins: AddressList = Field(
        (),
        description="Admins of the cluster, host:port,host:port, which share a database; one of "
        "them tells the keys of RocketMQ's clients (ariane credential import-rocketmq). Each call "
        "must then be signed with one of them. It needs tls_certificate: admin tells them to a "
        "gateway of the cluster only.",
    )
    admin_keys_file: Path | None = Field(
        None,
        description="File that keeps the keys that admin told, sealed with a key made of tls_key. "
        "They hold as long as rules do, access_rules_s_max. Unset: a gateway that starts while "
        "admin is away refuses everybody until admin is back.",
    )
    access_keys: Path | None = Field(
        None,
        description="For a cluster without admin: file of RocketMQ access keys, one "
        "ACCESS_KEY:SECRET_KEY a line; # begins a comment. Each call must then be signed with one "
        "of them. Read again when it changes. Without this and admins, whoever reaches the port "
        "may send and receive, and signatures are not looked at.",
    )
    receive_bytes_max: int = Field(
        5 << 20,
        ge=1 << 16,
        description="Largest request in bytes: a message of 4 MiB and its properties.",
    )
    metadata_bytes_max: int = Field(
        16 << 10,
        ge=1 << 10,
        description="Metadata of a request in bytes beyond which gRPC begins to refuse. Clients "
        "send ten headers with each call, a signature and a session token among them.",
    )
    concurrent_calls_max: int = Field(
        65_536,
        ge=1,
        description="Most calls in work at once; more are refused with SERVICE_BUSY. Each client "
        "has a stream open, and each consumer one held receive for each topic and broker. One "
        "connection may have a quarter of them, one host three quarters.",
        json_schema_extra=CHANGEABLE,
    )
    clients_max: int = Field(
        50_000,
        ge=1,
        description="Most clients of which brokers are told, so that they can be asked and their "
        "messages kept. Further ones send and receive all the same. Each costs some 26 KiB here "
        "and 3 KiB at each broker.",
    )
    ping_interval_min_s: float = Field(
        5,
        ge=0,
        description="Seconds that a client must leave between its own keepalive pings; one that "
        "pings faster is cut off.",
    )
    call_timeout_s: float = Field(
        3.0, gt=0, description="Longest time of a call to a broker or name server, in seconds."
    )
    send_timeout_s: float = Field(
        10.0,
        gt=0,
        description="Longest time of a send in seconds, repeats at other brokers included; less "
        "where the client's own deadline is earlier.",
    )
    body_bytes_max: int = Field(
        4 << 20,
        ge=1 << 10,
        description="Largest body in bytes. Clients are told, and refuse larger ones themselves.",
    )
    buffered_bytes_max: int = Field(
        64 << 20,
        ge=1 << 20,
        description="Bytes of messages that wait for brokers; beyond that, senders wait.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.admins and self.access_keys is not None:
            raise ValueError("access_keys: not beside admins, which tell the keys")
        if self.admin_keys_file is not None and not self.admins:
            raise ValueError("admin_keys_file: it needs admins, which tell the keys")
        if self.admins and not self.has_tls:
            raise ValueError("admins: they need tls_certificate, tls_key and tls_members")
        if (self.front_certificate is None) != (self.front_key is None):
            raise ValueError("front_certificate: it needs front_key, and front_key needs it")
        return self
